"""Compacting a session: by hand, by itself, and with the reference function (9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactResult,
    TokenCountInput,
)
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.token_estimate import estimate_messages_tokens
from agent_runtime.errors import SessionSetupError
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session import Session
from agent_runtime.session.session_provider import Compaction
from agent_runtime.testing.context_providers import InMemoryContextProvider
from tests.support.context import ReadOnly
from tests.support.session import (
    Events,
    Owner,
    Prompts,
    Summaries,
    append_chain,
    assistant,
    ids,
    long_text,
    ranges,
    shown,
    user,
)
from tests.support.session_providers import PlainMessages


async def test_s029_without_a_function_compacting_raises(
    session_store: DirectSessionStore,
) -> None:
    """The message says what to call."""
    with pytest.raises(SessionSetupError, match="No compaction function registered"):
        await Session.create(session_store).compact()


@pytest.mark.parametrize("count", [2, 6])
async def test_s030_s033_a_function_may_find_nothing_to_do(
    session_store: DirectSessionStore, count: int
) -> None:
    """Nothing is stored then."""
    session = Session.create(session_store).on_compaction(Summaries(None))
    await append_chain(session, count)

    assert await session.compact() is None
    assert await session.get_compactions() == []


@pytest.mark.parametrize("is_async", [False, True])
async def test_s031_a_summary_is_stored_for_its_range(
    session_store: DirectSessionStore, is_async: bool
) -> None:
    """By a sync and by an async function."""

    def sync(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        return CompactResult("m1", "m3", "Summary of m1-m3")

    session = Session.create(session_store)
    session.on_compaction(Summaries(("m1", "m3", "Summary of m1-m3")) if is_async else sync)
    await append_chain(session, 6)

    assert await session.compact() == CompactResult("m1", "m3", "Summary of m1-m3")
    assert await ranges(session) == [("m1", "m3", "Summary of m1-m3")]
    assert shown(await session.get_history()) == ["m0", "Summary of m1-m3", "m4", "m5"]


async def test_s032_a_branch_is_compacted_for_itself(session_store: DirectSessionStore) -> None:
    """The function sees the chosen path; a sibling's overlay is no part of it."""
    function = Summaries(("m1", "m1", "Selected branch summary"))
    session = Session.create(session_store).on_compaction(function)
    await append_chain(session, 1)
    await session.append_message(assistant("old-assistant"), "m0")
    await session.add_compaction("Sibling", "m0", "old-assistant")
    await session.append_message(assistant("m1"), "m0")
    await session.append_message(user("m2"))

    await session.compact("m2")

    assert [ids(messages) for messages in function.seen] == [["m0", "m1", "m2"]]
    assert (await ranges(session))[1:] == [("m1", "m1", "Selected branch summary")]


async def test_s034_a_new_summary_takes_in_the_one_before_it(
    session_store: DirectSessionStore,
) -> None:
    """The stored one adjoins the new range."""
    session = Session.create(session_store).on_compaction(Summaries(("m6", "m8", "Round 2")))
    await append_chain(session, 10)
    await session.add_compaction("Round 1", "m1", "m5")

    assert await session.compact() == CompactResult("m1", "m8", "Round 2")
    assert await ranges(session) == [("m1", "m5", "Round 1"), ("m1", "m8", "Round 2")]
    assert shown(await session.get_history()) == ["m0", "Round 2", "m9"]


async def test_s035_an_append_over_the_threshold_compacts(
    session_store: DirectSessionStore,
) -> None:
    """Before it returns."""
    function = Summaries(None, None, None, None, ("m1", "m3", "Auto-compacted"))
    session = Session.create(session_store).on_compaction(function)
    for index in range(4):
        await session.append_message(user(f"m{index}", f"message {index} with some content"))
    session.compact_after(10)
    function.results = [("m1", "m3", "Auto-compacted")]

    await session.append_message(user("m4", "message 4 with some content"))

    assert len(function.seen) == 1
    assert await ranges(session) == [("m1", "m3", "Auto-compacted")]


