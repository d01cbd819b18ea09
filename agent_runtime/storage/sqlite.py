"""SQLite storage: one file for all agents of a data directory, one writer, a few readers."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import aiosqlite

from agent_runtime.errors import ConfigurationError, StorageReadOnlyError, StorageSchemaError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.group_writer import GroupWriter
from agent_runtime.storage.migrations import LATEST, MIGRATIONS
from agent_runtime.storage.protocol import EffectRow, Storage, Transaction
from agent_runtime.storage.sqlite_errors import storage_errors
from agent_runtime.storage.sqlite_private import PrivateDatabases
from agent_runtime.storage.sqlite_reads import SqliteReads
from agent_runtime.storage.sqlite_transaction import Params, SqliteTransaction

T = TypeVar("T")

FILE_NAME = "agents.db"
READERS = 2
_SPELLING = {"id": "INTEGER PRIMARY KEY", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"}


class SqliteStorage(SqliteReads, Storage):
    """All agents of one data directory in one SQLite file (design section 8).

    Several processes on one host may open the same directory. Make one with `open`.
    """

    def __init__(
        self,
        path: Path,
        writer: aiosqlite.Connection,
        readers: list[aiosqlite.Connection],
    ) -> None:
        super().__init__(path, readers)
        self._connection = writer
        self._writer = GroupWriter(_Writer(path, writer))
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

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """See `Storage.write`."""
        return await self._writer.run(unit)

    async def sql(self, ref: AgentRef, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """See `Storage.sql`."""
        return await self._private.run(ref, query, params)

    async def sql_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], *, effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """See `Storage.sql_once`."""
        return await self._private.run_once(ref, query, params, effect)

    async def sql_effects(self, ref: AgentRef, invocation: str) -> list[EffectRow]:
        """See `Storage.sql_effects`."""
        return await self._private.effects(ref, invocation)

    async def close(self) -> None:
        """See `Storage.close`."""
        await self._writer.close()
        await self._private.close()
        for connection in (*self._readers, self._connection):
            await connection.close()


class _Writer:
    """`WriteConnection` over aiosqlite, one thread hop a call."""

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self._path = path
        self._connection = connection
        self.transaction: Transaction = SqliteTransaction(self._run, self._run_many)

    async def _run(self, statement: str, params: Params = ()) -> list[tuple[Json, ...]]:
        with storage_errors(str(self._path)):
            return list(await self._connection.execute_fetchall(statement, params))  # type: ignore[arg-type]

    async def _run_many(self, statement: str, rows: Iterable[Sequence[Json]]) -> None:
        with storage_errors(str(self._path)):
            cursor = await self._connection.executemany(statement, rows)
            await cursor.close()

    async def begin(self) -> None:
        await self._run("BEGIN IMMEDIATE")

    async def commit(self) -> None:
        await self._run("COMMIT")

    async def rollback(self) -> None:
        if self._connection.in_transaction:
            await self._run("ROLLBACK")

    async def savepoint(self) -> None:
        await self._run("SAVEPOINT unit")

    async def release(self) -> None:
        await self._run("RELEASE unit")

    async def undo(self) -> None:
        await self._run("ROLLBACK TO unit")
        await self._run("RELEASE unit")


async def connect(path: Path, busy_timeout_seconds: float) -> aiosqlite.Connection:
    """Open a connection that waits for others, keeps a write-ahead log and syncs every commit."""
    connection = await aiosqlite.connect(
        path, isolation_level=None, timeout=busy_timeout_seconds, cached_statements=256
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
            for statement in step:
                await connection.execute_fetchall(statement.format(**_SPELLING))
        await connection.execute_fetchall(f"PRAGMA user_version = {LATEST}")
        await connection.execute_fetchall("COMMIT")
    except BaseException:
        if connection.in_transaction:
            await connection.execute_fetchall("ROLLBACK")
        raise


def _keep_first(draft: Path, backup: Path) -> None:
    if backup.exists():
        draft.unlink()
    else:
        draft.rename(backup)


async def _schema_version(connection: aiosqlite.Connection) -> int:
    [(version,)] = await connection.execute_fetchall("PRAGMA user_version")
    return int(version)
