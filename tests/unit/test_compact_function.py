"""The reference compaction function (sessions 8, 9.1 ours; cases 50 to 54; 26.5, 26.6)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.boundaries import align_backward, align_forward
from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactResult,
    MessageTokenCounter,
    TokenCountInput,
)
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.summary_request import SummaryRequest
from agent_runtime.compaction.token_estimate import (
    estimate_messages_tokens,
)
from agent_runtime.compaction.transcript import render_message
from agent_runtime.errors import ConfigurationError
from tests.support.histories import (
    History,
    Message,
    call_message,
    chat,
    finished_call,
    histories,
    result_message,
    summary_message,
    text_message,
)


class Model:
    """Answers prompts with one text and remembers them."""

    def __init__(self, answer: str = "summary") -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return self.answer


def _tools(count: int, output: str) -> list[Message]:
    head = text_message("head", "hello")
    return [head, *(finished_call(f"tool-{n}", f"c{n}", output) for n in range(count))]


async def test_s050_too_short_a_history_is_left_alone() -> None:
    """Head and minimum tail cover all messages: nothing to do."""
    compact = create_compact_function(Model(), protect_head=2, min_tail_messages=4)

    assert await compact(chat(6)) is None


async def test_s051_the_middle_is_summarized() -> None:
    """Between head and tail lies a range with real endpoints."""
    compact = create_compact_function(
        Model(), protect_head=1, min_tail_messages=2, tail_token_budget=10
    )

    assert await compact(chat(20)) == CompactResult("m1", "m17", "summary")


async def test_s052_a_tail_that_holds_everything_needs_no_summary() -> None:
    """When all but the head fits the tail's budget, the summarizer is not asked."""
    model = Model()
    messages = _tools(8, "found")
    budget = estimate_messages_tokens(messages[1:]) + 1
    compact = create_compact_function(
        model, protect_head=1, min_tail_messages=1, tail_token_budget=budget
    )

    assert (await compact(messages), model.prompts) == (None, [])


async def test_s053_an_explicit_counter_decides_about_the_tail() -> None:
    """The option's counter is asked instead of the estimate."""
    model = Model()

    def count(messages: Sequence[Mapping[str, Any]]) -> int:
        return sum(len(json.dumps(message["parts"])) for message in messages)

    compact = create_compact_function(
        model,
        protect_head=1,
        min_tail_messages=1,
        tail_token_budget=10_000,
        token_counter=count,
    )
    result = await compact(_tools(8, "x" * 25_000))

    assert result == CompactResult("tool-0", "tool-6", "summary")
    assert len(model.prompts) == 1


async def test_s054_the_session_s_counter_is_used_when_there_is_no_other() -> None:
    """Without a counter nothing is to do; the session's larger counts make a middle."""
    model = Model()
    messages = _tools(8, "x" * 4_000)
    budget = estimate_messages_tokens(messages[1:]) + 1
    compact = create_compact_function(
        model, protect_head=1, min_tail_messages=1, tail_token_budget=budget
    )
    seen: list[TokenCountInput] = []

    async def count(given: TokenCountInput) -> float:
        seen.append(given)
        return 5 * estimate_messages_tokens(given.messages)

    assert (await compact(messages), model.prompts) == (None, [])
    assert await compact(messages, CompactContext(count)) is not None
    assert len(model.prompts) == 1
    assert seen[0] == TokenCountInput([messages[-1]])


async def test_a_head_that_grows_leaves_the_minimum_tail() -> None:
    """Results that stay with their call in the head do not shorten the tail."""
    messages = [call_message("a", "c1", "c2"), result_message("r1", "c1")]
    messages += [result_message("r2", "c2"), *chat(3)]
    compact = create_compact_function(
        Model(), protect_head=1, min_tail_messages=4, tail_token_budget=1
    )

    assert await compact(messages) is None


async def test_golden_defaults_with_a_small_tail() -> None:
    """With a tail of 48 tokens the ten messages lose m3 to m7; blank summaries make none."""
    assert await create_compact_function(Model("s"), tail_token_budget=48)(
        chat(10)
    ) == CompactResult("m3", "m7", "s")
    assert await create_compact_function(Model(" \n"), tail_token_budget=48)(chat(10)) is None


