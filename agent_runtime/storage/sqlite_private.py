"""The agents' own SQL: a private file per agent, opened on use, a bounded number at a time."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiosqlite

from agent_runtime.errors import AgentDestroyedError, SqlError, StorageUnavailableError
from agent_runtime.identity import AgentRef, file_stem
from agent_runtime.json_value import Json
from agent_runtime.storage import statements
from agent_runtime.storage.effect_key import journal_key_range
from agent_runtime.storage.own_database import OwnDatabase
from agent_runtime.storage.private_rows import pack_rows, unpack_rows
from agent_runtime.storage.protocol import EffectRow
from agent_runtime.storage.sqlite_errors import storage_errors

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")

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
        self.ended: set[str] = set()
        self.lock = asyncio.Lock()
        self.users = 0
        self.is_deleted = False
        self.connection: aiosqlite.Connection | None = None

    @property
    def opened(self) -> aiosqlite.Connection:
        if self.connection is None:
            raise StorageUnavailableError(f"{self.path} is not open")
        return self.connection

    async def open(self, ref: AgentRef) -> None:
        if self.is_deleted:
            raise AgentDestroyedError(f"{ref} was destroyed; nothing was done")
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

    async def delete_ended(self) -> set[str]:
        """Delete what ended journals noted, and return which; a transaction may take it back."""
        ended = set(self.ended)
        for journal in ended:
            await self.opened.execute_fetchall(
                "DELETE FROM _agent_runtime_effects WHERE invocation_key = ?", (journal,)
            )
        return ended

    async def clear_ended(self) -> None:
        """Delete what ended journals noted, outside of a transaction."""
        self.ended -= await self.delete_ended()

    async def close(self) -> None:
        if self.connection is None:
            return
        try:
            await self.clear_ended()
        except sqlite3.Error as error:
            logger.warning("%s keeps effects that nobody needs: %s", self.path, error)
        finally:
            connection, self.connection = self.connection, None
            await connection.close()


class PrivateDatabases:
    """A pool of agents' private databases, least recently used first out."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open: OrderedDict[OwnDatabase, _Private] = OrderedDict()
        self._journals: dict[OwnDatabase, set[str]] = {}
        self._is_closed = False

    def _note(self, place: OwnDatabase, journal: str) -> None:
        self._journals.setdefault(place, set()).add(journal)

    async def run(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        """Run one statement in a transaction of its own."""
        return await _shielded(self._run(OwnDatabase(ref, agent_id), query, params))

    async def run_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """Run one statement and note it as an effect, unless its position is noted already."""
        place = OwnDatabase(ref, effect.agent_id)
        return await _shielded(self._run_once(place, query, params, effect))

    async def effects(self, ref: AgentRef, agent_id: int, invocation: str) -> list[EffectRow]:
        """Return the effects noted for an invocation; an agent without a file has none."""
        if not self.has(ref, agent_id):
            return []
        return await _shielded(self._effects(OwnDatabase(ref, agent_id), invocation))

    async def forget_effects(self, place: OwnDatabase, invocation: str) -> None:
        """Delete what an invocation's journals noted: with the next write, as its sync is paid."""
        first, end = journal_key_range(invocation)
        journals = self._journals.get(place, set())
        ended = {journal for journal in journals if first <= journal < end}
        if not ended:
            return
        journals -= ended
        if not journals:
            del self._journals[place]
        if place in self._open:
            self._open[place].ended |= ended
        else:
            await _shielded(self._delete_effects(place, ended))

    async def _delete_effects(self, place: OwnDatabase, ended: set[str]) -> None:
        async with self._use(place) as private:
            private.ended |= ended
            await private.clear_ended()

    def has(self, ref: AgentRef, agent_id: int) -> bool:
        """Tell whether an agent has a file."""
        return self.path(OwnDatabase(ref, agent_id)).exists()

    async def delete(self, ref: AgentRef, agent_id: int) -> None:
        """Delete an agent's file, once the statements that run in it here have ended."""
        place = OwnDatabase(ref, agent_id)
        self._journals.pop(place, None)
        private = self._open.pop(place) if place in self._open else _Private(self.path(place))
        await _shielded(self._delete(private))

    async def _delete(self, private: _Private) -> None:
        private.is_deleted = True
        async with private.lock:
            if private.connection is not None:
                await private.connection.close()
            for ending in ("", "-wal", "-shm"):
                private.path.with_name(private.path.name + ending).unlink(missing_ok=True)

    async def _effects(self, place: OwnDatabase, invocation: str) -> list[EffectRow]:
        async with self._use(place) as private:
            rows = await private.opened.execute_fetchall(
                "SELECT agent_id, invocation_key, position, kind, fingerprint, result, created_at "
                "FROM _agent_runtime_effects WHERE invocation_key = ? ORDER BY position",
                (invocation,),
            )
        effects = [EffectRow(*row) for row in rows]
        if effects:
            self._note(place, invocation)
        return effects

    async def close(self) -> None:
        """Refuse new statements, wait for those that run, and close every file."""
        self._is_closed = True
        while self._open:
            _, private = self._open.popitem()
            async with private.lock:
                await private.close()

    async def _run(
        self, place: OwnDatabase, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        async with self._use(place) as private:
            return await _execute(private.opened, query, params)

    async def _run_once(
        self, place: OwnDatabase, query: str, params: Sequence[Json], effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        key = (effect.invocation, effect.position)
        async with self._use(place) as private:
            connection = private.opened
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
                    return stored, unpack_rows(stored.result)
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
                        pack_rows(rows),
                    ),
                )
                ended = await private.delete_ended()
                await connection.execute_fetchall("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    await connection.execute_fetchall("ROLLBACK")
                raise
            private.ended -= ended
            self._note(place, effect.invocation)
        return effect, rows

    @asynccontextmanager
    async def _use(self, place: OwnDatabase) -> AsyncIterator[_Private]:
        if self._is_closed:
            raise StorageUnavailableError("the storage is closed")
        private = self._open.setdefault(place, _Private(self.path(place)))
        self._open.move_to_end(place)
        private.users += 1
        try:
            await self._close_surplus()
            async with private.lock:
                if self._is_closed:
                    raise StorageUnavailableError("the storage is closed")
                with storage_errors(str(private.path)):
                    await private.open(place.ref)
                    yield private
        finally:
            private.users -= 1

    async def _close_surplus(self) -> None:
        idle = [place for place, private in self._open.items() if private.users == 0]
        # All are taken out before the first await: nobody else closes or uses them meanwhile.
        surplus = [self._open.pop(place) for place in idle[: max(0, len(self._open) - MAX_OPEN)]]
        for private in surplus:
            await private.close()

    def path(self, place: OwnDatabase) -> Path:
        """Return the agent's file, whether it exists or not."""
        return self._directory / sql_file_name(*place)


def sql_file_name(ref: AgentRef, agent_id: int) -> str:
    """Return the name of an agent's own database."""
    return f"sql-{file_stem(ref)}-{agent_id}.db"


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
