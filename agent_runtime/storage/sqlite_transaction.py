"""The operations of a unit of work on SQLite."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import orjson

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage import sqlite_statements as sql
from agent_runtime.storage.protocol import (
    ConnectionRow,
    EffectRow,
    InvocationRow,
    MutationRow,
    OutboxRow,
    Retention,
    StoredReceipt,
    StoredState,
    Transaction,
)

Params = Sequence[Json] | Mapping[str, Json]
Run = Callable[[str, Params], Awaitable[list[tuple[Json, ...]]]]
RunMany = Callable[[str, Iterable[Sequence[Json]]], Awaitable[None]]


class SqliteTransaction(Transaction):
    """`Transaction` as named statements, each one hop to the connection's thread."""

    def __init__(self, run: Run, run_many: RunMany) -> None:
        self._run = run
        self._run_many = run_many

    async def load_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
        """See `Transaction.load_states`."""
        found = await self._find_states(refs)
        missing = [ref for ref in refs if ref not in found]
        if missing:
            now = time.time_ns() // 1_000_000
            await self._run_many(sql.ADD_AGENT, [(*ref, now) for ref in missing])
            found |= await self._find_states(missing)
        return found

    async def _find_states(self, refs: Sequence[AgentRef]) -> dict[AgentRef, StoredState]:
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
                row.is_readonly,
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
        now = time.time_ns() // 1_000_000
        await self._run_many(
            sql.FINISH_INVOCATION, [(row.outcome, now, row.agent_id, row.key) for row in rows]
        )
        await self._run_many(sql.DELETE_EFFECTS, [(row.agent_id, row.key) for row in rows])

    async def delete_invocations(self, keys: Sequence[tuple[int, str]]) -> None:
        """See `Transaction.delete_invocations`."""
        await self._run_many(sql.DELETE_INVOCATION, keys)
        await self._run_many(sql.DELETE_EFFECTS, keys)

    async def add_effect(self, row: EffectRow) -> EffectRow:
        """See `Transaction.add_effect`."""
        await self._run(
            sql.ADD_EFFECT,
            (
                row.agent_id,
                row.invocation,
                row.position,
                row.kind,
                row.fingerprint,
                row.created_at,
                row.result,
            ),
        )
        [stored] = await self._run(sql.READ_EFFECT, (row.agent_id, row.invocation, row.position))
        return effect_row(stored)

    async def prune_agent(self, agent_id: int, retention: Retention, now: int) -> None:
        """See `Transaction.prune_agent`."""
        await self._run(
            sql.DELETE_HISTORY_VALUES,
            {
                "agent_id": agent_id,
                "history_count": retention.history_count,
                "history_bytes": retention.history_bytes,
            },
        )
        expired = now - int(retention.receipt_age.total_seconds() * 1000)
        limits = {"agent_id": agent_id, "expired": expired, "count": retention.receipt_count}
        await self._run(sql.DELETE_RECEIPTS, limits)
        await self._run(sql.DELETE_INVOCATIONS, limits)

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
    )
