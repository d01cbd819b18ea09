"""The one connection of a process that writes, reopened after it was lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

import asyncpg

from agent_runtime.errors import StorageError, StorageUnavailableError
from agent_runtime.json_value import Json
from agent_runtime.storage.group_writer import UnitConflictError
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_spelling import spell
from agent_runtime.storage.postgres_states import CONFLICTS, LOCK_TIMEOUT
from agent_runtime.storage.postgres_text import plain_row
from agent_runtime.storage.protocol import Transaction
from agent_runtime.storage.session_dialect import POSTGRES
from agent_runtime.storage.sql_transaction import Params, SqlTransaction

_SHORTLY = "20ms"


class PostgresWriter:
    """`WriteConnection` over asyncpg.

    The first unit of a transaction waits for rows that others hold. The next ones wait hardly at
    all, as the transaction holds rows by then that others may be waiting for: they give way, and
    are the first of a later transaction.

    What opens and closes units is sent along with the next statement, not by itself.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[asyncpg.Connection]],
        place: str,
        *,
        busy_timeout_seconds: float,
    ) -> None:
        self._connect = connect
        self._place = place
        self._patience = f"{int(busy_timeout_seconds * 1000)}ms"
        self._connection: asyncpg.Connection | None = None
        self._unsent: list[str] = []
        self._has_begun = False
        self._units = 0
        self.transaction: Transaction = SqlTransaction(self._run, self._run_many, POSTGRES)

    async def begin(self) -> None:
        """See `WriteConnection.begin`."""
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connect()
        self._has_begun = False
        self._units = 0
        self._unsent = ["BEGIN", f"SET LOCAL lock_timeout = '{self._patience}'"]

    async def commit(self) -> None:
        """See `WriteConnection.commit`."""
        if not self._has_begun:
            self._unsent.clear()
            return
        self._unsent.append("COMMIT")
        # A transaction that has failed ends as "ROLLBACK", without an error.
        if await self._send() != "COMMIT":
            raise StorageError(f"{self._place}: a unit went on after its statement had failed")

    async def rollback(self) -> None:
        """See `WriteConnection.rollback`."""
        self._unsent.clear()
        if self._has_begun and not self._open.is_closed():
            self._unsent.append("ROLLBACK")
            await self._send()
        self._has_begun = False

    async def savepoint(self) -> None:
        """See `WriteConnection.savepoint`."""
        self._unsent.append("SAVEPOINT unit")
        if self._units > 0:
            self._unsent.append(f"SET LOCAL lock_timeout = '{_SHORTLY}'")
        self._units += 1

    async def release(self) -> None:
        """See `WriteConnection.release`."""
        self._unsent.append("RELEASE SAVEPOINT unit")

    async def undo(self) -> None:
        """See `WriteConnection.undo`."""
        self._unsent += ["ROLLBACK TO SAVEPOINT unit", "RELEASE SAVEPOINT unit"]

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()

    @property
    def _open(self) -> asyncpg.Connection:
        if self._connection is None:
            raise StorageUnavailableError(f"{self._place}: the storage is closed")
        return self._connection

    async def _send(self) -> str:
        unsent, self._unsent = self._unsent, []
        with storage_errors(self._place):
            self._has_begun = True
            return str(await self._open.execute(";".join(unsent)))

    async def _run(self, statement: str, params: Params = ()) -> list[tuple[Json, ...]]:
        if self._unsent:
            await self._send()
        spelled = spell(statement)
        try:
            with storage_errors(self._place):
                rows = await self._open.fetch(spelled.text, *spelled.bind(params))
        except Exception as error:
            self._give_way(error)
            raise
        return [plain_row(row) for row in rows]

    async def _run_many(self, statement: str, rows: Iterable[Sequence[Json]]) -> None:
        if self._unsent:
            await self._send()
        try:
            with storage_errors(self._place):
                spelled = spell(statement)
                await self._open.executemany(spelled.text, [spelled.bind(row) for row in rows])
        except Exception as error:
            self._give_way(error)
            raise

    def _give_way(self, error: Exception) -> None:
        cause = error.__cause__
        state = cause.sqlstate if isinstance(cause, asyncpg.PostgresError) else None
        if state in CONFLICTS or (state == LOCK_TIMEOUT and self._units > 1):
            raise UnitConflictError(error) from error