@pytest.mark.parametrize("threshold", [1_000_000, None])
async def test_s036_s037_below_the_threshold_nothing_is_called(
    session_store: DirectSessionStore, threshold: int | None
) -> None:
    """Nor without one."""
    function = Summaries(None)
    session = Session.create(session_store).on_compaction(function)
    if threshold is not None:
        session.compact_after(threshold)

    await append_chain(session, 10)

    assert function.seen == []


async def test_the_threshold_itself_may_be_reached(session_store: DirectSessionStore) -> None:
    """Only what is above it is compacted (9.2)."""
    function = Summaries(None)
    session = Session.create(session_store).on_compaction(function)
    session.compact_after(11, token_counter=lambda given: 10.2)

    await append_chain(session, 1)
    assert function.seen == []
    session.compact_after(10)
    await append_chain(session, 1, start=1)
    assert len(function.seen) == 1


async def test_s038_a_threshold_needs_a_function(session_store: DirectSessionStore) -> None:
    """Alone it does nothing."""
    session = Session.create(session_store).compact_after(10)

    await append_chain(session, 3)

    assert await session.get_path_length() == 3


async def test_s039_the_prompt_counts(session_store: DirectSessionStore) -> None:
    """A long block takes the session over the threshold."""
    session = Session.create(session_store).with_context("big", provider=ReadOnly("x" * 400))
    session.on_compaction(Summaries(("m0", "m0", "context-triggered")))
    await append_chain(session, 1, text="hi")
    session.compact_after(50)

    await append_chain(session, 1, start=1, text="hi")

    assert [summary for _, _, summary in await ranges(session)] == ["context-triggered"]


async def test_s040_an_estimate_stores_no_prompt(session_store: DirectSessionStore) -> None:
    """The prompt is rendered for it, and forgotten."""
    prompt_store = InMemoryContextProvider()
    session = Session.create(session_store).with_context("soul", provider=ReadOnly("text"))
    session.with_cached_prompt(prompt_store)
    session.on_compaction(Summaries(None)).compact_after(1_000_000)

    await append_chain(session, 2)

    assert prompt_store.content is None


async def test_s041_an_estimate_uses_the_frozen_prompt(session_store: DirectSessionStore) -> None:
    """A block that was changed behind the session's back does not count yet."""
    memory = InMemoryContextProvider("x" * 400)
    session = Session.create(session_store).with_context("memory", provider=memory)
    function = Summaries(None)
    session.on_compaction(function).compact_after(50)
    await session.freeze_system_prompt()
    memory.content = "short"

    await append_chain(session, 2, text="hi")

    assert function.seen != []


async def test_s042_a_counter_gets_all_there_is(session_store: DirectSessionStore) -> None:
    """Messages, the prompt's text, and the blocks, which are loaded for it."""
    given: list[TokenCountInput] = []

    async def count(all: TokenCountInput) -> float:
        given.append(all)
        return 11

    function = Summaries(None)
    session = Session.create(session_store)
    session.with_context("memory", provider=ReadOnly("remember this"))
    await append_chain(session, 1)
    session.on_compaction(function).compact_after(10, token_counter=count)

    await append_chain(session, 1, start=1)

    assert len(given[0].messages) == 2
    assert "remember this" in given[0].system_prompt
    assert given[0].context_blocks[0]["label"] == "memory"
    assert len(function.seen) == 1
    context = function.contexts[0]
    assert context is not None and context.token_counter is count


async def test_s043_a_counter_gets_the_cached_prompt(session_store: DirectSessionStore) -> None:
    """And the blocks as they are now."""
    given: list[TokenCountInput] = []

    def count(all: TokenCountInput) -> float:
        given.append(all)
        return 11

    session = Session.create(session_store)
    session.with_context("memory", provider=ReadOnly("current block content"))
    session.with_cached_prompt(InMemoryContextProvider("cached frozen prompt"))
    await append_chain(session, 1)
    session.on_compaction(Summaries(("m0", "m1", "cached prompt counter")))
    session.compact_after(10, token_counter=count)

    await append_chain(session, 1, start=1)

    assert (
        len(given[0].messages),
        given[0].system_prompt,
        [(each["label"], each["content"]) for each in given[0].context_blocks],
    ) == (2, "cached frozen prompt", [("memory", "current block content")])
    assert [summary for _, _, summary in await ranges(session)] == ["cached prompt counter"]


