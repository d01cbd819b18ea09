"""The PostgreSQL server goes away and comes back under a storage that is in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent_runtime.errors import StorageUnavailableError
from agent_runtime.local.postgres_server import PostgresServer
from agent_runtime.storage import postgres_changes
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.postgres_migrations import migrate
from agent_runtime.storage.protocol import OutboxRow, Transaction
from agent_runtime.testing.storage_bench import ROOM, put_one
from tests.support.eventually import assert_eventually
from tests.support.own_sql import own_sql


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[PostgresServer]:
    """A server of the test's own, with the schema."""
    async with PostgresServer(tmp_path, is_durable=False) as started:
        await migrate(started.url())
        yield started


@pytest.fixture
async def opened(server: PostgresServer) -> AsyncIterator[PostgresStorage]:
    """A storage on that server."""
    storage = await PostgresStorage.open(server.url())
    yield storage
    await storage.close()


async def _increment(tx: Transaction) -> int:
    state = (await tx.load_states([ROOM]))[ROOM].state or "0"
    return await put_one(tx, ROOM, str(int(state) + 1))


async def test_everything_goes_on_after_a_restart(
    server: PostgresServer, opened: PostgresStorage
) -> None:
    """Writing, reading and the agents' own SQL fail while the server is away, then work again."""
    await opened.write(_increment)
    await own_sql(opened, ROOM, "CREATE TABLE notes (text TEXT)", ())
    await server.stop()

    for failing in (
        opened.write(_increment),
        opened.read_state(ROOM),
        own_sql(opened, ROOM, "SELECT * FROM notes", ()),
    ):
        with pytest.raises(StorageUnavailableError) as refusal:
            await failing
        assert refusal.value.is_retryable
    await server.start()

    assert await opened.write(_increment) == 2
    head = await opened.read_state(ROOM)
    assert head is not None and head.state == "2"
    assert await own_sql(opened, ROOM, "SELECT * FROM notes", ()) == []


async def test_a_unit_under_way_fails_whole(
    server: PostgresServer, opened: PostgresStorage
) -> None:
    """A crash in the middle of a unit leaves nothing of it, and its caller may repeat it."""
    is_first = True

    async def unit(tx: Transaction) -> int:
        nonlocal is_first
        version = await put_one(tx, ROOM, '"lost"')
        if is_first:
            is_first = False
            await server.crash()
            await server.start()
        await put_one(tx, ROOM, '"kept"')
        return version

    with pytest.raises(StorageUnavailableError):
        await opened.write(unit)

    assert await opened.read_state(ROOM) is None
    assert await opened.write(unit) == 1


async def test_crashes_lose_no_acknowledged_write(
    server: PostgresServer, opened: PostgresStorage
) -> None:
    """Of writes that were repeated until acknowledged none is lost over three crashes."""
    acknowledged = 0
    is_over = False

    async def write() -> None:
        nonlocal acknowledged
        while not is_over:
            try:
                version = await opened.write(_increment)
            except StorageUnavailableError:
                await asyncio.sleep(0.01)
                continue
            assert version > acknowledged
            acknowledged = version

    writing = asyncio.create_task(write())
    for _ in range(3):
        before = acknowledged

        async def it_writes(before: int = before) -> None:
            assert acknowledged > before + 20

        await assert_eventually(it_writes)
        await server.crash()
        await server.start()
    is_over = True
    await writing
    last = await opened.write(_increment)

    head = await opened.read_state(ROOM)
    assert head is not None and head.state == str(last) and last > acknowledged


async def test_notifications_come_again(
    server: PostgresServer, opened: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart the mark changes by itself, and with every entry of the feed again."""
    monkeypatch.setattr(postgres_changes, "_SAFETY_SECONDS", 10**9)
    number = (await opened.write(lambda tx: tx.load_states([ROOM])))[ROOM].agent_id
    row = OutboxRow(number, "state", 1, None, 1)
    mark = await opened.read_change_mark()

    async def it_has_changed() -> None:
        assert await opened.read_change_mark() != mark

    await assert_eventually(it_has_changed)
    mark = await opened.read_change_mark()
    await server.crash()
    await server.start()
    await assert_eventually(it_has_changed)
    mark = await opened.read_change_mark()
    await opened.write(lambda tx: tx.add_outbox([row]))

    await assert_eventually(it_has_changed)
