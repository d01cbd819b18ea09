"""Writers of one session at the same time, in one process and in several: nothing is lost."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

from agent_runtime.session import session_provider
from agent_runtime.session.direct_session_store import open_session_store
from agent_runtime.session.message import text_message
from agent_runtime.session.session import Session
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.session_bench import CHAT, SessionBench, message
from agent_runtime.testing.storage_bench import StorageBench
from tests.support.session_tree_check import check_session_tree
from tests.support.session_writers import Acknowledged, run_writer


def _chat(storage: SqliteStorage) -> SessionBench:
    async def opened() -> SqliteStorage:
        return storage

    return SessionBench(StorageBench(opened, storage), CHAT)


async def test_r04_concurrent_appends_make_one_chain(tmp_path: Path) -> None:
    """Fifty appends without a parent through two sessions over two connections, at once."""
    async with (
        await open_session_store(tmp_path) as store,
        await open_session_store(tmp_path) as other,
    ):
        sessions = [Session.create(store), Session.create(other)]
        await sessions[0].append_message(text_message("user", "root", id="root"))
        await asyncio.gather(
            *(
                sessions[number % 2].append_message(text_message("user", "x", id=f"n{number}"))
                for number in range(50)
            )
        )
        path = [each["id"] for each in await sessions[1].get_history()]

        assert path[0] == "root"
        assert sorted(path[1:]) == sorted(f"n{number}" for number in range(50))
        for parent, child in pairwise(path):
            assert [each["id"] for each in await sessions[0].get_branches(parent)] == [child]


async def test_r04_two_processes_make_one_chain(tmp_path: Path) -> None:
    """Processes that append, update and delete at once: what was acknowledged is on the path."""
    told = Acknowledged()
    await asyncio.gather(
        run_writer(tmp_path, "p", 60, told),
        run_writer(tmp_path, "q", 60, told),
    )

    await _check(tmp_path, told, is_complete=True)
    assert len(told.appended) == 120


async def test_tasks_and_processes_write_together(tmp_path: Path) -> None:
    """Six tasks of this process on one connection and two processes, on one session."""
    told = Acknowledged()
    storage = await SqliteStorage.open(tmp_path)
    try:
        chat = _chat(storage)

        async def write(writer: int) -> None:
            for number in range(15):
                name = f"t{writer}-{number}"
                await chat.append(message(name))
                told.note(f"+{name}\n")
                if number % 5 == 4:
                    await chat.delete(f"t{writer}-{number - 1}")
                    told.note(f"-t{writer}-{number - 1}\n")

        processes = [run_writer(tmp_path, name, 30, told) for name in ("p", "q")]
        await asyncio.gather(*(write(writer) for writer in range(6)), *processes)
    finally:
        await storage.close()

    await _check(tmp_path, told, is_complete=True)


async def test_reads_during_deletions_are_whole(tmp_path: Path) -> None:
    """Whatever is deleted meanwhile, a history is one that was there at some time."""
    writing, reading = await SqliteStorage.open(tmp_path), await SqliteStorage.open(tmp_path)
    try:
        await _chat(writing).append(*(f"m{number:03}" for number in range(300)))
        await _chat(writing).overlay("S", "m010", "m020")
        is_done, has_read = asyncio.Event(), asyncio.Event()

        async def delete() -> None:
            for number in range(0, 300, 3):
                await _chat(writing).delete(f"m{number:03}")
                if number % 30 == 0:
                    has_read.clear()
                    await has_read.wait()
            is_done.set()

        lengths = set[int]()

        async def read() -> None:
            while not is_done.is_set():
                shown = await _chat(reading).visible()
                numbers = [int(each[1:]) for each in shown if each != "S!"]
                # Deletion goes upwards by threes: below some number all of those are gone.
                gone = [number for number in range(0, 300, 3) if number not in numbers]
                covered = range(10, 21)
                first_left = min(
                    (number for number in range(0, 300, 3) if number in numbers), default=300
                )
                assert all(number < first_left or number in covered for number in gone)
                assert numbers == sorted(numbers)
                lengths.add(len(numbers))
                has_read.set()

        await asyncio.gather(delete(), read(), read())

        assert len(lengths) > 3, "reads and deletions met"
        await check_session_tree(writing, CHAT)
    finally:
        await writing.close()
        await reading.close()


async def test_r07_sessions_of_one_conversation_share_the_leaf(tmp_path: Path) -> None:
    """A branch made through one object is the leaf in the other at once."""
    async with (
        await open_session_store(tmp_path) as store,
        await open_session_store(tmp_path) as other,
    ):
        one, two = Session.create(store), Session.create(other)
        for name in ("m0", "m1", "m2", "m3"):
            await one.append_message(text_message("user", "x", id=name))
        assert (await two.get_latest_leaf() or {})["id"] == "m3"
        await one.append_message(text_message("user", "x", id="branch"), "m1")

        assert (await two.get_latest_leaf() or {})["id"] == "branch"
        result = await two.append_message(text_message("user", "x", id="next"))
        assert result == session_provider.AppendResult(True, "branch")
        assert [each["id"] for each in await one.get_history()] == ["m0", "m1", "branch", "next"]


async def _check(data_dir: Path, told: Acknowledged, *, is_complete: bool) -> None:
    storage = await SqliteStorage.open(data_dir)
    try:
        path = await _chat(storage).raw()
        kept = [name for name in told.appended if name not in told.deleted]
        assert len(path) == len(set(path))
        assert set(kept) - told.doomed <= set(path)
        assert not told.deleted & set(path)
        if is_complete:
            assert len(path) == len(kept)
        await check_session_tree(storage, CHAT)
    finally:
        await storage.close()