@pytest.mark.parametrize("count", [float("nan"), float("inf"), -5.0])
async def test_s044_what_is_no_count_is_zero(
    session_store: DirectSessionStore, count: float
) -> None:
    """It never starts a compaction."""
    function = Summaries(None)
    session = Session.create(session_store).on_compaction(function)
    session.compact_after(1, token_counter=lambda given: count)

    await append_chain(session, 2)

    assert function.seen == []
    assert await session.estimate_tokens() == 0


async def test_s045_reasoning_counts(session_store: DirectSessionStore) -> None:
    """A message of one reasoning part is longer than one without parts."""
    session = Session.create(session_store)
    part: Json = {"type": "reasoning", "text": "thinking about it"}
    await session.append_message({"id": "a", "role": "assistant", "parts": []})
    without = await session.estimate_tokens()
    await session.append_message({"id": "b", "role": "assistant", "parts": [part]}, None)

    assert await session.estimate_tokens() > without == 4


@pytest.mark.parametrize("is_async", [False, True])
async def test_s046_a_summary_that_cannot_be_stored_is_told(is_async: bool) -> None:
    """Once, to a sync or async handler; the append has succeeded."""
    seen: list[Exception] = []

    async def handler(error: Exception) -> None:
        seen.append(error)

    provider = PlainMessages()
    provider.overlay_error = OSError("disk full")
    session = Session(provider, on_compaction_error=handler if is_async else seen.append)
    session.on_compaction(Summaries(("m0", "m0", "never"))).compact_after(1)

    result = await session.append_message(user("m0"))

    assert [str(error) for error in seen] == ["disk full"]
    assert result is not None and result.is_inserted
    assert list(provider.messages) == ["m0"]


async def test_s047_a_handler_that_raises_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged; both messages are stored."""

    def handler(error: Exception) -> None:
        raise ValueError("handler")

    provider = PlainMessages()
    provider.overlay_error = OSError("disk full")
    session = Session(provider, on_compaction_error=handler)
    session.on_compaction(Summaries(("m0", "m0", "never"))).compact_after(1)

    await append_chain(session, 2)

    assert ids(await session.get_history()) == ["m0", "m1"]
    assert "the handler of compaction errors raised" in caplog.text


async def test_s048_a_summary_in_the_history_is_taken_in() -> None:
    """The function sees it; the new range begins where its range began."""
    provider = PlainMessages()
    for index in range(8):
        provider.append_message(user(f"m{index}"))
    provider.overlays.append(Compaction("c1", "Previous summary", "m1", "m3", "now"))
    function = Summaries(("m4", "m5", "Round 2 summary"))
    session = Session(provider).on_compaction(function)

    result = await session.compact()

    assert "compaction_c1" in [message["id"] for message in function.seen[0]]
    assert result == CompactResult("m1", "m5", "Round 2 summary")
    assert provider.overlays[-1].summary == "Round 2 summary"
    assert (await ranges(session))[-1] == ("m1", "m5", "Round 2 summary")


async def test_s049_compacting_sends_two_frames(session_store: DirectSessionStore) -> None:
    """That it begins, and what it has come to."""
    owner = Owner(session_store)
    session = Session.create(owner).on_compaction(Summaries(("m1", "m3", "short")))
    await append_chain(session, 6)
    owner.forget()

    await session.compact()

    assert owner.phases == ["compacting", "idle+"]
    assert owner.frames[0]["tokenEstimate"] > 0
    assert owner.frames[1]["compacted"]["tokensBefore"] == owner.frames[0]["tokenEstimate"]


async def test_s054_the_function_counts_as_the_session_does() -> None:
    """With the session's counter of five times the estimate the tail is shorter."""
    messages: list[Message] = [user("head")] + [
        {
            "id": f"tool-{index}",
            "role": "assistant",
            "parts": [{"type": "tool-x", "toolCallId": f"c{index}", "output": "y" * 4000}],
        }
        for index in range(8)
    ]
    budget = estimate_messages_tokens(messages[1:]) + 1
    prompts = Prompts("summary")
    function = create_compact_function(
        prompts, protect_head=1, min_tail_messages=1, tail_token_budget=budget
    )

    def five_times(given: TokenCountInput) -> float:
        return 5 * estimate_messages_tokens(given.messages)

    results = []
    for counter in (None, five_times):
        session = Session(PlainMessages(), token_counter=counter).on_compaction(function)
        await session.append_messages(messages)
        results.append(await session.compact())

    assert results[0] is None
    assert results[1] is not None and results[1].from_message_id == "tool-0"
    assert len(prompts.seen) == 1


