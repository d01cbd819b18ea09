"""Reading from the SQLite storage, past the writer and never waiting for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiosqlite
import orjson

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage import sqlite_statements as sql
from agent_runtime.storage.effect_key import effect_key_range, effect_position
from agent_runtime.storage.protocol import (
    AgentRow,
    ConnectionRow,
    EffectRow,
    FeedRow,
    InboxMark,
    InvocationRow,
    MutationRow,
    OutboxRow,
    StoredState,
)
from agent_runtime.storage.sqlite_errors import storage_errors
from agent_runtime.storage.sqlite_transaction import (
    connection_row,
    effect_row,
    invocation_row,
)

_NEWEST = 2**62


class SqliteReads:
    """The reading half of `Storage`, on a few connections of its own."""

    def __init__(self, path: Path, readers: list[aiosqlite.Connection]) -> None:
        self._path = path
        self._readers = readers
        self._turn = itertools.cycle(readers)

    async def _read(
        self, statement: str, params: Sequence[Json] | Mapping[str, Json]
    ) -> list[tuple[Json, ...]]:
        with storage_errors(str(self._path)):
            rows = await next(self._turn).execute_fetchall(statement, params)
        return list(rows)  # type: ignore[arg-type]

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

    async def read_change_mark(self) -> int:
        """See `Storage.read_change_mark`."""
        # Always the same connection: the number is one's own view of what others commit.
        with storage_errors(str(self._path)):
            [(mark,)] = await self._readers[0].execute_fetchall("PRAGMA data_version")
        return int(mark)

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