@pytest.mark.parametrize("count", [50_000, math.nan, -1, math.inf])
async def test_golden_odd_counters(count: float) -> None:
    """A fixed huge total leaves the minimum tail; what is no count is estimated (F24b)."""
    budget = 20_000 if count == 50_000 else 48
    compact = create_compact_function(
        Model("s"), tail_token_budget=budget, token_counter=lambda messages: count
    )

    assert await compact(chat(10)) == CompactResult("m3", "m7", "s")


async def test_golden_iterative_run() -> None:
    """The second run gets the first summary and the new messages only."""
    model = Model("S1")
    compact = create_compact_function(
        model, protect_head=2, min_tail_messages=1, tail_token_budget=60
    )
    messages = chat(12, "y" * 100)

    assert await compact(messages[:8]) == CompactResult("m2", "m5", "S1")

    visible = [*messages[:2], summary_message("1", "S1"), *messages[6:]]

    assert await compact(visible) == CompactResult("m6", "m9", "S1")
    assert "<earlier_summary>\nS1\n</earlier_summary>" in model.prompts[1]
    assert model.prompts[1].count("y" * 100) == 4


async def test_the_summary_is_returned_as_written() -> None:
    """Blanks around a summary are kept."""
    result = await create_compact_function(Model(" s\n"), tail_token_budget=48)(chat(10))

    assert result is not None
    assert result.summary == " s\n"


async def test_r10_every_summary_in_the_range_is_handed_over() -> None:
    """Two earlier summaries and all raw messages between and after them are in the prompt (F09)."""
    model = Model()
    raw = [text_message(f"m{n}", f"text {n}.", "user") for n in range(14)]
    first, second = summary_message("1", "FIRST"), summary_message("2", "SECOND")
    visible = [raw[0], first, *raw[4:6], second, *raw[9:]]
    compact = create_compact_function(
        model, protect_head=1, min_tail_messages=1, tail_token_budget=1
    )

    assert await compact(visible) == CompactResult("m4", "m12", "summary")
    (prompt,) = model.prompts
    assert "FIRST\n\nSECOND" in prompt
    assert all(f"text {n}." in prompt for n in (4, 5, 9, 10, 11, 12))


async def test_r11_a_summary_in_the_protected_head_is_left_out() -> None:
    """A summary apart from the range stays on its own, and so does the message between (F09)."""
    model = Model()
    raw = chat(16)
    visible = [raw[0], summary_message("1", "FIRST"), *raw[8:]]
    compact = create_compact_function(model, min_tail_messages=1, tail_token_budget=1)
    result = await compact(visible)

    assert result is not None
    assert (result.from_message_id, result.to_message_id) == ("m9", "m14")
    assert "FIRST" not in model.prompts[0]


async def test_summaries_that_adjoin_the_range_are_handed_over() -> None:
    """A new overlay swallows its neighbours, in a row too: their text is passed on."""
    model = Model()
    raw = chat(8)
    one, two, three = (summary_message(str(n), f"SUMMARY {n}") for n in (1, 2, 3))
    visible = [one, two, *raw[:5], three, raw[5]]
    compact = create_compact_function(
        model, protect_head=2, min_tail_messages=2, tail_token_budget=1
    )

    assert await compact(visible) == CompactResult("m0", "m4", "summary")
    assert "SUMMARY 1\n\nSUMMARY 2\n\nSUMMARY 3" in model.prompts[0]


async def test_nothing_but_summaries_is_nothing_to_do() -> None:
    """Summaries alone are not summarized again."""
    visible = [summary_message(str(n), "s" * 200) for n in range(9)]

    assert await create_compact_function(Model(), tail_token_budget=1)(visible) is None


async def test_an_error_of_the_summarizer_is_the_caller_s() -> None:
    """The function hides no failure."""

    async def fail(prompt: str) -> str:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        await create_compact_function(fail, tail_token_budget=1)(chat(10))


async def test_r25_long_transcripts_are_summarized_in_chunks() -> None:
    """Six hundred thousand characters: every prompt within the cap, every message in one (F22)."""
    model = Model()
    messages = [text_message(f"m{n}", f"<{n}>" + "x" * 20_000) for n in range(30)]
    compact = create_compact_function(
        model,
        protect_head=0,
        min_tail_messages=1,
        tail_token_budget=1,
        max_prompt_chars=50_000,
    )

    assert await compact(messages) == CompactResult("m0", "m28", "summary")
    assert all(len(prompt) <= 50_000 for prompt in model.prompts)
    assert all(any(f"<{n}>" in prompt for prompt in model.prompts) for n in range(29))
    assert model.prompts[-1].count("<partial_summary>") == len(model.prompts) - 1


