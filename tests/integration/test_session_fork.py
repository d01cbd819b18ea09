"""Forking and splitting sessions: all or nothing, once, and without compaction (19.5, 19.6)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import (
    IdempotencyConflictError,
    UnknownMessageError,
    UnknownSessionError,
)
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session_fork import copied_message_id
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.stored_context import StoredSearchProvider
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, open_stores, texts, u

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=ENGINES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresDatabases
) -> AsyncIterator[DirectSessionStore]:
    """A fresh session store of either engine."""
    async with open_stores(request.param, tmp_path / "sessions", postgres, "default") as [opened]:
        yield opened


@pytest.fixture
def manager(store: DirectSessionStore) -> SessionManager:
    """A manager of sessions with a memory and searchable facts."""
    return (
        SessionManager.create(store)
        .with_context("memory")
        .with_context("facts", provider=StoredSearchProvider(store))
    )


async def test_s066_a_fork_holds_the_messages_up_to_one(manager: SessionManager) -> None:
    """Under ids that follow from its own, of the same model; the original stays as it is."""
    original = await manager.create("Original", None, "some-model", "web")
    await manager.append_all(original.id, [u("fork-m1"), u("fork-m2"), u("fork-m3")])

    fork = await manager.fork(original.id, "fork-m2", "Fork")

    assert (fork.name, fork.parent_session_id) == ("Fork", original.id)
    assert (fork.model, fork.source) == ("some-model", "web")
    assert fork.updated_at >= fork.created_at
    assert await manager.get(fork.id) == fork
    copies = await manager.get_history(fork.id)
    assert texts(copies) == ["fork-m1 message", "fork-m2 message"]
    assert [each["id"] for each in copies] == [copied_message_id(fork.id, n) for n in range(2)]
    assert await manager.get_message_count(original.id) == 3
    assert [hit.session_id for hit in await manager.search("fork m3")] == [original.id]
    assert {hit.session_id for hit in await manager.search("fork m2")} == {original.id, fork.id}


async def test_a_fork_keeps_all_of_a_message_but_its_id(manager: SessionManager) -> None:
    """Tool parts, metadata and keys nobody knows."""
    original = await manager.create("s")
    message: Message = {
        "id": "m",
        "role": "assistant",
        "parts": [{"type": "tool-x", "toolCallId": "c", "output": {"a": [1, None]}}],
        "metadata": {"k": "v"},
        "createdAt": "2020-01-01T00:00:00.000Z",
        "extra": 1.5,
    }
    await manager.append(original.id, message)

    fork = await manager.fork(original.id, "m", "f")

    [copy] = await manager.get_history(fork.id)
    assert copy == {**message, "id": copied_message_id(fork.id, 0)}


async def test_a_fork_follows_the_branch_of_its_message(manager: SessionManager) -> None:
    """Not the latest one, and it leaves the siblings out."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u("q"), u("old"), u("after old")])
    await manager.append(original.id, u("new"), "q")

    fork = await manager.fork(original.id, "old", "f")

    assert texts(await manager.get_history(fork.id)) == ["q message", "old message"]


async def test_a_fork_copies_summaries_as_messages(manager: SessionManager) -> None:
    """What they stood for stays behind, and the copy says what it is."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u(f"m{index}") for index in range(6)])
    await manager.add_compaction(original.id, "Summary", "m1", "m3")

    fork = await manager.fork(original.id, "m4", "f")

    history = await manager.get_history(fork.id)
    assert texts(history) == ["m0 message", "Summary", "m4 message"]
    assert [each.get("metadata") for each in history] == [None, {"compaction": True}, None]
    assert await manager.get_compactions(fork.id) == []
    assert await manager.get_message_count(fork.id) == 3


async def test_a_long_history_is_forked_in_order(manager: SessionManager) -> None:
    """More messages than go into one statement."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u(f"m{index}") for index in range(1203)])

    fork = await manager.fork(original.id, "m1201", "f")

    copies = await manager.get_history(fork.id)
    assert texts(copies) == [f"m{index} message" for index in range(1202)]
    assert copies[-1]["id"] == copied_message_id(fork.id, 1201)


async def test_a_fork_leaves_context_behind_unless_asked(manager: SessionManager) -> None:
    """With `copy_context` it has the blocks and the entries; neither changes the original's."""
    original = await manager.create("s")
    session = manager.get_session(original.id)
    await session.append_message(u("m"))
    await session.replace_context_block("memory", "likes tea")
    await (await session.tools())["set_context"].execute(
        {"label": "facts", "content": "alpha beta", "metadata": {"title": "Greek"}}
    )

    bare = manager.get_session((await manager.fork(original.id, "m", "bare")).id)
    full = manager.get_session((await manager.fork(original.id, "m", "full", copy_context=True)).id)
    await full.replace_context_block("memory", "likes coffee")

    found = [
        await (await each.tools())["search_context"].execute({"label": "facts", "query": "beta"})
        for each in (bare, full)
    ]
    assert found == ["No results found.", "[greek]\nalpha beta"]
    blocks = [await each.get_context_block("memory") for each in (bare, full, session)]
    assert [block and block.content for block in blocks] == ["", "likes coffee", "likes tea"]


@pytest.mark.parametrize("message_id", ["nope", "", "compaction_x"])
async def test_a_fork_at_an_unknown_message_is_refused(
    manager: SessionManager, message_id: str
) -> None:
    """F36: there is no empty fork."""
    original = await manager.create("s")
    await manager.append(original.id, u("m"))

    with pytest.raises(UnknownMessageError):
        await manager.fork(original.id, message_id, "f")
    assert await manager.list() == [await manager.get(original.id)]


