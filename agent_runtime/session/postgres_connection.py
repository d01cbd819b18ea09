"""Connections to PostgreSQL that the user brings, keeps open and closes: one way to use each kind.

They are told apart by what they can do. `fetch` is a connection or pool of asyncpg's; `pgconn` a
connection of psycopg's and `getconn` a pool of its; `query(text, values)` a client with numbered
placeholders; `execute(query, args)` a minimal one whose placeholders stay `?`. The last two may be
sync or async.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias, cast
from uuid import uuid4
from weakref import WeakValueDictionary

from agent_runtime.errors import SessionSetupError
from agent_runtime.json_value import Json
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.storage.marked_statement import mark_placeholders

Row: TypeAlias = tuple[Json, ...]

# A setting of the transaction alone: it is gone at once where each statement is a transaction.
_LEAVE_TRACE = "SELECT set_config('agent_runtime.trace', $1, true) AS trace"
_FIND_TRACE = "SELECT current_setting('agent_runtime.trace', true) AS trace"


class FetchingConnection(Protocol):
    """A connection of asyncpg's, or its pool."""

    async def fetch(self, query: str, *args: Json) -> Sequence[Iterable[Json]]:
        """Run a statement with `$1…` and return its rows."""


class PsycopgAsyncConnection(Protocol):
    """An `AsyncConnection` of psycopg 3."""

    @property
    def pgconn(self) -> object:
        """Its connection of libpq."""


class PsycopgAsyncPool(Protocol):
    """An `AsyncConnectionPool` of psycopg 3."""

    async def getconn(self) -> PsycopgAsyncConnection:
        """Take a connection."""


class QueryingClient(Protocol):
    """A driver's client on one connection.

    Its results are sequences of rows, or have them as `rows`; rows are mappings or sequences.
    """

    def query(self, text: str, values: Sequence[Json], /) -> object:
        """Run a statement with `$1…`, now or awaited."""


class ExecutingConnection(Protocol):
    """The least: one connection that runs statements, with results as `QueryingClient` has them."""

    def execute(self, query: str, args: Sequence[Json], /) -> object:
        """Run a statement with `?`, now or awaited."""


PostgresConnection: TypeAlias = (
    FetchingConnection
    | PsycopgAsyncConnection
    | PsycopgAsyncPool
    | QueryingClient
    | ExecutingConnection
)
"""What the PostgreSQL providers work over; it is connected, and stays the user's."""


class _BatchingConnection(Protocol):
    async def executemany(self, command: str, args: Sequence[Sequence[Json]]) -> None: ...


class _AcquiringPool(FetchingConnection, Protocol):
    def acquire(self) -> AbstractAsyncContextManager[FetchingConnection]: ...


class SqlConnection(ABC):
    """A user's connection as the providers use it, by one task at a time."""

    def __init__(self) -> None:
        self.has_schema = False
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None

    async def fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        """Run a statement with `$1…` and return its rows, waiting for other tasks' turns."""
        async with self._turn():
            return await self._fetch(text, values)

    async def run_each(self, text: str, rows: Sequence[Sequence[Json]]) -> None:
        """Run a statement for each row of values."""
        async with self._turn():
            await self._run_each(text, rows)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlConnection]:
        """Make the block one transaction, or a part of one that the user has begun.

        The user's own is never committed: what the block did is undone by itself if it fails, and
        otherwise stored once the user commits.
        """
        async with self._turn():
            part = self._part if await self._is_in_transaction() else self._whole
            async with part():
                yield self

    @asynccontextmanager
    async def _whole(self) -> AsyncIterator[None]:
        # The beginning too: one that is cancelled may have reached the server.
        try:
            await self._fetch("BEGIN")
            yield
            await self._fetch("COMMIT")
        except BaseException:
            await self._fetch("ROLLBACK")
            raise

    @asynccontextmanager
    async def _part(self) -> AsyncIterator[None]:
        await self._fetch("SAVEPOINT agent_runtime")
        try:
            yield
        except BaseException:
            await self._fetch("ROLLBACK TO SAVEPOINT agent_runtime")
            await self._fetch("RELEASE SAVEPOINT agent_runtime")
            raise
        await self._fetch("RELEASE SAVEPOINT agent_runtime")

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        task = asyncio.current_task()
        if self._holder is not None and self._holder is task:
            yield
            return
        async with self._lock:
            self._holder = task
            try:
                yield
            finally:
                self._holder = None

    async def _is_in_transaction(self) -> bool:
        trace = uuid4().hex
        await self._fetch(_LEAVE_TRACE, (trace,))
        return await self._fetch(_FIND_TRACE) == [(trace,)]

    async def _run_each(self, text: str, rows: Sequence[Sequence[Json]]) -> None:
        for values in rows:
            await self._fetch(text, values)

    @abstractmethod
    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]: ...


