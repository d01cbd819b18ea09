"""SQLite storage: one file for all agents of a data directory, one writer, a few readers."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import aiosqlite

from agent_runtime.errors import (
    AgentDestroyedError,
    ConfigurationError,
    StorageReadOnlyError,
    StorageSchemaError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.group_writer import GroupWriter
from agent_runtime.storage.migrations import LATEST, MIGRATIONS, step_statements
from agent_runtime.storage.own_database import OwnDatabase
from agent_runtime.storage.protocol import EffectRow, Storage, Transaction
from agent_runtime.storage.session_dialect import SQLITE
from agent_runtime.storage.sql_reads import SqlReads
from agent_runtime.storage.sql_transaction import Params
from agent_runtime.storage.sqlite_errors import storage_errors
from agent_runtime.storage.sqlite_private import PrivateDatabases
from agent_runtime.storage.sqlite_writer import BatchConnection, SqliteWriter

T = TypeVar("T")

FILE_NAME = "agents.db"
READERS = 2


class SqliteStorage(SqlReads, Storage):
    """All agents of one data directory in one SQLite file (design section 8).

    Several processes on one host may open the same directory. Make one with `open`.
    """

    def __init__(
        self,
        path: Path,
        writer: aiosqlite.Connection,
        readers: list[aiosqlite.Connection],
    ) -> None:
        self._path = path
        self._connection = writer
        self._readers = _Readers(path, readers)
        super().__init__(self._readers.run, SQLITE)
        self._writer = GroupWriter(SqliteWriter(path, writer))
        self._private = PrivateDatabases(path.parent)

    @classmethod
    async def open(
        cls, data_dir: str | os.PathLike[str], *, busy_timeout_seconds: float = 10.0
    ) -> SqliteStorage:
        """Open the directory's database, making or migrating it first.

        A file of an older release is copied beside itself before it is migrated.

        Args:
            data_dir: Made if it is missing.
            busy_timeout_seconds: How long a write waits for other processes.

        Raises:
            StorageError: The directory or file cannot be used; says why.
        """
        directory = _make_directory(Path(data_dir))
        path = directory / FILE_NAME
        connections: list[aiosqlite.Connection] = []
        try:
            with storage_errors(str(path)):
                writer = await connect(path, busy_timeout_seconds)
                connections.append(writer)
                await _migrate(path, writer)
                for _ in range(READERS):
                    reader = await connect(path, busy_timeout_seconds)
                    connections.append(reader)
                    await reader.execute_fetchall("PRAGMA query_only = ON")
        except BaseException:
            for connection in connections:
                await connection.close()
            raise
        return cls(path, writer, connections[1:])

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def place(self) -> str:
        """See `Storage.place`."""
        return str(self._path)

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """See `Storage.write`."""
        return await self._writer.run(unit)

    async def read_change_mark(self) -> int:
        """See `Storage.read_change_mark`."""
        return await self._readers.change_mark()

    async def sql(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        """See `Storage.sql`."""
        await self._check_lives(ref, agent_id)
        return await self._private.run(ref, agent_id, query, params)

    async def sql_read(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]] | None:
        """See `Storage.sql_read`; no function of SQLite's writes."""
        return await self.sql(ref, agent_id, query, params)

    async def sql_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], *, effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """See `Storage.sql_once`."""
        await self._check_lives(ref, effect.agent_id)
        return await self._private.run_once(ref, query, params, effect)

    async def sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> list[EffectRow]:
        """See `Storage.sql_effects`."""
        return await self._private.effects(ref, agent_id, invocation)

    async def forget_sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> None:
        """See `Storage.forget_sql_effects`."""
        await self._private.forget_effects(OwnDatabase(ref, agent_id), invocation)

    async def delete_sql(self, ref: AgentRef, agent_id: int) -> None:
        """See `Storage.delete_sql`."""
        await self._private.delete(ref, agent_id)

    async def _check_lives(self, ref: AgentRef, agent_id: int) -> None:
        # A file is deleted after its agent; who comes late must not make it again.
        if self._private.has(ref, agent_id):
            return
        stored = await self.read_state(ref)
        if stored is None or stored.agent_id != agent_id:
            raise AgentDestroyedError(f"{ref} was destroyed; nothing was done")

    async def sql_place(self, ref: AgentRef, agent_id: int) -> str | None:
        """See `Storage.sql_place`."""
        path = self._private.path(OwnDatabase(ref, agent_id))
        return str(path) if path.exists() else None

    async def close(self) -> None:
        """See `Storage.close`."""
        await self._writer.close()
        await self._private.close()
        await self._readers.close()
        await self._connection.close()


