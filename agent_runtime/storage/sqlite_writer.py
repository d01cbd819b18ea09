"""Writing to SQLite with few hops to the connection's thread, each of which costs a switch."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import aiosqlite

from agent_runtime.json_value import Json
from agent_runtime.storage.protocol import Transaction
from agent_runtime.storage.session_dialect import SQLITE
from agent_runtime.storage.sql_transaction import Params, SqlTransaction
from agent_runtime.storage.sqlite_errors import storage_errors

_NO_VALUES: Sequence[Sequence[Json]] = ((),)


class Preceded(NamedTuple):
    """A statement's parameters, with statements and their rows of values that go before it."""

    before: Sequence[tuple[str, Sequence[Sequence[Json]]]]
    params: Params


class BatchConnection(sqlite3.Connection):
    """A connection that takes several statements in one call, and so in one hop."""

    def execute(  # type: ignore[override]
        self, statement: str, params: Params | Preceded = (), /
    ) -> sqlite3.Cursor:
        """Run a statement, after those that go before it; ends with the first that fails."""
        if isinstance(params, Preceded):
            for earlier, rows in params.before:
                if len(rows) == 1:
                    super().execute(earlier, rows[0])
                else:
                    super().executemany(earlier, rows)
            params = params.params
        return super().execute(statement, params)


class SqliteWriter:
    """`WriteConnection` over an `aiosqlite` connection made with `BatchConnection`.

    What returns no rows waits for the next statement that does, or for the end of its unit, and
    fails there. So a unit is a hop for each of its questions and one for its answer.
    """

    def __init__(self, path: Path, connection: aiosqlite.Connection) -> None:
        self._path = path
        self._connection = connection
        self._unsent: list[tuple[str, Sequence[Sequence[Json]]]] = []
        self._unsent_before_unit = 0
        self.transaction: Transaction = SqlTransaction(self._run, self._run_many, SQLITE)

    async def _run(self, statement: str, params: Params = ()) -> list[tuple[Json, ...]]:
        if self._unsent:
            params = Preceded(self._unsent, params)
            self._unsent = []
            self._unsent_before_unit = 0
        with storage_errors(str(self._path)):
            return list(await self._connection.execute_fetchall(statement, params))  # type: ignore[arg-type]

    async def _run_many(self, statement: str, rows: Iterable[Sequence[Json]]) -> None:
        values = list(rows)
        if values:
            self._unsent.append((statement, values))

    async def begin(self) -> None:
        """See `WriteConnection.begin`."""
        self._unsent = [("BEGIN IMMEDIATE", _NO_VALUES)]

    async def commit(self) -> None:
        """See `WriteConnection.commit`."""
        await self._run("COMMIT")

    async def rollback(self) -> None:
        """See `WriteConnection.rollback`."""
        self._unsent = []
        if self._connection.in_transaction:
            await self._run("ROLLBACK")

    async def savepoint(self) -> None:
        """See `WriteConnection.savepoint`."""
        self._unsent.append(("SAVEPOINT unit", _NO_VALUES))
        self._unsent_before_unit = len(self._unsent)

    async def release(self) -> None:
        """See `WriteConnection.release`."""
        await self._run("RELEASE unit")

    async def undo(self) -> None:
        """See `WriteConnection.undo`."""
        del self._unsent[self._unsent_before_unit :]
        self._unsent.append(("ROLLBACK TO unit", _NO_VALUES))
        await self._run("RELEASE unit")
