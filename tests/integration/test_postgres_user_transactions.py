"""Transactions, turns and failures on connections to PostgreSQL that users bring (21)."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from agent_runtime.errors import (
    StorageUnavailableError,
    UnknownMessageError,
)
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import PostgresConnection
from agent_runtime.session.postgres_providers import (
    PostgresContextProvider,
    PostgresSearchProvider,
    PostgresSessionProvider,
)
from agent_runtime.session.postgres_session_store import PostgresSessionStore
from agent_runtime.session.session_store import session_ref
from agent_runtime.storage.session_protocol import SessionWrites
from tests.support.eventually import assert_eventually
from tests.support.postgres_clients import DriverClient, MinimalConnection
from tests.support.session import ids, user


async def append(provider: PostgresSessionProvider, *message_ids: str) -> None:
    """Append messages one after the other."""
    for message_id in message_ids:
        await provider.append_message(user(message_id))


@pytest.mark.parametrize("kind", ["asyncpg", "driver", "minimal"])
async def test_a_user_s_own_transaction_stays_the_user_s(
    postgres_url: str, plain_connection: asyncpg.Connection, owner: str, kind: str
) -> None:
    """What was written in it is gone with its rollback, and seen elsewhere after its commit."""
    wrapped = {
        "asyncpg": plain_connection,
        "driver": DriverClient(plain_connection),
        "minimal": MinimalConnection(plain_connection),
    }
    provider = PostgresSessionProvider(wrapped[kind], owner=owner)
    async with asyncpg.create_pool(postgres_url, min_size=0, max_size=1) as pool:
        elsewhere = PostgresSessionProvider(pool, owner=owner)

        own = plain_connection.transaction()
        await own.start()
        await append(provider, "gone")
        assert ids(await provider.get_history()) == ["gone"]
        await own.rollback()
        assert await elsewhere.get_history() == []

        await plain_connection.execute("BEGIN")
        await append(provider, "m1", "m2")
        assert plain_connection.is_in_transaction() and await elsewhere.get_history() == []
        await plain_connection.execute("COMMIT")
        assert ids(await elsewhere.get_history()) == ["m1", "m2"]


@pytest.mark.parametrize("kind", ["asyncpg", "driver"])
async def test_a_failed_write_leaves_the_user_s_transaction_whole(
    plain_connection: asyncpg.Connection, owner: str, kind: str
) -> None:
    """What came before it can be committed, what it did itself is undone."""
    connection = plain_connection if kind == "asyncpg" else DriverClient(plain_connection)
    provider = PostgresSessionProvider(connection, owner=owner, has_strict_parents=True)
    store = PostgresSessionStore(connection, owner=owner)

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.context.put_context(session_ref(store, ""), "memory", "half done")
        raise RuntimeError("no")

    async with plain_connection.transaction():
        await append(provider, "m1")
        with pytest.raises(UnknownMessageError):
            await provider.append_message(user("m2"), "nobody")
        with pytest.raises(RuntimeError, match="no"):
            await store.write("test", None, unit)
        await append(provider, "m3")

    assert ids(await provider.get_history()) == ["m1", "m3"]
    assert await PostgresContextProvider(connection, "memory", owner=owner).get() is None


async def test_a_failed_write_leaves_nothing_open(
    user_connection: PostgresConnection, owner: str
) -> None:
    """The next one is a transaction of its own again."""
    store = PostgresSessionStore(user_connection, owner=owner)

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.context.put_context(session_ref(store, ""), "memory", "half done")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        await store.write("test", None, unit)
    provider = PostgresSessionProvider(user_connection, owner=owner)
    await append(provider, "m1")

    assert ids(await provider.get_history()) == ["m1"]
    assert await PostgresContextProvider(user_connection, "memory", owner=owner).get() is None


async def test_a_cancelled_write_leaves_nothing_open(
    plain_connection: asyncpg.Connection, owner: str
) -> None:
    """Its transaction is rolled back, the connection serves on."""
    store = PostgresSessionStore(plain_connection, owner=owner)
    has_begun = asyncio.Event()

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.context.put_context(session_ref(store, ""), "memory", "half done")
        has_begun.set()
        await asyncio.Event().wait()

    writing = asyncio.create_task(store.write("test", None, unit))
    await has_begun.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing

    assert not plain_connection.is_in_transaction()
    assert await PostgresContextProvider(plain_connection, "memory", owner=owner).get() is None


@pytest.mark.parametrize("kind", ["asyncpg", "driver"])
async def test_a_writer_that_waits_can_be_cancelled(
    postgres_url: str, plain_connection: asyncpg.Connection, owner: str, kind: str
) -> None:
    """In the midst of a statement; its connection serves on once the other writer is done."""
    provider = PostgresSessionProvider(plain_connection, owner=owner)
    opened = await asyncpg.connect(postgres_url)
    waiter = PostgresSessionProvider(
        opened if kind == "asyncpg" else DriverClient(opened), owner=owner
    )
    await append(provider, "m0")
    backend = opened.get_server_pid()

    async def it_waits() -> None:
        assert (
            await plain_connection.fetchval("SELECT cardinality(pg_blocking_pids($1))", backend)
            == 1
        )

    async with plain_connection.transaction():
        await append(provider, "m1")
        waiting = asyncio.create_task(append(waiter, "m2"))
        await assert_eventually(it_waits)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not opened.is_in_transaction()
    await append(waiter, "m3")

    assert ids(await provider.get_history()) == ["m0", "m1", "m3"]
    await opened.close()


async def test_providers_of_one_connection_take_turns(
    user_connection: PostgresConnection, owner: str
) -> None:
    """Messages, block and entries at once, reads in between; nothing is lost."""
    provider = PostgresSessionProvider(user_connection, owner=owner)
    twin = PostgresSessionProvider(user_connection, owner=owner)
    block = PostgresContextProvider(user_connection, "memory", owner=owner)
    entries = PostgresSearchProvider(user_connection, owner=owner)
    await append(provider, "root")

    await asyncio.gather(
        *(
            work
            for number in range(8)
            for work in (
                append(provider, f"a{number}"),
                append(twin, f"b{number}"),
                block.set(str(number)),
                entries.set(str(number), "alpha"),
                provider.get_history(),
            )
        )
    )

    history = ids(await provider.get_history())
    assert history[0] == "root"
    assert sorted(history[1:]) == sorted(f"{kind}{n}" for kind in "ab" for n in range(8))
    assert await entries.get() == "8 entries indexed."


async def test_r04_two_connections_append_at_once(postgres_url: str, owner: str) -> None:
    """Fifty messages are one chain, none is lost (F03)."""
    connections = [await asyncpg.connect(postgres_url) for _ in range(2)]
    one = PostgresSessionProvider(connections[0], owner=owner)
    two = PostgresSessionProvider(DriverClient(connections[1]), owner=owner)
    await append(one, "root")

    await asyncio.gather(
        *(append(two if number % 2 else one, f"m{number}") for number in range(50))
    )

    history = ids(await one.get_history())
    assert history[0] == "root"
    assert sorted(history[1:]) == sorted(f"m{number}" for number in range(50))
    assert await two.get_path_length() == 51
    for opened in connections:
        await opened.close()


async def test_a_lost_connection_is_told(postgres_url: str, owner: str) -> None:
    """As an error that may be tried again, over another connection."""
    opened = await asyncpg.connect(postgres_url)
    provider = PostgresSessionProvider(opened, owner=owner)
    await append(provider, "m1")
    await opened.close()

    for doing in (provider.get_history(), provider.append_message(user("m2"))):
        with pytest.raises(StorageUnavailableError, match="the connection is closed"):
            await doing
