"""Reading from the storage, past the writer and never waiting for it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage import statements as sql
from agent_runtime.storage.effect_key import effect_key_range, effect_position
from agent_runtime.storage.protocol import (
    AgentRow,
    ConnectionRow,
    DestroyedAgent,
    EffectRow,
    FeedRow,
    InboxMark,
    InvocationRow,
    MutationRow,
    OutboxRow,
    StoredState,
)
from agent_runtime.storage.session_dialect import SessionDialect
from agent_runtime.storage.session_reads import SqlSessionReads
from agent_runtime.storage.sql_transaction import (
    Run,
    connection_row,
    destroyed_agent,
    effect_row,
    invocation_row,
)

_NEWEST = 2**62


class SqlReads:
    """The reading half of `Storage` but its change mark, as statements of either engine.

    Args:
        read: Runs one statement and returns its rows.
        dialect: What the engine spells in its own way about sessions.
    """

    def __init__(self, read: Run, dialect: SessionDialect) -> None:
        self._read = read
        self._sessions = SqlSessionReads(read, dialect)

    @property
    def sessions(self) -> SqlSessionReads:
        """See `Storage.sessions`."""
        return self._sessions

    async def read_state(self, ref: AgentRef) -> StoredState | None:
        """See `Storage.read_state`."""
        for _, _, agent_id, version, state, full_version, updated_at in await self._read(
            sql.READ_STATE, ref
        ):
            return StoredState(agent_id, version or 0, state, full_version or 0, updated_at or 0)
        return None

    async def read_history(
        self, ref: AgentRef, *, newest: int | None = None, limit: int = 100
    ) -> list[MutationRow]:
        """See `Storage.read_history`."""
        bound = _NEWEST if newest is None else newest
        return [
            _mutation_row(row) for row in await self._read(sql.READ_HISTORY, (*ref, bound, limit))
        ]

    async def read_version(self, ref: AgentRef, version: int) -> list[MutationRow]:
        """See `Storage.read_version`."""
        stored = await self.read_state(ref)
        if stored is None:
            return []
        params = {"agent_id": stored.agent_id, "version": version}
        return [_mutation_row(row) for row in await self._read(sql.READ_VERSION, params)]

    async def read_answer(self, batch_id: str) -> str | None:
        """See `Storage.read_answer`."""
        for (outcomes,) in await self._read(sql.READ_ANSWER, (batch_id,)):
            return str(outcomes)
        return None

    async def read_feed(self, after: int, limit: int) -> list[FeedRow]:
        """See `Storage.read_feed`."""
        return [
            FeedRow(seq, AgentRef(agent, name), kind, version, payload, bool(is_full), source, key)
            for seq, agent, name, kind, version, payload, is_full, source, key in await self._read(
                sql.READ_FEED, (after, limit)
            )
        ]

    async def read_feed_end(self) -> int:
        """See `Storage.read_feed_end`."""
        [(end,)] = await self._read(sql.READ_FEED_END, ())
        return int(end)

    async def read_connections(self, ref: AgentRef) -> list[ConnectionRow]:
        """See `Storage.read_connections`."""
        return [connection_row(row) for row in await self._read(sql.READ_CONNECTIONS, ref)]

    async def read_outbox(self, after: int, limit: int) -> list[OutboxRow]:
        """See `Storage.read_outbox`."""
        rows = await self._read(sql.READ_OUTBOX, (after, limit))
        return [
            OutboxRow(agent_id, kind, version, payload, created_at, seq)
            for agent_id, kind, version, payload, created_at, seq in rows
        ]

    async def read_invocations(
        self, keys: Sequence[tuple[AgentRef, str]]
    ) -> dict[tuple[AgentRef, str], InvocationRow]:
        """See `Storage.read_invocations`."""
        wanted = orjson.dumps([[*ref, key] for ref, key in keys]).decode()
        found = {}
        for class_name, name, *row in await self._read(sql.READ_INVOCATIONS, (wanted,)):
            invocation = invocation_row(row)
            found[AgentRef(class_name, name), invocation.key] = invocation
        return found

    async def read_inbox(self, agent_id: int, after: int, limit: int) -> list[InvocationRow]:
        """See `Storage.read_inbox`."""
        rows = await self._read(sql.READ_INBOX, (agent_id, after, limit))
        return [invocation_row(row) for row in rows]

    async def read_inbox_marks(self, agent_ids: Sequence[int]) -> dict[int, InboxMark]:
        """See `Storage.read_inbox_marks`."""
        rows = await self._read(sql.READ_INBOX_MARKS, (orjson.dumps(agent_ids).decode(),))
        return {agent_id: InboxMark(newest, cancelled) for agent_id, newest, cancelled in rows}

    async def read_living(self, agent_ids: Sequence[int]) -> set[int]:
        """See `Storage.read_living`."""
        rows = await self._read(sql.READ_LIVING, (orjson.dumps(agent_ids).decode(),))
        return {agent_id for (agent_id,) in rows}

    async def read_waiting_agents(self, before: int, limit: int) -> list[AgentRef]:
        """See `Storage.read_waiting_agents`."""
        rows = await self._read(sql.READ_WAITING_AGENTS, (before, limit))
        return [AgentRef(*row) for row in rows]

    async def read_effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """See `Storage.read_effects`."""
        effects = [
            effect_row(row) for row in await self._read(sql.READ_EFFECTS, (*ref, invocation))
        ]
        low, high = effect_key_range(invocation)
        for row in await self._read(sql.READ_MUTATION_EFFECTS, (*ref, low, high)):
            mutation = _mutation_row(row)
            effects.append(
                EffectRow(
                    mutation.agent_id,
                    invocation,
                    effect_position(mutation.key or ""),
                    mutation.kind,
                    mutation.fingerprint or "",
                    str(mutation.version),
                    mutation.created_at,
                )
            )
        return sorted(effects, key=lambda effect: effect.position)

    async def read_unfinished(
        self, before: int, limit: int, *, ref: AgentRef | None = None
    ) -> list[DestroyedAgent]:
        """See `Storage.read_unfinished`."""
        if ref is None:
            rows = await self._read(sql.READ_UNFINISHED, (before, limit))
        else:
            rows = await self._read(sql.READ_UNFINISHED_OF_AGENT, (*ref, before, limit))
        return [destroyed_agent(row) for row in rows]

    async def list_agents(
        self, *, class_name: str | None = None, after: AgentRef | None = None, limit: int = 100
    ) -> list[AgentRow]:
        """See `Storage.list_agents`."""
        start = after or AgentRef("", "")
        params = {
            "class_name": class_name,
            "after_class": start.class_name,
            "after_name": start.name,
            "limit": limit,
        }
        statement = sql.LIST_AGENTS if class_name is None else sql.LIST_AGENTS_OF_CLASS
        return [
            AgentRow(AgentRef(class_name, name), version, created_at, updated_at)
            for class_name, name, version, created_at, updated_at in await self._read(
                statement, params
            )
        ]


def _mutation_row(row: Sequence[Json]) -> MutationRow:
    agent_id, version, key, fingerprint, kind, source, value, is_full, created_at = row
    return MutationRow(
        agent_id, version, key, fingerprint, kind, source, value, bool(is_full), created_at
    )