class _Readers:
    """A few connections that take turns in reading."""

    def __init__(self, path: Path, connections: list[aiosqlite.Connection]) -> None:
        self._path = path
        self.connections = connections
        self._turn = itertools.cycle(connections)

    async def run(self, statement: str, params: Params) -> list[tuple[Json, ...]]:
        with storage_errors(str(self._path)):
            rows = await next(self._turn).execute_fetchall(statement, params)
        return list(rows)  # type: ignore[arg-type]

    async def change_mark(self) -> int:
        # Always the same connection: the number is one's own view of what others commit.
        with storage_errors(str(self._path)):
            [(mark,)] = await self.connections[0].execute_fetchall("PRAGMA data_version")
        return int(mark)

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()


async def connect(path: Path, busy_timeout_seconds: float) -> aiosqlite.Connection:
    """Open a connection that waits for others, keeps a write-ahead log and syncs every commit."""
    connection = await aiosqlite.connect(
        path,
        isolation_level=None,
        timeout=busy_timeout_seconds,
        cached_statements=256,
        factory=BatchConnection,
    )
    try:
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            await _patiently(connection, f"PRAGMA {pragma}", busy_timeout_seconds)
    except BaseException:
        await connection.close()
        raise
    return connection


def _make_directory(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except PermissionError as error:
        raise StorageReadOnlyError(f"{directory} cannot be made: {error.strerror}") from error
    except OSError as error:
        raise ConfigurationError(
            f"{directory} cannot be the data directory: {error.strerror}"
        ) from error
    return directory


async def _patiently(connection: aiosqlite.Connection, statement: str, seconds: float) -> None:
    # The switch to WAL answers "locked" at once, without the busy timeout, while others open too.
    deadline = time.monotonic() + seconds
    while True:
        try:
            await connection.execute_fetchall(statement)
            return
        except aiosqlite.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.01)


async def _migrate(path: Path, connection: aiosqlite.Connection) -> None:
    version = await _schema_version(connection)
    if 0 < version <= LATEST:
        await _refuse_unreleased(path, connection)
    if version == LATEST:
        return
    if 0 < version < LATEST:
        backup = path.with_name(f"{path.name}.v{version}.bak")
        # Under a name of its own first: another process may be at the same, or this one die.
        draft = backup.with_name(f"{backup.name}.{uuid.uuid4().hex}")
        await connection.execute_fetchall("VACUUM INTO ?", (str(draft),))
        _keep_first(draft, backup)
    await connection.execute_fetchall("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have migrated while this one waited.
        version = await _schema_version(connection)
        if version > LATEST:
            raise StorageSchemaError(
                f"{path} has schema {version}, this release knows {LATEST}; upgrade agent-runtime",
                found=version,
                known=LATEST,
            )
        for step in MIGRATIONS[version:]:
            for statement in step_statements(step, "sqlite"):
                await connection.execute_fetchall(statement)
        await connection.execute_fetchall(f"PRAGMA user_version = {LATEST}")
        await connection.execute_fetchall("COMMIT")
    except BaseException:
        if connection.in_transaction:
            await connection.execute_fetchall("ROLLBACK")
        raise


async def _refuse_unreleased(path: Path, connection: aiosqlite.Connection) -> None:
    # Before the first release the first steps were changed in place, so the number does not tell.
    statement = "SELECT 1 FROM sqlite_master WHERE name = 'agents' AND sql LIKE '%AUTOINCREMENT%'"
    if not list(await connection.execute_fetchall(statement)):
        raise StorageSchemaError(
            f"{path} was made before the first release, in a form that no release can read; move "
            "it away with the files beside it, or name another data directory"
        )


def _keep_first(draft: Path, backup: Path) -> None:
    if backup.exists():
        draft.unlink()
    else:
        draft.rename(backup)


async def _schema_version(connection: aiosqlite.Connection) -> int:
    [(version,)] = await connection.execute_fetchall("PRAGMA user_version")
    return int(version)
