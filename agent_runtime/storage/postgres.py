"""PostgreSQL storage: one database for all agents, written by any number of processes and hosts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import asyncpg

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.database_url import check_url, place_of
from agent_runtime.storage.group_writer import GroupWriter
from agent_runtime.storage.own_database import OwnDatabase
from agent_runtime.storage.postgres_changes import ChangeListener
from agent_runtime.storage.postgres_connection import connect, private_pool, reading_pool
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_migrations import check_schema
from agent_runtime.storage.postgres_private import PrivateSchemas
from agent_runtime.storage.postgres_spelling import spell
from agent_runtime.storage.postgres_text import plain_row
from agent_runtime.storage.postgres_writer import PostgresWriter
from agent_runtime.storage.protocol import EffectRow, Storage, Transaction
from agent_runtime.storage.session_dialect import POSTGRES
from agent_runtime.storage.sql_reads import SqlReads
from agent_runtime.storage.sql_transaction import Params

T = TypeVar("T")

READERS = 4
PRIVATE = 4


class PostgresStorage(SqlReads, Storage):
    """All agents of one PostgreSQL database (design section 8).

    A process has one connection that writes, one that listens, and a few for reading and for the
    agents' own SQL, all opened when they are needed and reopened when they are lost. Make one with
    `open`.
    """

    def __init__(
        self,
        url: str,
        reading: asyncpg.Pool,
        private: asyncpg.Pool,
        *,
        sql_role: str | None,
        busy_timeout_seconds: float,
    ) -> None:
        self._place = place = place_of(url)
        connecting = partial(connect, url)
        self._readers = _Readers(reading, place)
        super().__init__(self._readers.run, POSTGRES)
        self._connection = PostgresWriter(
            connecting, place, busy_timeout_seconds=busy_timeout_seconds
        )
        self._writer = GroupWriter(self._connection)
        self._changes = ChangeListener(connecting, place)
        self._private = PrivateSchemas(private, place, sql_role)

    @classmethod
    async def open(
        cls, url: str, *, sql_role: str | None = None, busy_timeout_seconds: float = 10.0
    ) -> PostgresStorage:
        """Open a database that `agent-runtime db migrate` has made.

        Args:
            url: `postgresql://user:password@host:port/database`, with what libpq knows as `?`
                parameters.
            sql_role: Whose rights the agents' own SQL has; the user must be a member of the role.
            busy_timeout_seconds: How long a write waits for rows that other processes hold.

        Raises:
            ConfigurationError: The address is none, or the server refuses role or database.
            StorageSchemaError: The schema is not this release's; says what to do.
            StorageUnavailableError: Nothing answers there.
        """
        check_url(url)
        connection = await connect(url)
        try:
            with storage_errors(place_of(url)):
                await check_schema(connection, place_of(url))
        finally:
            await connection.close()
        return cls(
            url,
            await reading_pool(url, READERS),
            await private_pool(url, PRIVATE),
            sql_role=sql_role,
            busy_timeout_seconds=busy_timeout_seconds,
        )

    @property
    def place(self) -> str:
        """See `Storage.place`."""
        return self._place

    async def write(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """See `Storage.write`."""
        return await self._writer.run(unit)

    async def read_change_mark(self) -> int:
        """See `Storage.read_change_mark`."""
        return self._changes.mark()

    async def sql(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]]:
        """See `Storage.sql`."""
        return await self._private.run(OwnDatabase(ref, agent_id), query, params)

    async def sql_read(
        self, ref: AgentRef, agent_id: int, query: str, params: Sequence[Json]
    ) -> list[dict[str, Json]] | None:
        """See `Storage.sql_read`."""
        return await self._private.read(OwnDatabase(ref, agent_id), query, params)

    async def sql_once(
        self, ref: AgentRef, query: str, params: Sequence[Json], *, effect: EffectRow
    ) -> tuple[EffectRow, list[dict[str, Json]]]:
        """See `Storage.sql_once`."""
        place = OwnDatabase(ref, effect.agent_id)
        return await self._private.run_once(place, query, params, effect)

    async def sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> list[EffectRow]:
        """See `Storage.sql_effects`; they are among the invocation's other effects here."""
        effects = await self.read_effects(ref, invocation)
        return [effect for effect in effects if effect.kind == "sql"]

    async def forget_sql_effects(self, ref: AgentRef, agent_id: int, invocation: str) -> None:
        """See `Storage.forget_sql_effects`; they have gone with the invocation here."""

    async def sql_place(self, ref: AgentRef, agent_id: int) -> str | None:
        """See `Storage.sql_place`."""
        return await self._private.place(OwnDatabase(ref, agent_id))

    async def delete_sql(self, ref: AgentRef, agent_id: int) -> None:
        """See `Storage.delete_sql`."""
        await self._private.delete(OwnDatabase(ref, agent_id))

    async def close(self) -> None:
        """See `Storage.close`."""
        await self._writer.close()
        await self._private.close()
        await self._changes.close()
        await self._readers.close()
        await self._connection.close()


class _Readers:
    """A few connections that cannot write."""

    def __init__(self, pool: asyncpg.Pool, place: str) -> None:
        self._pool = pool
        self._place = place

    async def run(self, statement: str, params: Params) -> list[tuple[Json, ...]]:
        spelled = spell(statement)
        with storage_errors(self._place):
            rows = await self._pool.fetch(spelled.text, *spelled.bind(params))
        return [plain_row(row) for row in rows]

    async def close(self) -> None:
        await self._pool.close()
