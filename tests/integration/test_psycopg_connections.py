"""Connections and pools of psycopg 3 that users bring: transactions, failures, values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import psycopg_pool
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from agent_runtime.errors import (
    NotSerializableError,
    SessionSetupError,
    StorageReadOnlyError,
    StorageUnavailableError,
    UnknownMessageError,
)
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_providers import (
    PostgresContextProvider,
    PostgresSessionProvider,
)
from agent_runtime.session.postgres_session_store import PostgresSessionStore
from agent_runtime.session.session_store import session_ref
from agent_runtime.storage.session_protocol import SessionWrites
from tests.support.eventually import assert_eventually
from tests.support.session import ids, user


@pytest.fixture(params=[False, True], ids=["begins", "autocommit"])
async def connection(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[psycopg.AsyncConnection[dict[str, Any]]]:
    """One that begins transactions by itself, as is the default, and one that does not."""
    async with await psycopg.AsyncConnection.connect(
        postgres_url, autocommit=request.param, row_factory=dict_row
    ) as opened:
        yield opened


@pytest.fixture
async def elsewhere(postgres_url: str, owner: str) -> AsyncIterator[PostgresSessionProvider]:
    """The same conversation over a connection of its own."""
    opened = await asyncpg.connect(postgres_url)
    yield PostgresSessionProvider(opened, owner=owner)
    await opened.close()


async def append(provider: PostgresSessionProvider, *message_ids: str) -> None:
    """Append messages one after the other."""
    for message_id in message_ids:
        await provider.append_message(user(message_id))


async def test_reads_and_writes_leave_the_connection_as_it_was(
    connection: psycopg.AsyncConnection[Any], elsewhere: PostgresSessionProvider, owner: str
) -> None:
    """Writes are stored at once, and no transaction is left open, not even by a read."""
    provider = PostgresSessionProvider(connection, owner=owner)

    assert await provider.get_history() == []
    assert connection.info.transaction_status == TransactionStatus.IDLE
    await append(provider, "m1")
    assert connection.info.transaction_status == TransactionStatus.IDLE
    assert ids(await elsewhere.get_history()) == ["m1"]


async def test_a_user_s_own_transaction_stays_the_user_s(
    connection: psycopg.AsyncConnection[Any], elsewhere: PostgresSessionProvider, owner: str
) -> None:
    """What was written in it is gone with its rollback, and seen elsewhere after its commit."""
    provider = PostgresSessionProvider(connection, owner=owner)

    async with connection.transaction(force_rollback=True):
        await append(provider, "gone")
        assert ids(await provider.get_history()) == ["gone"]
    assert await elsewhere.get_history() == []

    await connection.execute("SELECT 1" if not connection.autocommit else "BEGIN")
    await append(provider, "m1", "m2")
    assert connection.info.transaction_status == TransactionStatus.INTRANS
    assert await elsewhere.get_history() == []
    await connection.commit()
    assert ids(await elsewhere.get_history()) == ["m1", "m2"]


async def test_a_failed_write_leaves_the_user_s_transaction_whole(
    connection: psycopg.AsyncConnection[Any], owner: str
) -> None:
    """What came before it can be committed, what it did itself is undone."""
    provider = PostgresSessionProvider(connection, owner=owner, has_strict_parents=True)
    store = PostgresSessionStore(connection, owner=owner)

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.context.put_context(session_ref(store, ""), "memory", "half done")
        raise RuntimeError("no")

    async with connection.transaction():
        await append(provider, "m1")
        with pytest.raises(UnknownMessageError):
            await provider.append_message(user("m2"), "nobody")
        with pytest.raises(RuntimeError, match="no"):
            await store.write("test", None, unit)
        await append(provider, "m3")

    assert ids(await provider.get_history()) == ["m1", "m3"]
    assert await PostgresContextProvider(connection, "memory", owner=owner).get() is None


async def test_a_writer_that_waits_can_be_cancelled(
    connection: psycopg.AsyncConnection[Any], postgres_url: str, owner: str
) -> None:
    """In the midst of a statement; its connection serves on once the other writer is done."""
    provider = PostgresSessionProvider(connection, owner=owner)
    holder = await asyncpg.connect(postgres_url)
    holding = PostgresSessionProvider(holder, owner=owner)
    backend = connection.info.backend_pid
    await append(provider, "m0")

    async def it_waits() -> None:
        assert await holder.fetchval("SELECT cardinality(pg_blocking_pids($1))", backend) == 1

    async with holder.transaction():
        await append(holding, "m1")
        waiting = asyncio.create_task(append(provider, "m2"))
        await assert_eventually(it_waits)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert connection.info.transaction_status == TransactionStatus.IDLE
    await append(provider, "m3")

    assert ids(await provider.get_history()) == ["m0", "m1", "m3"]
    await holder.close()


async def test_r04_two_connections_of_psycopg_append_at_once(postgres_url: str, owner: str) -> None:
    """Fifty messages are one chain, none is lost (F03); one of two is a pool."""
    async with (
        await psycopg.AsyncConnection.connect(postgres_url) as connection,
        psycopg_pool.AsyncConnectionPool(postgres_url, min_size=1, max_size=2) as pool,
    ):
        one = PostgresSessionProvider(connection, owner=owner)
        two = PostgresSessionProvider(pool, owner=owner)
        await append(one, "root")

        await asyncio.gather(
            *(append(two if number % 2 else one, f"m{number}") for number in range(50))
        )

        history = ids(await one.get_history())
        assert history[0] == "root"
        assert sorted(history[1:]) == sorted(f"m{number}" for number in range(50))
        assert await two.get_path_length() == 51


async def test_a_lost_connection_is_told(
    connection: psycopg.AsyncConnection[Any], owner: str
) -> None:
    """As an error that may be tried again, over another connection."""
    provider = PostgresSessionProvider(connection, owner=owner)
    await append(provider, "m1")
    await connection.close()

    for doing in (provider.get_history(), provider.append_message(user("m2"))):
        with pytest.raises(StorageUnavailableError, match="the connection is closed"):
            await doing


async def test_a_closed_pool_is_told(postgres_url: str, owner: str) -> None:
    """As an error that may be tried again, over another pool."""
    async with psycopg_pool.AsyncConnectionPool(postgres_url, min_size=1) as pool:
        provider = PostgresSessionProvider(pool, owner=owner)
        await append(provider, "m1")

    for doing in (provider.get_history(), provider.append_message(user("m2"))):
        with pytest.raises(StorageUnavailableError, match="closed"):
            await doing


async def test_a_role_without_rights_is_told(
    connection: psycopg.AsyncConnection[Any], owner: str
) -> None:
    """Errors of the server are the runtime's, whichever client has met them."""
    provider = PostgresSessionProvider(connection, owner=owner)
    await append(provider, "m1")

    async with connection.transaction(force_rollback=True):
        await connection.execute("SET LOCAL default_transaction_read_only = on")
        await connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(StorageReadOnlyError, match="takes no writes"):
            await append(provider, "m2")

    assert ids(await provider.get_history()) == ["m1"]


async def test_texts_that_cannot_be_stored_are_told(
    connection: psycopg.AsyncConnection[Any], owner: str
) -> None:
    """Half a character is refused; NUL is kept, as everywhere."""
    memory = PostgresContextProvider(connection, "memory", owner=owner)

    with pytest.raises(NotSerializableError):
        await memory.set("\ud800")
    await memory.set("a\0b")

    assert await memory.get() == "a\0b"


def test_connections_that_block_are_refused(postgres_url: str) -> None:
    """The message names what to give in their place."""
    with (
        psycopg.connect(postgres_url) as blocking,
        pytest.raises(SessionSetupError, match="give its AsyncConnection"),
    ):
        PostgresSessionProvider(blocking)
    with (
        psycopg_pool.ConnectionPool(postgres_url, min_size=0, max_size=1, open=False) as pool,
        pytest.raises(SessionSetupError, match="give its AsyncConnectionPool"),
    ):
        PostgresSessionProvider(pool)  # type: ignore[arg-type]
