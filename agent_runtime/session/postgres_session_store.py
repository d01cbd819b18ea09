"""Conversations over a connection to PostgreSQL that the user brings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import (
    PostgresConnection,
    SqlConnection,
    sql_connection,
)
from agent_runtime.session.session_store import SessionUnit
from agent_runtime.storage.postgres_schema import SCHEMA, check_version, qualified
from agent_runtime.storage.postgres_spelling import spell
from agent_runtime.storage.postgres_text import plain_row
from agent_runtime.storage.session_dialect import POSTGRES
from agent_runtime.storage.session_protocol import SessionReads
from agent_runtime.storage.session_reads import SqlSessionReads
from agent_runtime.storage.sql_transaction import Params, SqlTransaction

T = TypeVar("T")

_HAS_VERSION = f"SELECT to_regclass('{SCHEMA}.schema_version') IS NOT NULL AS has_version"
_READ_VERSION = f"SELECT version FROM {SCHEMA}.schema_version"


class PostgresSessionStore:
    """One owner's conversations over a connection that is neither opened nor closed here.

    The tables are made beforehand, by `agent-runtime db migrate` or `postgres_schema_sql`. Any
    number of stores and providers may share a connection; they take turns. A write is a transaction
    of its own, or a part of the one that the user has begun on the connection, and is stored when
    that is committed. Errors of asyncpg's and psycopg's become the runtime's, others are passed on.

    Args:
        connection: Connected, and used by nobody else at the same time; or a pool of asyncpg's or
            psycopg's.
        owner: Whose conversations: owners in one database never see each other's.

    Raises:
        SessionSetupError: The connection is none of the kinds of `PostgresConnection`.
        InvalidAgentError: The owner's name is empty or too long.
    """

    def __init__(self, connection: PostgresConnection, *, owner: str = "default") -> None:
        self._connection = sql_connection(connection)
        self._agent = agent_ref("Sessions", owner)
        self._reads = SqlSessionReads(self._read, POSTGRES)

    @property
    def agent(self) -> AgentRef:
        """See `SessionStore.agent`."""
        return self._agent

    @property
    def reads(self) -> SessionReads:
        """See `SessionStore.reads`."""
        return self._reads

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """See `SessionStore.write`.

        Raises:
            StorageSchemaError: The tables are missing, or of another release.
        """
        await self._check_schema()
        async with self._connection.transaction() as connection:
            statements = _Statements(connection)
            transaction = SqlTransaction(statements.run, statements.run_many, POSTGRES)
            return await unit(transaction.sessions)

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """See `SessionStore.once`; nothing is recorded, so it is run."""
        return await run()

    async def _read(self, statement: str, params: Params) -> list[tuple[Json, ...]]:
        await self._check_schema()
        return await _Statements(self._connection).run(statement, params)

    async def _check_schema(self) -> None:
        connection = self._connection
        if connection.has_schema:
            return
        # Asked for first: an error would spoil the user's own transaction.
        [(has_version,)] = await connection.fetch(_HAS_VERSION)
        [(version,)] = await connection.fetch(_READ_VERSION) if has_version else [(0,)]
        check_version(version, "the connection's database")
        connection.has_schema = True


class _Statements:
    """Runs the library's statements, whatever the connection's `search_path` is."""

    def __init__(self, connection: SqlConnection) -> None:
        self._connection = connection

    async def run(self, statement: str, params: Params = ()) -> list[tuple[Json, ...]]:
        spelled = spell(statement)
        values = spelled.bind(params)
        rows = await self._connection.fetch(qualified(spelled.text), values)
        return [plain_row(row) for row in rows]

    async def run_many(self, statement: str, rows: Iterable[Sequence[Json]]) -> None:
        spelled = spell(statement)
        values = [spelled.bind(row) for row in rows]
        await self._connection.run_each(qualified(spelled.text), values)
