"""Writers of a session die by kill -9 at random points; what was acknowledged is there once."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from pathlib import Path

import pytest

from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from agent_runtime.testing.session_bench import CHAT, SessionBench
from agent_runtime.testing.storage_bench import StorageBench
from tests.support.session_tree_check import check_session_tree
from tests.support.session_writers import Acknowledged, run_writer

WRITERS, LIVES = 8, 3
ENDLESS = 100_000
"""More than any writer gets done before it is killed."""


@pytest.mark.timeout(600)
async def test_acknowledged_messages_are_on_the_path_once(tmp_path: Path) -> None:
    """Eight processes append, update and delete; each is killed twice and then left to finish."""
    told = Acknowledged()
    chance = random.Random(20)

    async def live(writer: int) -> None:
        for number in range(LIVES - 1):
            kill_after = chance.randint(1, 12)
            await run_writer(tmp_path, f"w{writer}.{number}", ENDLESS, told, kill_after=kill_after)
        await run_writer(tmp_path, f"w{writer}.last", 12, told)

    await asyncio.gather(*(live(writer) for writer in range(WRITERS)))

    storage = await SqliteStorage.open(tmp_path)

    async def opened() -> SqliteStorage:
        return storage

    chat = SessionBench(StorageBench(opened, storage), CHAT)
    try:
        path = await chat.raw()
        rows = await storage.sessions.tree(CHAT, 0, 100_000)
        await check_session_tree(storage, CHAT)
        found = set(await chat.found("something", limit=1_000))
    finally:
        await storage.close()
    kept = set(told.appended) - told.deleted
    assert len(told.appended) == len(set(told.appended)) >= WRITERS * 12
    assert len(path) == len(set(path))
    # A writer that died may have deleted what it was not told of.
    assert kept - told.doomed <= set(path)
    assert not told.deleted & set(path)
    assert {row.id for row in rows} == set(path), "nobody asked for a branch"
    assert found <= set(path)
    # Of what a dying writer had in flight, three messages and a deletion at most are in doubt.
    assert len(set(path) ^ kept) <= WRITERS * (LIVES - 1) * 4
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO message_search (message_search) VALUES ('integrity-check')")
    connection.close()
