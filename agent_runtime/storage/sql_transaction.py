"""The operations of a unit of work, as statements of either engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import orjson

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import AgentDestroyedError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage import statements as sql
from agent_runtime.storage.context_statements import DELETE_OPERATIONS
from agent_runtime.storage.effect_key import journal_key_range
from agent_runtime.storage.job_statements import DELETE_USAGE
from agent_runtime.storage.protocol import (
    DESTROYED,
    ConnectionRow,
    DestroyedAgent,
    EffectRow,
    InvocationRow,
    MutationRow,
    OutboxRow,
    Retention,
    StoredReceipt,
    StoredState,
    Transaction,
)
from agent_runtime.storage.session_dialect import SessionDialect
from agent_runtime.storage.session_writes import SqlSessionWrites

Params = Sequence[Json] | Mapping[str, Json]
Run = Callable[[str, Params], Awaitable[list[tuple[Json, ...]]]]
RunMany = Callable[[str, Iterable[Sequence[Json]]], Awaitable[None]]

# In the column for a connection's flag, where 1 is one that the agent can take back.
_READONLY_TOKEN = 2


class SqlTransaction(Transaction):
    """`Transaction` as named statements, each one hop or round trip to the database.

    Args:
        run: Runs one statement and returns its rows.
        run_many: Runs one statement for each row of values.
        dialect: What the engine spells in its own way about sessions.
    """

    def __init__(self, run: Run, run_many: RunMany, dialect: SessionDialect) -> None:
        self._run = run
        self._run_many = run_many
        self._sessions = SqlSessionWrites(run, run_many, dialect, self._agent_number)

    @property
    def sessions(self) -> SqlSessionWrites:
        """See `Transaction.sessions`."""
        return self._sessions

    async def _agent_number(self, ref: AgentRef) -> int:
        return (await self.load_states([ref]))[ref].agent_id

    async def load_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """See `Transaction.load_states`."""
        found = await self.find_states(refs)
        missing = [ref for ref in refs if ref not in found]
        if missing:
            now = now_milliseconds()
            # In one order everywhere: two processes that make the same agents must not deadlock.
            await self._run_many(sql.ADD_AGENT, [(*ref, now) for ref in sorted(missing)])
            found |= await self.find_states(missing)
        return found

    async def find_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """See `Transaction.find_states`."""
        rows = await self._run(sql.LOAD_STATES, (orjson.dumps([[*ref] for ref in refs]).decode(),))
        return {
            AgentRef(class_name, name): StoredState(
                agent_id, version or 0, state, full_version or 0, updated_at or 0
            )
            for class_name, name, agent_id, version, state, full_version, updated_at in rows
        }

    async def load_receipts(
        self, keys: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], StoredReceipt]:
        """See `Transaction.load_receipts`."""
        rows = await self._run(sql.LOAD_RECEIPTS, (orjson.dumps(keys).decode(),))
        return {
            (agent_id, key): StoredReceipt(version, kind, fingerprint)
            for agent_id, key, version, kind, fingerprint in rows
        }

    async def add_mutations(self, rows: Sequence[MutationRow]) -> None:
        """See `Transaction.add_mutations`."""
        await self._run_many(
            sql.ADD_MUTATION,
            [
                (
                    row.agent_id,
                    row.version,
                    row.key,
                    row.fingerprint,
                    row.kind,
                    row.source,
                    row.is_full,
                    row.created_at,
                    row.value,
                )
                for row in rows
            ],
        )

    async def put_states(self, rows: Sequence[StoredState]) -> None:
        """See `Transaction.put_states`."""
        await self._run_many(
            sql.PUT_STATE,
            [
                (row.agent_id, row.version, row.full_version, row.updated_at, row.state)
                for row in rows
            ],
        )

    async def add_outbox(self, rows: Sequence[OutboxRow]) -> None:
        """See `Transaction.add_outbox`."""
        await self._run_many(
            sql.ADD_OUTBOX,
            [(row.agent_id, row.kind, row.version, row.created_at, row.payload) for row in rows],
        )

    async def put_connection(self, row: ConnectionRow) -> None:
        """See `Transaction.put_connection`."""
        await self._run(
            sql.PUT_CONNECTION,
            (
                row.socket,
                row.agent_id,
                row.connection_id,
                row.gateway,
                row.uri,
                row.tags,
                _READONLY_TOKEN if row.has_readonly_token else int(row.is_readonly),
                row.has_protocol,
                row.opened_at,
                row.state,
            ),
        )

    async def delete_connections(self, sockets: Sequence[str]) -> None:
        """See `Transaction.delete_connections`."""
        await self._run_many(sql.DELETE_CONNECTION, [(socket,) for socket in sockets])

    async def note_gateway(self, gateway: str, now: int) -> bool:
        """See `Transaction.note_gateway`."""
        known = await self._run(sql.READ_GATEWAY, (gateway,))
        await self._run(sql.PUT_GATEWAY, (gateway, now))
        return bool(known)

    async def delete_gateway(self, gateway: str) -> None:
        """See `Transaction.delete_gateway`."""
        await self._run(sql.DELETE_GATEWAY_CONNECTIONS, (gateway,))
        await self._run(sql.DELETE_GATEWAY, (gateway,))

    async def delete_dead_gateways(self, seen_before: int) -> list[tuple[AgentRef, ConnectionRow]]:
        """See `Transaction.delete_dead_gateways`."""
        lost = []
        for (gateway,) in await self._run(sql.READ_DEAD_GATEWAYS, (seen_before,)):
            for class_name, name, *row in await self._run(sql.READ_GATEWAY_CONNECTIONS, (gateway,)):
                lost.append((AgentRef(class_name, name), connection_row(row)))
            await self.delete_gateway(gateway)
        return lost

    async def add_answer(self, batch_id: str, outcomes: str, created_at: int) -> None:
        """See `Transaction.add_answer`."""
        await self._run(sql.ADD_ANSWER, (batch_id, created_at, outcomes))

    async def load_invocations(
        self, keys: Sequence[tuple[int, str]]
    ) -> dict[tuple[int, str], InvocationRow]:
        """See `Transaction.load_invocations`."""
        rows = await self._run(sql.LOAD_INVOCATIONS, (orjson.dumps(keys).decode(),))
        found = [invocation_row(row) for row in rows]
        return {(row.agent_id, row.key): row for row in found}

    async def add_invocations(self, rows: Sequence[InvocationRow]) -> None:
        """See `Transaction.add_invocations`."""
        await self._run_many(
            sql.ADD_INVOCATION,
            [
                (
                    row.agent_id,
                    row.key,
                    row.kind,
                    row.method,
                    row.request,
                    row.fingerprint,
                    row.created_at,
                )
                for row in rows
            ],
        )

    async def cancel_invocations(self, keys: Sequence[tuple[int, str]]) -> None:
        """See `Transaction.cancel_invocations`."""
        await self._run_many(sql.CANCEL_INVOCATION, keys)

    async def finish_invocations(self, rows: Sequence[InvocationRow]) -> None:
        """See `Transaction.finish_invocations`."""
        now = now_milliseconds()
        await self._run_many(
            sql.FINISH_INVOCATION, [(row.outcome, now, row.agent_id, row.key) for row in rows]
        )
        await self._delete_effects([(row.agent_id, row.key) for row in rows])

    async def delete_invocations(self, keys: Sequence[tuple[int, str]]) -> None:
        """See `Transaction.delete_invocations`."""
        await self._run_many(sql.DELETE_INVOCATION, keys)
        await self._delete_effects(keys)

    async def _delete_effects(self, keys: Sequence[tuple[int, str]]) -> None:
        await self._run_many(
            sql.DELETE_EFFECTS, [(agent, *journal_key_range(key)) for agent, key in keys]
        )

    async def add_effect(self, row: EffectRow) -> EffectRow:
        """See `Transaction.add_effect`."""
        values = (row.kind, row.fingerprint, row.created_at, row.result)
        await self._run_many(
            sql.ADD_EFFECT, [(row.agent_id, row.invocation, row.position, *values)]
        )
        [stored] = await self._run(sql.READ_EFFECT, (row.agent_id, row.invocation, row.position))
        return effect_row(stored)

    async def hold_agent(self, agent_id: int) -> None:
        """See `Transaction.hold_agent`."""
        if not await self._run(sql.HOLD_AGENT, (agent_id,)):
            raise AgentDestroyedError("the agent was destroyed; nothing was stored")

    async def find_destroyed(self, ref: AgentRef, key: str) -> DestroyedAgent | None:
        """See `Transaction.find_destroyed`."""
        for row in await self._run(sql.FIND_DESTROYED, (*ref, key)):
            return destroyed_agent(row)
        return None

    async def delete_agent(
        self, agent: DestroyedAgent, *, outcome: str, without_call: str | None = None
    ) -> None:
        """See `Transaction.delete_agent`."""
        number, at = agent.agent_id, agent.destroyed_at
        fields = (number, *agent.ref, agent.key, agent.version, at, agent.is_finished)
        await self._run(sql.LOCK_AGENT, (number,))
        await self._run(sql.ADD_DESTROYED, fields)
        calls = {"agent_id": number, "outcome": outcome, "without_call": without_call}
        await self._run(sql.KEEP_CALLS, calls)
        for statement in sql.DELETE_AGENT:
            await self._run(statement, (number,))
        await self.add_outbox([OutboxRow(number, DESTROYED, agent.version, None, at)])

    async def finish_destroyed_call(self, agent_id: int, key: str, outcome: str) -> None:
        """See `Transaction.finish_destroyed_call`."""
        await self._run(sql.FINISH_DESTROYED_CALL, (outcome, agent_id, key))

    async def finish_destroyed(self, agent_id: int, outcome: str) -> None:
        """See `Transaction.finish_destroyed`."""
        await self._run(sql.FINISH_DESTROYED_CALLS, (outcome, agent_id))
        await self._run(sql.FINISH_DESTROYED, (agent_id,))

    async def prune_destroyed(self, before: int) -> None:
        """See `Transaction.prune_destroyed`."""
        await self._run(sql.DELETE_DESTROYED_CALLS, (before,))
        await self._run(sql.DELETE_DESTROYED, (before,))

    async def prune_agent(self, agent_id: int, retention: Retention, now: int) -> None:
        """See `Transaction.prune_agent`."""
        await self._run(
            sql.DELETE_HISTORY_VALUES,
            {
                "agent_id": agent_id,
                "history_count": max(retention.history_count, 1),
                "history_bytes": retention.history_bytes,
            },
        )
        expired = now - int(retention.receipt_age.total_seconds() * 1000)
        limits = {"agent_id": agent_id, "expired": expired, "count": retention.receipt_count}
        await self._run(sql.DELETE_RECEIPTS, limits)
        await self._run(sql.DELETE_INVOCATIONS, limits)
        await self._run(DELETE_OPERATIONS, (agent_id, expired))
        await self._run(DELETE_USAGE, limits)

    async def prune_feed(self, before: int) -> None:
        """See `Transaction.prune_feed`."""
        await self._run(sql.DELETE_OUTBOX, (before,))
        await self._run(sql.DELETE_ANSWERS, (before,))


def invocation_row(row: Sequence[Json]) -> InvocationRow:
    """Read an invocation's columns in the order the statements select them."""
    *fields, is_cancelled, outcome, number = row
    agent_id, key, kind, method, request, fingerprint, created_at = fields
    return InvocationRow(
        agent_id,
        key,
        kind,
        method,
        request,
        fingerprint,
        created_at,
        bool(is_cancelled),
        outcome,
        number,
    )


def effect_row(row: Sequence[Json]) -> EffectRow:
    """Read an effect's columns in the order the statements select them."""
    return EffectRow(*row)


def destroyed_agent(row: Sequence[Json]) -> DestroyedAgent:
    """Make a destroyed agent of a row."""
    agent_id, class_name, name, key, version, destroyed_at, is_finished = row
    ref = AgentRef(class_name, name)
    return DestroyedAgent(agent_id, ref, key, version, destroyed_at, bool(is_finished))


def connection_row(row: Sequence[Json]) -> ConnectionRow:
    """Make a connection of a row."""
    socket, agent_id, connection_id, gateway, uri, tags, *flags, opened_at, state = row
    is_readonly, has_protocol = flags
    return ConnectionRow(
        socket,
        agent_id,
        connection_id,
        gateway,
        uri,
        tags,
        bool(is_readonly),
        bool(has_protocol),
        opened_at,
        state,
        is_readonly == _READONLY_TOKEN,
    )
