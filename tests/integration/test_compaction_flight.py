"""Two objects of one session in one process compact it as one would (contract 9.4)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from agent_runtime import Agent
from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactResult,
    TokenCountInput,
)
from agent_runtime.errors import SessionSetupError
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.repeated_handler import RepeatedHandler
from tests.support.session import user
from tests.support.session_providers import PlainMessages

THRESHOLD = 20


class Summarizer:
    """A compaction function that ends when it may, and counts its calls."""

    def __init__(self) -> None:
        self.calls = self.running = self.most = 0
        self.is_called = asyncio.Event()
        self.are_two = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        """Summarize all."""
        self.calls += 1
        self.running += 1
        self.most = max(self.most, self.running)
        self.is_called.set()
        if self.running == 2:
            self.are_two.set()
        await self.may_end.wait()
        self.running -= 1
        return CompactResult(messages[0]["id"], messages[-1]["id"], "S")


class Diary(Agent):
    """Keeps a conversation."""


async def _append_over_the_threshold(first: Session, second: Session, by: Summarizer) -> None:
    for session in (first, second):
        session.on_compaction(by).compact_after(THRESHOLD, mode="inline")
    await first.append_message(user("m0"))
    compacting = asyncio.create_task(first.append_message(user("m1", "x" * 80)))
    await by.is_called.wait()
    # Returns, as it waits for nothing that another one of them does.
    await second.append_message(user("m2", "x" * 80))
    by.may_end.set()
    await compacting

    assert by.calls == 1
    assert len(await second.get_compactions()) == 1


async def test_an_append_to_another_object_starts_no_second_compaction(
    session_store: DirectSessionStore,
) -> None:
    """The summarizer is called once."""
    first, second = (Session.create(session_store) for _ in range(2))

    await _append_over_the_threshold(first, second, Summarizer())


async def test_nor_does_it_in_an_agent(storage: SqliteStorage) -> None:
    """Each handler may make an object of its own."""

    async def handle(diary: Diary) -> None:
        first, second = (Session.create(diary) for _ in range(2))
        await _append_over_the_threshold(first, second, Summarizer())

    await RepeatedHandler(storage, Diary)(handle)


async def test_nor_over_a_message_store_of_ones_own() -> None:
    """Two sessions over one object are one session."""
    messages = PlainMessages()

    await _append_over_the_threshold(Session(messages), Session(messages), Summarizer())


async def test_another_session_is_compacted_at_the_same_time(
    session_store: DirectSessionStore,
) -> None:
    """Only objects of one session wait for each other."""
    summarizer = Summarizer()
    for name in ("a", "b"):
        session = Session.create(session_store).for_session(name)
        await session.append_message(user("m0"))
    compacting = [
        asyncio.create_task(
            Session.create(session_store).for_session(name).on_compaction(summarizer).compact()
        )
        for name in ("a", "b")
    ]
    await summarizer.are_two.wait()
    summarizer.may_end.set()
    await asyncio.gather(*compacting)

    assert summarizer.most == 2


async def test_compactions_by_hand_of_two_objects_wait_for_each_other(
    session_store: DirectSessionStore,
) -> None:
    """The second begins with what the first has left."""
    summarizer = Summarizer()
    first, second = (Session.create(session_store).on_compaction(summarizer) for _ in range(2))
    await first.append_message(user("m0"))
    compacting = [asyncio.create_task(each.compact()) for each in (first, second)]
    await summarizer.is_called.wait()
    summarizer.may_end.set()
    await asyncio.gather(*compacting)

    assert (summarizer.calls, summarizer.most) == (2, 1)


async def test_a_history_that_was_shortened_meanwhile_is_not_summarized_again(
    session_store: DirectSessionStore,
) -> None:
    """An append whose estimate is older than another object's compaction looks once more."""
    summarizer = Summarizer()
    summarizer.may_end.set()
    has_counted, may_go_on = asyncio.Event(), asyncio.Event()

    async def slow_count(_: TokenCountInput) -> int:
        if has_counted.is_set():
            return 1
        has_counted.set()
        await may_go_on.wait()
        return THRESHOLD + 1

    first = Session.create(session_store).on_compaction(summarizer)
    second = Session.create(session_store).on_compaction(summarizer)
    second.compact_after(THRESHOLD, token_counter=slow_count)
    appending = asyncio.create_task(second.append_message(user("m0", "x" * 80)))
    await has_counted.wait()
    await first.compact()
    may_go_on.set()
    await appending

    assert summarizer.calls == 1


async def test_a_compaction_function_cannot_wait_for_itself_by_another_object(
    session_store: DirectSessionStore,
) -> None:
    """It is told so, as it is by its own object."""
    other = Session.create(session_store).on_compaction(Summarizer())

    async def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        with pytest.raises(SessionSetupError, match="cannot call compact"):
            await other.compact()
        return CompactResult(messages[0]["id"], messages[-1]["id"], "S")

    session = Session.create(session_store).on_compaction(compact)
    await session.append_message(user("m0"))

    assert await session.compact() is not None
