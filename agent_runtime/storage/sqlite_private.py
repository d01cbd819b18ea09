"""The agents' own SQL: a private file per agent, opened on use, a bounded number at a time."""

from __future__ import annotations

import asyncio
import base64
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiosqlite
import orjson

from agent_runtime.errors import SqlError, StorageUnavailableError
from agent_runtime.identity import AgentRef, file_stem
from agent_runtime.json_value import Json
from agent_runtime.storage import sqlite_statements as statements
from agent_runtime.storage.protocol import EffectRow
from agent_runtime.storage.sqlite_errors import storage_errors

T = TypeVar("T")

MAX_OPEN = 64
_SCHEMA = """
CREATE TABLE IF NOT EXISTS _agent_runtime_owner (class_name TEXT NOT NULL, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS _agent_runtime_effects (
    agent_id INTEGER NOT NULL, invocation_key TEXT NOT NULL, position INTEGER NOT NULL,
    kind TEXT NOT NULL, fingerprint TEXT NOT NULL, created_at INTEGER NOT NULL, result TEXT,
    PRIMARY KEY (invocation_key, position));
"""


class _Private:
    """One agent's open file; `users` keeps it from being closed in use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = asyncio.Lock()
        self.users = 0
        self.connection: aiosqlite.Connection | None = None

    async def open(self, ref: AgentRef) -> aiosqlite.Connection:
        if self.connection is None:
            connection = await aiosqlite.connect(self.path, isolation_level=None, timeout=10)
            try:
                await connection.execute_fetchall("PRAGMA journal_mode = WAL")
                await connection.execute_fetchall("PRAGMA synchronous = FULL")
                await connection.executescript(_SCHEMA)
                await connection.execute_fetchall(
                    "INSERT INTO _agent_runtime_owner SELECT ?, ? "
                    "WHERE NOT EXISTS (SELECT 1 FROM _agent_runtime_owner)",
                    ref,
                )
            except BaseException:
                await connection.close()
                raise
            self.connection = connection
        return self.connection


class PrivateDatabases:
    """A pool of agents' private databases, least recently used first out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: OrderedDict[AgentRef, _Private] = OrderedDict()
        self._is_closed = False

    async def run(self, ref: AgentRef, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """Run one statement in a transaction of its own."""
        return await _shielded(self._run(ref, query, params))

    async def run_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """Run one statement and note it as an effect, unless its position is noted already."""
        return await _shielded(self._run_once(ref, query, params, effect))

    async def effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """Return the effects noted for an invocation; an agent without a file has none."""
        if not self._path(ref).exists():
            return []
        return await _shielded(self._effects(ref, invocation))

    async def _effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        async with self._use(ref) as connection:
            rows = await connection.execute_fetchall(
                "SELECT agent_id, invocation_key, position, kind, fingerprint, result, created_at "
                "FROM _agent_runtime_effects WHERE invocation_key = ? ORDER BY position",
                (invocation,),
            )
        return [EffectRow(*row) for row in rows]

    async def close(self) -> None:
        """Refuse new statements, wait for those that run, and close every file."""
        self._is_closed = True
        while self._open:
            _, private = self._open.popitem()
            async with private.lock:
                if private.connection is not None:
                    await private.connection.close()

    async def _run(
        self, ref: AgentRef, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        async with self._use(ref) as connection:
            return await _execute(connection, query, params)

    async def _run_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        key = (effect.invocation, effect.position)
        async with self._use(ref) as connection:
            await connection.execute_fetchall("BEGIN IMMEDIATE")
            try:
                for row in await connection.execute_fetchall(
                    "SELECT agent_id, invocation_key, position, kind, fingerprint, result, "
                    "created_at FROM _agent_runtime_effects "
                    "WHERE invocation_key = ? AND position = ?",
                    key,
                ):
                    await connection.execute_fetchall("ROLLBACK")
                    stored = EffectRow(*row)
                    return stored, _unpack(stored.result)
                rows = await _execute(connection, query, params)
                await connection.execute_fetchall(
                    statements.ADD_EFFECT.replace(
                        "invocation_effects", "_agent_runtime_effects"
                    ).replace("ON CONFLICT (agent_id, invocation_key, position) DO NOTHING", ""),
                    (
                        effect.agent_id,
                        *key,
                        effect.kind,
                        effect.fingerprint,
                        effect.created_at,
                        _pack(rows),
                    ),
                )
                await connection.execute_fetchall("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    await connection.execute_fetchall("ROLLBACK")
                raise
        return effect, rows

    @asynccontextmanager
    async def _use(self, ref: AgentRef) -> AsyncIterator[aiosqlite.Connection]:
        if self._is_closed:
            raise StorageUnavailableError("the storage is closed")
        private = self._open.setdefault(ref, _Private(self._path(ref)))
        self._open.move_to_end(ref)
        private.users += 1
        try:
            await self._close_surplus()
            async with private.lock:
                if self._is_closed:
                    raise StorageUnavailableError("the storage is closed")
                with storage_errors(str(private.path)):
                    yield await private.open(ref)
        finally:
            private.users -= 1

    async def _close_surplus(self) -> None:
        idle = [ref for ref, private in self._open.items() if private.users == 0]
        # All are taken out before the first await: nobody else closes or uses them meanwhile.
        surplus = [self._open.pop(ref) for ref in idle[: max(0, len(self._open) - MAX_OPEN)]]
        for private in surplus:
            if private.connection is not None:
                await private.connection.close()

    def _path(self, ref: AgentRef) -> Path:
        return self._directory / f"sql-{file_stem(ref)}.db"


async def _shielded(work: Awaitable[T]) -> T:
    """Let a unit finish although its caller is cancelled: half a transaction must not stay open."""
    return await asyncio.shield(asyncio.ensure_future(work))


async def _execute(
    connection: aiosqlite.Connection, query: str, params: Sequence[Json]
) -> list[dict[str, Json]]:
    try:
        async with connection.execute(query, params) as cursor:
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]
    except (
        sqlite3.ProgrammingError,
        sqlite3.IntegrityError,
        sqlite3.Warning,
        OverflowError,
        UnicodeEncodeError,
    ) as error:
        raise SqlError(f"SQL query failed: {error}", query=query) from error
    except sqlite3.DataError as error:
        raise SqlError(f"SQL query failed: {error}", query=query) from error
    except sqlite3.OperationalError as error:
        if (error.sqlite_errorcode & 0xFF) in (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_TOOBIG):
            raise SqlError(f"SQL query failed: {error}", query=query) from error
        raise


def _pack(rows: list[dict[str, Json]]) -> str:
    return orjson.dumps(rows, _pack_bytes).decode()


def _pack_bytes(value: object) -> object:
    if isinstance(value, bytes):
        return {"_bytes": base64.b64encode(value).decode()}
    raise TypeError(type(value).__name__)


def _unpack(result: str | None) -> list[dict[str, Json]]:
    return [
        {
            name: base64.b64decode(value["_bytes"]) if isinstance(value, dict) else value
            for name, value in row.items()
        }
        for row in orjson.loads(result or "[]")
    ]
