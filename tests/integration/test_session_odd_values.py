"""Values that no database can hold are refused alike on both engines, typed, and store nothing."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import (
    InvalidMessageError,
    InvalidRequestError,
    NotSerializableError,
    SessionSetupError,
)
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.stored_context import StoredSearchProvider
from tests.support.session import user

HALF = "an enclosed half: \ud83d"


@pytest.fixture
def manager(session_store: DirectSessionStore) -> SessionManager:
    """A registry of sessions with a memory, which can be summarized."""
    sessions = SessionManager.create(session_store).with_context("memory")
    return sessions.on_compaction(create_compact_function())


Use = Callable[[SessionManager, Session], Awaitable[Any]]


@pytest.mark.parametrize(
    "use",
    [
        lambda manager, session: session.get_message(HALF),
        lambda manager, session: session.get_branches(HALF),
        lambda manager, session: session.get_history(HALF),
        lambda manager, session: session.estimate_tokens(HALF),
        lambda manager, session: session.append_message(user("m2"), HALF),
        lambda manager, session: session.delete_messages([HALF]),
        lambda manager, session: session.add_compaction(HALF, "m1", "m1"),
        lambda manager, session: session.replace_context_block("memory", HALF),
        lambda manager, session: session.append_context_block("memory", HALF),
        lambda manager, session: manager.create(HALF),
        lambda manager, session: manager.create("name", operation_key=HALF),
        lambda manager, session: manager.rename(session.session_id, HALF),
        lambda manager, session: manager.list(limit=2**70),
    ],
)
async def test_what_cannot_be_stored_is_refused(manager: SessionManager, use: Use) -> None:
    """Half a character, a list where text belongs, a number beyond 64 bits."""
    record = await manager.create("One")
    session = manager.get_session(record.id)
    await session.append_message(user("m1"))

    with pytest.raises(NotSerializableError):
        await use(manager, session)

    assert [each["id"] for each in await session.get_history()] == ["m1"]
    assert [each.name for each in await manager.list()] == ["One"]


@pytest.mark.parametrize(
    "use",
    [
        lambda manager, session: session.append_message(user("m2"), 5),
        lambda manager, session: session.upsert_message(user("m2"), ["m1"]),
        lambda manager, session: session.add_compaction(5, "m1", "m1"),
        lambda manager, session: session.add_compaction("s", None, "m1"),
        lambda manager, session: session.add_compaction("s", "m1", 5),
        lambda manager, session: session.replace_context_block("memory", None),
        lambda manager, session: session.append_context_block("memory", 5),
        lambda manager, session: session.compact(5),
        lambda manager, session: session.compact(HALF),
        lambda manager, session: session.compact("x" * 2001),
        lambda manager, session: session.search(5),
        lambda manager, session: manager.search(None),
        lambda manager, session: manager.create("name", model=[1]),
        lambda manager, session: manager.create("name", source=5),
        lambda manager, session: manager.create("name", parent_session_id=5),
        lambda manager, session: manager.fork(session.session_id, 5, "name"),
        lambda manager, session: manager.fork(session.session_id, "m1", None),
        lambda manager, session: manager.compact_and_split(session.session_id, 5),
        lambda manager, session: manager.compact_and_split(session.session_id, "s", 5),
    ],
)
async def test_what_is_no_text_is_refused(manager: SessionManager, use: Use) -> None:
    """By the library, in its own words, before any database sees it."""
    record = await manager.create("One")
    session = manager.get_session(record.id)
    await session.append_message(user("m1"))

    with pytest.raises(InvalidRequestError):
        await use(manager, session)

    assert [each["id"] for each in await session.get_history()] == ["m1"]
    assert await session.get_compactions() == []
    assert [each.name for each in await manager.list()] == ["One"]


def _letters(count: int) -> str:
    """Return letters of three bytes each that no engine can make shorter."""
    return "".join(map(chr, Random(count).choices(range(0x4E00, 0x9FFF), k=count)))


async def test_ids_have_one_limit_on_both_engines(session_store: DirectSessionStore) -> None:
    """PostgreSQL's indexes have no room for longer ones, which SQLite would take."""
    longest = _letters(666) + "xx"
    session = Session.create(session_store).for_session(longest)

    await session.append_message(user(longest))
    await session.append_message(user("m2"), longest)
    await session.add_compaction("short", longest, "m2")
    with pytest.raises(InvalidMessageError, match="2001"):
        await session.append_message(user(longest + "x"))
    with pytest.raises(SessionSetupError):
        await Session.create(session_store).for_session(longest + "x").get_history()

    assert [each.id for each in await session.get_history_row_stats() or ()] == [longest, "m2"]


async def test_labels_and_keys_have_one_limit_on_both_engines(
    session_store: DirectSessionStore,
) -> None:
    """A block's label beside the longest id of a session, and an entry's key in it."""
    label, key, session_id = _letters(166), _letters(666), _letters(665)
    entries = StoredSearchProvider(session_store, session_id=session_id)
    session = Session.create(session_store).for_session(session_id).with_context(label + "a")
    session.with_context(label + "b", provider=entries).with_cached_prompt()

    await session.replace_context_block(label + "a", "some")
    prompt = await session.freeze_system_prompt()
    await entries.set(key, "a word")

    assert label.upper() + "A" in prompt
    assert await entries.search("word") == f"[{key}]\na word"
    with pytest.raises(InvalidRequestError, match="2001"):
        await entries.set(key + "abc", "a word")
    with pytest.raises(InvalidRequestError, match="is a text"):
        await entries.set("key", None)  # type: ignore[arg-type]
    with pytest.raises(SessionSetupError, match="501"):
        Session.create(session_store).with_context(label + "abc")


@pytest.mark.parametrize(
    "usage",
    [("1", 1, 0.0), (1, 1.5, 0.0), (2**53 + 1, 0, 0.0), (1, 1, math.inf), (1, 1, "1"), (1, True)],
)
async def test_what_is_no_usage_is_refused(manager: SessionManager, usage: tuple[Any, ...]) -> None:
    """Counters stay what programs of all languages can read."""
    record = await manager.create("One")

    with pytest.raises(InvalidRequestError):
        await manager.add_usage(record.id, *usage)

    assert await manager.get(record.id) == record


@pytest.mark.parametrize("usage", [(2**53, 0, 0.0), (0, 2**53, 0.0), (0, 0, 1e15)])
async def test_usage_beyond_the_bounds_in_all_is_refused(
    manager: SessionManager, usage: tuple[int, int, float]
) -> None:
    """The counters stay as they were."""
    record = await manager.create("One")
    await manager.add_usage(record.id, *usage)

    with pytest.raises(InvalidRequestError):
        await manager.add_usage(record.id, 1, 1, 1.0)

    stored = await manager.get(record.id)
    assert stored is not None
    assert (stored.input_tokens, stored.output_tokens, stored.estimated_cost) == usage
