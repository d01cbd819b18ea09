"""What operations on a session cost does not depend on how long it is, nor on its neighbours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing._storage_session_context import fill_session
from agent_runtime.testing.session_bench import CHAT, NEIGHBOURS, SessionBench, message
from agent_runtime.testing.storage_bench import ROOM, StorageBench
from tests.support.session_tree_check import check_no_orphans
from tests.support.sqlite_steps import StepCounter

Operation = Callable[[SessionBench], Awaitable[object]]

SHORT, LONG = 1_000, 20_000
_numbers = count()


@pytest.fixture(scope="module")
async def filled(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[SqliteStorage, StepCounter]]:
    """A file with a short session and a long one, each with a branch at every hundredth message."""
    storage = await SqliteStorage.open(tmp_path_factory.mktemp("cost"))
    for length in (SHORT, LONG):
        chat = _session(storage, length)
        await chat.append(*(message(f"m{n}", f"word{n} and more") for n in range(length)))
        for n in range(0, length, 100):
            await chat.append(f"b{n}", parent=f"m{n}")
        await chat.append("last", parent=f"m{length - 1}")
    counter = StepCounter(storage)
    await counter.start()
    yield storage, counter
    await storage.close()


def _session(storage: SqliteStorage, length: int) -> SessionBench:
    async def opened() -> SqliteStorage:
        return storage

    return SessionBench(StorageBench(opened, storage), SessionRef(ROOM, f"of {length}"))


async def _append(chat: SessionBench) -> None:
    await chat.append(message(f"new{next(_numbers)}", "some more words"))


async def _append_and_delete(chat: SessionBench) -> None:
    name = f"new{next(_numbers)}"
    await chat.append(name)
    await chat.delete(name)


async def _branch(chat: SessionBench) -> None:
    await chat.append(f"new{next(_numbers)}", parent="m500")


OPERATIONS: dict[str, Operation] = {
    "append": _append,
    "append below an older one": _branch,
    "append again": lambda chat: chat.append("m700"),
    "append and delete": _append_and_delete,
    "update the leaf": lambda chat: chat.update(message("last", str(next(_numbers)))),
    "latest leaf": lambda chat: chat.reads.latest(chat.ref),
    "length": lambda chat: chat.reads.length(chat.ref, None),
    "length to": lambda chat: chat.reads.length(chat.ref, "m900"),
    "token estimate": lambda chat: chat.reads.visible_tokens(chat.ref, None),
    "one message": lambda chat: chat.reads.message(chat.ref, "m900"),
    "children": lambda chat: chat.reads.children(chat.ref, "m900"),
    "ancestor": lambda chat: chat.reads.is_on_path(chat.ref, "m3", "m900"),
    "short path": lambda chat: chat.reads.history(chat.ref, "m20"),
    "window": lambda chat: chat.reads.recent(chat.ref, None, 2_000, 5),
    "page of the tree": lambda chat: chat.reads.tree(chat.ref, 500, 20),
    "rare word": lambda chat: chat.found("word77"),
}


@pytest.mark.parametrize("name", OPERATIONS)
async def test_r32_cost_does_not_grow_with_the_session(
    filled: tuple[SqliteStorage, StepCounter], name: str
) -> None:
    """Twenty times the messages take the same statements and about the same steps."""
    storage, counter = filled
    short, long = [
        await counter.work(partial(OPERATIONS[name], _session(storage, length)))
        for length in (SHORT, LONG)
    ]

    assert short.statements == long.statements <= 20
    assert long.steps <= 1.2 * short.steps + 20


async def test_r32_a_compacted_history_costs_what_it_shows(
    filled: tuple[SqliteStorage, StepCounter],
) -> None:
    """Thirty-two visible messages cost the same under a summary of thousands or of hundreds."""
    storage, counter = filled
    work = []
    for length in (SHORT, LONG):
        chat = SessionBench(_session(storage, length).bench, SessionRef(ROOM, f"shown {length}"))
        await chat.append(*(message(f"m{n}", searched="") for n in range(length)))
        await chat.overlay("S", "m1", f"m{length - 31}")
        assert len(await chat.visible()) == 32
        for read in (chat.reads.history, chat.reads.visible_tokens):
            work.append(await counter.work(partial(read, chat.ref, None)))
    alone = SessionBench(chat.bench, SessionRef(ROOM, "alone"))
    await alone.append(*(message(f"m{n}", searched="") for n in range(32)))
    plain = await counter.work(lambda: alone.reads.history(alone.ref, None))

    assert [each.steps for each in work[:2]] == pytest.approx([w.steps for w in work[2:]], rel=0.1)
    assert work[2].steps <= 3 * plain.steps
    assert work[2].statements <= 4


async def test_r32_superseded_summaries_cost_nothing(tmp_path: Path) -> None:
    """After many rounds of compaction a read looks at the newest summary, not at all of them."""
    storage = await SqliteStorage.open(tmp_path)
    try:
        chat = _session(storage, 0)
        await chat.append(*(f"m{number}" for number in range(600)))
        counter = StepCounter(storage)
        await chat.overlay("o1", "m1", "m2")
        await counter.start()
        one = await counter.work(lambda: chat.reads.history(chat.ref, None))
        visible = len(await chat.visible())
        for number in range(2, 500):
            await chat.overlay(f"o{number}", "m1", f"m{number + 1}")
        await chat.append(*(f"n{number}" for number in range(498)))
        many = await counter.work(lambda: chat.reads.history(chat.ref, None))

        assert len(await chat.visible()) == visible
        assert many.steps <= 1.1 * one.steps
    finally:
        await storage.close()


async def test_r32_neighbours_cost_nothing(tmp_path: Path) -> None:
    """A small session costs the same with many thousands of messages of others beside it."""
    storage = await SqliteStorage.open(tmp_path)
    try:
        chat = _session(storage, 0)
        await chat.append(*(message(f"m{n}", f"word{n} and more") for n in range(40)))
        counter = StepCounter(storage)
        await counter.start()
        names = ["append", "latest leaf", "length", "token estimate", "window", "rare word"]
        before = {name: await counter.work(partial(OPERATIONS[name], chat)) for name in names}
        for number in range(20):
            other = SessionBench(chat.bench, SessionRef(ROOM, f"neighbour {number}"))
            await other.append(*(message(f"m{n}", f"word{n} and more") for n in range(1_000)))
        after = {name: await counter.work(partial(OPERATIONS[name], chat)) for name in names}

        for name in names:
            assert before[name].statements == after[name].statements, name
            assert after[name].steps <= 1.2 * before[name].steps + 20, name
    finally:
        await storage.close()


async def test_appending_takes_a_handful_of_statements(tmp_path: Path) -> None:
    """Of one message as of a hundred: statements are for the set, not for each."""
    storage = await SqliteStorage.open(tmp_path)
    try:
        chat = _session(storage, 0)
        await chat.append("m0")
        counter = StepCounter(storage)
        await counter.start()
        one = await counter.work(lambda: _append(chat))

        assert one.statements <= 8
    finally:
        await storage.close()


async def test_r30_no_row_of_a_deleted_session_is_left(tmp_path: Path) -> None:
    """Every table, found by the schema, is as it was before the session."""
    storage = await SqliteStorage.open(tmp_path)
    try:
        chat = SessionBench(_session(storage, 0).bench, CHAT)
        await fill_session(chat.of(NEIGHBOURS[0]))
        before = await _counts(storage)
        await fill_session(chat)
        during = await _counts(storage)
        await chat.delete_session()

        filled = {table for table in before if during[table] > before[table]}
        assert filled >= await _tables_of_a_session(storage)
        assert await _counts(storage) == before
        await check_no_orphans(storage)
    finally:
        await storage.close()


async def _tables_of_a_session(storage: SqliteStorage) -> set[str]:
    """Return every table whose rows name a session, found by its columns."""
    rows = await storage._read(
        """SELECT t.name FROM sqlite_master t JOIN pragma_table_info(t.name) c
        WHERE t.type = 'table' AND c.name IN ('session', 'session_id', 'namespace')""",
        (),
    )
    return {name for (name,) in rows} | {"message_search", "entry_search"}


async def _counts(storage: SqliteStorage) -> dict[str, int]:
    tables = await storage._read(
        """SELECT name FROM sqlite_master WHERE type = 'table'
        AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '%\\_search\\_%' ESCAPE '\\'""",
        (),
    )
    counts = {}
    for (table,) in tables:
        [(number,)] = await storage._read(f"SELECT COUNT(*) FROM {table}", ())
        counts[table] = int(number)
    return counts