async def test_the_default_cap_holds() -> None:
    """Without an option no prompt is longer than 100,000 characters."""
    model = Model()
    messages = [text_message(f"m{n}", "x" * 20_000) for n in range(30)]
    await create_compact_function(model, tail_token_budget=1)(messages)

    assert len(model.prompts) > 1
    assert max(map(len, model.prompts)) <= 100_000


async def test_a_blank_chunk_makes_no_summary() -> None:
    """A chunk whose summary is blank would be lost, so there is none at all."""
    answers = iter(["one", " ", "three", "merged"])

    async def summarize(prompt: str) -> str:
        return next(answers)

    messages = [text_message(f"m{n}", "x" * 20_000) for n in range(30)]
    compact = create_compact_function(summarize, tail_token_budget=1)

    assert await compact(messages) is None


async def test_a_summarizer_gets_the_messages() -> None:
    """An object with `summarize` is given the request itself and says how much it reads."""
    requests: list[SummaryRequest] = []

    class Reader:
        max_prompt_chars = None

        async def summarize(self, request: SummaryRequest) -> str:
            requests.append(request)
            return "read"

    messages = [text_message(f"m{n}", "x" * 20_000) for n in range(30)]
    result = await create_compact_function(Reader(), tail_token_budget=1)(messages)

    assert result == CompactResult("m3", "m27", "read")
    assert [len(request.messages) for request in requests] == [25]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"protect_head": -1}, "protect_head is -1"),
        ({"min_tail_messages": -1}, "min_tail_messages is -1"),
        ({"protect_head": 1.5}, "protect_head is 1.5; messages are counted whole"),
        ({"min_tail_messages": math.inf}, "min_tail_messages is inf"),
        ({"tail_token_budget": math.nan}, "tail_token_budget is nan"),
        ({"max_prompt_chars": 10}, "max_prompt_chars is 10"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], told: str) -> None:
    """A mistake shows when the function is made, not at the first compaction."""
    with pytest.raises(ConfigurationError, match=told):
        create_compact_function(Model(), **options)


async def test_c14_parallel_results_are_not_parted_by_the_tail() -> None:
    """A cut that would fall between two results keeps call and results in the tail."""
    model = Model()
    messages = [
        text_message("u1", "look twice"),
        text_message("a0", "I will."),
        call_message("a1", "c1", "c2"),
        result_message("r1", "c1", "x" * 20_000),
        result_message("r2", "c2", "y" * 200),
        text_message("a2", "done", "assistant"),
        text_message("u2", "thanks"),
    ]
    compact = create_compact_function(
        model, protect_head=1, min_tail_messages=1, tail_token_budget=200
    )

    assert await compact(messages) == CompactResult("a0", "a0", "summary")
    assert "[Tool:" not in model.prompts[0]


_COUNTERS: list[MessageTokenCounter | None] = [None, lambda messages: 50, lambda messages: math.nan]


@given(
    histories(),
    st.integers(0, 4),
    st.integers(0, 3),
    st.integers(0, 200),
    st.sampled_from(_COUNTERS),
)
async def test_ranges_are_sound_in_any_history(
    history: History, head: int, min_tail: int, budget: int, counter: MessageTokenCounter | None
) -> None:
    """Head and tail stay, no call is parted from its result, every message is in the prompt."""
    model = Model()
    messages = history.messages
    compact = create_compact_function(
        model,
        protect_head=head,
        min_tail_messages=min_tail,
        tail_token_budget=budget,
        token_counter=counter,
    )
    result = await compact(messages)
    if result is None:
        return
    ids = [message["id"] for message in messages]
    start, end = ids.index(result.from_message_id), ids.index(result.to_message_id) + 1

    assert head <= start < end <= len(messages) - min_tail
    assert not history.separates(start)
    assert not history.separates(end)
    assert (align_forward(messages, start), align_backward(messages, end)) == (start, end)
    assert all(render_message(message) in model.prompts[0] for message in messages[start:end])
