"""Connections of psycopg 3, and pools of them, that the user brings, keeps open and closes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from agent_runtime.errors import SessionSetupError, StorageUnavailableError
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import Row, SqlConnection
from agent_runtime.storage.postgres_states import error_of_state
from agent_runtime.storage.refused_statement import refused_statement
from agent_runtime.storage.unstorable import unstorable_error

_PLACE = "the connection"
_BLOCKS = "psycopg's {} waits without letting others run; give its {}"


class PsycopgConnection(SqlConnection):
    """Over one connection of psycopg's, whose own transactions these are.

    Raises:
        SessionSetupError: The connection blocks while it waits.
    """

    def __init__(self, connection: object) -> None:
        super().__init__()
        if not isinstance(connection, psycopg.AsyncConnection):
            raise SessionSetupError(_BLOCKS.format(type(connection).__name__, "AsyncConnection"))
        self._connection: psycopg.AsyncConnection[object] = connection
        self._cursor = psycopg.AsyncRawCursor(connection, row_factory=tuple_row)
        # The server is to tell the type by the place, as it does for the other clients: psycopg
        # names one by the size of a number.
        self._cursor.adapters.register_dumper(int, _NumberDumper)
        self._cursor.adapters.register_dumper(bool, _NumberDumper)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlConnection]:
        """See `SqlConnection.transaction`."""
        async with self._turn():
            with _storage_errors():
                async with self._connection.transaction():
                    yield self

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        with _storage_errors():
            async with self._left_as_it_was():
                await self._cursor.execute(text, [*values])
                return [] if self._cursor.description is None else await self._cursor.fetchall()

    async def _run_each(self, text: str, rows: Sequence[Sequence[Json]]) -> None:
        with _storage_errors():
            async with self._left_as_it_was():
                await self._cursor.executemany(text, rows)

    def _left_as_it_was(self) -> AbstractAsyncContextManager[object]:
        """End what a single statement begins where the connection begins by itself."""
        is_idle = self._connection.info.transaction_status is TransactionStatus.IDLE
        if is_idle and not self._connection.autocommit:
            return self._connection.transaction()
        return nullcontext()


class PsycopgPool(SqlConnection):
    """Over a pool of psycopg's: each statement or transaction takes a connection of its own.

    Raises:
        SessionSetupError: Its connections block while they wait.
    """

    def __init__(self, pool: object) -> None:
        # A package apart, which whoever has a pool has.
        import psycopg_pool

        super().__init__()
        if not isinstance(pool, psycopg_pool.AsyncConnectionPool):
            raise SessionSetupError(_BLOCKS.format(type(pool).__name__, "AsyncConnectionPool"))
        self._pool: psycopg_pool.AsyncConnectionPool = pool

    async def fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        """See `SqlConnection.fetch`; nobody is waited for but the pool."""
        return await self._fetch(text, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlConnection]:
        """See `SqlConnection.transaction`."""
        with _storage_errors():
            async with (
                self._pool.connection() as connection,
                PsycopgConnection(connection).transaction() as held,
            ):
                yield held

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        with _storage_errors():
            async with self._pool.connection() as connection:
                return await PsycopgConnection(connection).fetch(text, values)


class _NumberDumper(Dumper):
    """Numbers as a literal has them: of the type that the place takes."""

    def dump(self, obj: int) -> Buffer:
        return str(int(obj)).encode()


@contextmanager
def _storage_errors() -> Iterator[None]:
    """Turn errors of psycopg's into the runtime's, as `storage_errors` does for asyncpg's."""
    try:
        yield
    except (psycopg.DataError, UnicodeEncodeError) as error:
        raise unstorable_error() from error
    except psycopg.Error as error:
        told = error_of_state(_PLACE, error.sqlstate or "", str(error))
        if told is None and error.sqlstate is None and isinstance(error, psycopg.OperationalError):
            told = StorageUnavailableError(f"{_PLACE} does not answer: {error}")
        raise told or refused_statement(_PLACE, error) from error