async def test_a_fork_of_an_unknown_session_is_refused(manager: SessionManager) -> None:
    """One that is not registered but holds messages is known."""
    with pytest.raises(UnknownSessionError):
        await manager.fork("nope", "m", "f")
    await manager.append("unregistered", u("m"))

    fork = await manager.fork("unregistered", "m", "f")

    assert (fork.parent_session_id, fork.model) == ("unregistered", None)
    assert texts(await manager.get_history(fork.id)) == ["m message"]


async def test_r31_a_fork_never_compacts(manager: SessionManager) -> None:
    """F36: neither while it is made nor the original."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u(f"m{index}", "many words " * 9) for index in range(9)])
    calls = 0

    async def summarize(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        nonlocal calls
        calls += 1
        return None

    manager.on_compaction(summarize).compact_after(10)
    fork = await manager.fork(original.id, "m8", "f")

    assert calls == 0
    assert await manager.get_message_count(fork.id) == 9


@pytest.mark.parametrize("operation", ["fork", "split"])
async def test_r31_a_crash_in_the_middle_leaves_nothing(tmp_path: Path, operation: str) -> None:
    """No new session, no end of the old one; the same key then does it once."""
    async with await open_session_store(tmp_path / "db") as store:
        manager = SessionManager.create(store)
        original = await manager.create("s")
        await manager.append_all(original.id, [u(f"m{index}") for index in range(1200)])
        before = await manager.get(original.id)

        program = [sys.executable, "-m", "tests.support.session_programs"]
        arguments = [str(tmp_path / "db"), operation, original.id, "m1199"]
        died = await asyncio.to_thread(subprocess.run, [*program, *arguments], cwd=ROOT)

        assert died.returncode == 9
        assert await manager.list() == [before]
        assert await store.reads.session_ids(store.agent) == [original.id]
        if operation == "fork":
            made = [
                await manager.fork(original.id, "m1199", "fork", operation_key="once")
                for _ in range(2)
            ]
        else:
            made = [
                await manager.compact_and_split(original.id, "Summary", operation_key="once")
                for _ in range(2)
            ]
        assert made[0] == made[1]
        assert len(await manager.list()) == 2
        expected = 1200 if operation == "fork" else 1
        assert await manager.get_message_count(made[0].id) == expected


async def test_an_operation_key_forks_once(
    manager: SessionManager, store: DirectSessionStore
) -> None:
    """Also when repeated at once by others; without one each call makes a fork."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u("m1"), u("m2")])
    managers = [SessionManager.create(store) for _ in range(5)]

    forks = await asyncio.gather(
        *(each.fork(original.id, "m1", "f", operation_key="k") for each in managers)
    )

    assert len({fork.id for fork in forks}) == 1
    with pytest.raises(IdempotencyConflictError):
        await manager.fork(original.id, "m2", "f", operation_key="k")
    await manager.fork(original.id, "m1", "f")
    await manager.fork(original.id, "m1", "f")
    assert len(await manager.list()) == 4


async def test_a_refused_fork_does_not_use_its_key_up(manager: SessionManager) -> None:
    """Once the message is there the key works."""
    original = await manager.create("s")
    with pytest.raises(UnknownMessageError):
        await manager.fork(original.id, "m1", "f", operation_key="k")
    await manager.append(original.id, u("m1"))

    fork = await manager.fork(original.id, "m1", "f", operation_key="k")

    assert await manager.get_message_count(fork.id) == 1


async def test_a_fork_is_apart_from_appends_at_the_same_time(manager: SessionManager) -> None:
    """It holds the path to its message whatever is added meanwhile."""
    original = await manager.create("s")
    await manager.append_all(original.id, [u(f"m{index}") for index in range(20)])

    forks, _ = await asyncio.gather(
        asyncio.gather(*(manager.fork(original.id, "m9", f"f{index}") for index in range(5))),
        asyncio.gather(*(manager.append(original.id, u(f"n{index}"), "m4") for index in range(5))),
    )

    for fork in forks:
        history = await manager.get_history(fork.id)
        assert texts(history) == [f"m{index} message" for index in range(10)]


async def test_a_split_ends_the_old_session(manager: SessionManager) -> None:
    """The new one begins with the summary and is of the same model."""
    old = await manager.create("Long chat", None, "some-model", "web")
    await manager.append(old.id, u("m"))

    new = await manager.compact_and_split(old.id, "All was said.")

    ended = await manager.get(old.id)
    assert ended is not None and ended.end_reason == "compaction"
    assert (new.name, new.parent_session_id) == ("Long chat", old.id)
    assert (new.model, new.source, new.end_reason) == ("some-model", "web", None)
    [message] = await manager.get_history(new.id)
    assert message == text_message(
        "assistant",
        "[Context from previous session]\n\nAll was said.",
        id=copied_message_id(new.id, 0),
    )
    assert texts(await manager.get_history(old.id)) == ["m message"]
    assert [each.id for each in await manager.list()] == [new.id, old.id]


@pytest.mark.parametrize(
    ("old", "given", "expected"),
    [("Old", "New", "New"), ("Old", None, "Old"), ("", None, "Compacted"), ("Old", "", "Old")],
)
async def test_a_split_is_named(
    manager: SessionManager, old: str, given: str | None, expected: str
) -> None:
    """As told, else as the old one, else `Compacted`."""
    record = await manager.create(old)

    assert (await manager.compact_and_split(record.id, "Summary", given)).name == expected


async def test_splitting_an_unknown_session_is_refused(manager: SessionManager) -> None:
    """And makes no new one."""
    with pytest.raises(UnknownSessionError):
        await manager.compact_and_split("nope", "Summary")
    assert await manager.list() == []