async def test_golden_26_6_a_second_run_grows_the_first(
    session_store: DirectSessionStore,
) -> None:
    """Its prompt holds the first summary and the new messages only."""
    prompts = Prompts("S1 summary", "S2 summary")
    function = create_compact_function(
        prompts, protect_head=2, min_tail_messages=1, tail_token_budget=60
    )
    session = Session.create(session_store).on_compaction(function)

    def named(index: int) -> Message:
        return text_message("user", f"[{index}]".ljust(100, "x"), id=f"m{index}")

    await session.append_messages([named(index) for index in range(8)])
    await session.compact()
    assert await ranges(session) == [("m2", "m5", "S1 summary")]
    assert shown(await session.get_history()) == ["m0", "m1", "S1 summary", "m6", "m7"]

    await session.append_messages([named(index) for index in range(8, 12)])
    await session.compact()
    assert (await ranges(session))[1:] == [("m2", "m9", "S2 summary")]
    assert shown(await session.get_history()) == ["m0", "m1", "S2 summary", "m10", "m11"]
    assert "S1 summary" in prompts.seen[1]
    assert [index for index in range(12) if f"[{index}]" in prompts.seen[1]] == [6, 7, 8, 9]


async def test_golden_26_7_frames_of_a_run(session_store: DirectSessionStore) -> None:
    """Exactly these frames and events, in this order."""
    owner, events = Owner(session_store), Events()
    function = create_compact_function(
        Prompts("S"), protect_head=1, min_tail_messages=1, tail_token_budget=60
    )
    session = Session.create(owner).on_compaction(function).compact_after(250).on_change(events)

    for index in range(5):
        await session.append_message(long_text(index, 200))

    def frame(phase: str, estimate: int) -> str:
        return (
            f'{{"type":"cf_agent_session","phase":"{phase}","tokenEstimate":{estimate},'
            '"tokenThreshold":250}'
        )

    assert owner.texts == [
        *(frame("idle", estimate) for estimate in (54, 108, 162, 216, 270)),
        frame("compacting", 270),
        frame("idle", 114).removesuffix("}") + ',"compacted":{"tokensBefore":270}}',
    ]
    assert events.kinds == ["MessageAppended"] * 4 + ["HistoryCompacted"]
    assert shown(await session.get_history()) == ["m0", "S", "m4"]


async def test_clearing_forgets_failures(session_store: DirectSessionStore) -> None:
    """The new history is compacted when it passes the threshold."""
    function = Summaries(OSError("model down"))
    session = Session.create(session_store).on_compaction(function).compact_after(50)
    await append_chain(session, 12, text="x" * 100)
    await session.clear_messages()
    function.seen.clear()
    function.results = [("n0", "n1", "S")]

    for index in range(2):
        await session.append_message(user(f"n{index}", "x" * 100))

    assert len(function.seen) == 1


async def test_compacting_refreshes_the_prompt(session_store: DirectSessionStore) -> None:
    """What was written meanwhile is in it (13.3)."""
    session = Session.create(session_store).with_context("memory").with_cached_prompt()
    session.on_compaction(Summaries(("m0", "m1", "S")))
    await append_chain(session, 3)
    frozen = await session.freeze_system_prompt()
    await session.replace_context_block("memory", "coffee")
    assert await session.freeze_system_prompt() == frozen

    await session.compact()

    assert "coffee" in await session.freeze_system_prompt()