class _Fetching(SqlConnection):
    """Over asyncpg, whose errors become the runtime's."""

    def __init__(self, connection: FetchingConnection) -> None:
        from agent_runtime.storage.postgres_errors import storage_errors

        super().__init__()
        self._connection = connection
        self._errors = storage_errors

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        with self._errors("the connection"):
            return [tuple(row) for row in await self._connection.fetch(text, *values)]

    async def _run_each(self, text: str, rows: Sequence[Sequence[Json]]) -> None:
        if not _can(self._connection, "executemany"):
            return await super()._run_each(text, rows)
        with self._errors("the connection"):
            await cast(_BatchingConnection, self._connection).executemany(text, rows)

    async def _is_in_transaction(self) -> bool:
        ask: Callable[[], bool] | None = getattr(self._connection, "is_in_transaction", None)
        return await super()._is_in_transaction() if ask is None else ask()


class _Pool(SqlConnection):
    """Over a pool of asyncpg's: each statement or transaction takes a connection of its own."""

    def __init__(self, pool: _AcquiringPool) -> None:
        super().__init__()
        self._pool = pool

    async def fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        """See `SqlConnection.fetch`; nobody is waited for but the pool."""
        return await self._fetch(text, values)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlConnection]:
        """See `SqlConnection.transaction`."""
        async with (
            self._pool.acquire() as connection,
            _Fetching(connection).transaction() as held,
        ):
            yield held

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        return await _Fetching(self._pool)._fetch(text, values)


class _Querying(SqlConnection):
    def __init__(self, client: QueryingClient) -> None:
        super().__init__()
        self._client = client

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        return _rows(await maybe_await(self._client.query(text, [*values])))


class _Executing(SqlConnection):
    def __init__(self, connection: ExecutingConnection) -> None:
        super().__init__()
        self._connection = connection

    async def _fetch(self, text: str, values: Sequence[Json] = ()) -> list[Row]:
        return _rows(await maybe_await(self._connection.execute(*mark_placeholders(text, values))))


# Alive as long as a provider uses it, and with it the connection, so its number is not reused.
_IN_USE: WeakValueDictionary[int, SqlConnection] = WeakValueDictionary()


def sql_connection(connection: PostgresConnection) -> SqlConnection:
    """Return how to use a connection, the same for all providers over it.

    Raises:
        SessionSetupError: It is none that can be used.
    """
    found = _IN_USE.get(id(connection))
    if found is None:
        found = _IN_USE[id(connection)] = _adapted(connection)
    return found


def _adapted(connection: PostgresConnection) -> SqlConnection:
    if _can(connection, "fetch"):
        if _can(connection, "acquire"):
            return _Pool(cast(_AcquiringPool, connection))
        return _Fetching(cast(FetchingConnection, connection))
    if hasattr(connection, "pgconn"):
        from agent_runtime.session.psycopg_connection import PsycopgConnection

        return PsycopgConnection(connection)
    if _can(connection, "getconn"):
        from agent_runtime.session.psycopg_connection import PsycopgPool

        return PsycopgPool(connection)
    if _can(connection, "query"):
        return _Querying(cast(QueryingClient, connection))
    if _can(connection, "execute"):
        return _Executing(cast(ExecutingConnection, connection))
    raise SessionSetupError(
        f"{type(connection).__name__} is no connection to PostgreSQL; give one of asyncpg's or "
        "psycopg's, or an object with query(text, values) or execute(query, args)"
    )


def _can(connection: object, method: str) -> bool:
    return callable(getattr(connection, method, None))


def _rows(result: object) -> list[Row]:
    rows = getattr(result, "rows", result)
    # What returns no rows may be answered by a count or a word.
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        return []
    return [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]
