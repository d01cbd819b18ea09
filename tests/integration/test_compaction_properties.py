"""Compaction jobs on random histories: nothing that is hidden is lost, and calls are few."""

from __future__ import annotations

import asyncio
import math
import re
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.summary_request import MIN_PROMPT_CHARS
from agent_runtime.errors import ContextTooLongError
from agent_runtime.session.message import text_message
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.histories import History, histories
from tests.support.immediate_jobs import JobOwner

_MARK = re.compile(r"mark-[a-z0-9]+-")


class Marking:
    """A summarizer that says which marks it has read, and reads no more than it can.

    Args:
        max_chars: What the model reads; more is refused.
    """

    def __init__(self, max_chars: float = math.inf) -> None:
        self.max_chars = max_chars
        self.calls = 0

    async def __call__(self, prompt: str) -> str:
        """Return the marks of a prompt."""
        self.calls += 1
        if len(prompt) > self.max_chars:
            raise ContextTooLongError("too long")
        return " ".join(dict.fromkeys(_MARK.findall(prompt))) or "nothing"


def run(body: Callable[[JobOwner], Coroutine[Any, Any, None]]) -> None:
    """Run a test over a session of its own."""

    async def inside() -> None:
        with tempfile.TemporaryDirectory() as folder:
            storage = await SqliteStorage.open(Path(folder))
            try:
                await body(JobOwner(storage, uuid4().hex[:12]))
            finally:
                await storage.close()

    asyncio.run(inside())


_relaxed = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_relaxed
@given(
    history=histories(),
    padding=st.integers(0, 4_000),
    head=st.integers(0, 4),
    tail=st.integers(0, 300),
    asked_chars=st.sampled_from([None, 6_000, 9_000, 20_000]),
    read_chars=st.sampled_from([6_000, 7_000, 10_000, 50_000]),
    earlier_chars=st.sampled_from([0, 100, 2_500, 8_000]),
)
def test_every_hidden_message_is_in_the_summary_and_no_pair_is_separated(
    history: History,
    padding: int,
    head: int,
    tail: int,
    asked_chars: int | None,
    read_chars: int,
    earlier_chars: int,
) -> None:
    """Whatever the model reads at a time, each hidden message's mark has reached the summary."""
    for message in history.messages:
        mark = {"type": "text", "text": f"mark-{message['id']}- " + "z" * padding}
        message["parts"] = [mark, *message["parts"]]
    writer = Marking(read_chars)

    async def body(owner: JobOwner) -> None:
        session = owner.session.on_compaction(
            create_compact_function(
                writer,
                protect_head=head,
                tail_token_budget=tail,
                min_tail_messages=1,
                max_prompt_chars=asked_chars,
            )
        )
        if earlier_chars:
            early = [text_message("user", f"mark-e{n}-", id=f"e{n}") for n in range(8)]
            await session.append_messages(early)
            marks = " ".join(f"mark-e{n}-" for n in range(3, 7))
            await session.add_compaction(marks + "q" * earlier_chars, "e3", "e6")
        await session.append_messages(history.messages)
        result = await session.compact()
        if result is None:
            assert owner.outcomes[-1].status != "applied"
            return
        path = [row.id for row in await session.get_history_row_stats() or []]
        hidden = path[path.index(result.from_message_id) : path.index(result.to_message_id) + 1]
        told = set(_MARK.findall(result.summary))
        assert {f"mark-{each}-" for each in hidden} <= told
        offset = len(path) - len(history.messages)
        for edge in (path.index(hidden[0]), path.index(hidden[-1]) + 1):
            assert not history.separates(edge - offset)

    run(body)


@pytest.mark.parametrize("earlier_chars", [100, 2_100, 2_900, 6_500])
@pytest.mark.parametrize(("asked_chars", "read_chars"), [(9_000, 7_000), (20_000, 6_500)])
def test_an_earlier_summary_is_not_lost_when_prompts_get_shorter(
    earlier_chars: int, asked_chars: int, read_chars: int
) -> None:
    """It fitted the prompt that merges, and no longer does: it is read as parts of its own."""
    writer = Marking(read_chars)

    async def body(owner: JobOwner) -> None:
        session = owner.session.on_compaction(
            create_compact_function(
                writer,
                protect_head=1,
                tail_token_budget=10,
                min_tail_messages=1,
                max_prompt_chars=asked_chars,
            )
        )
        await session.append_messages(
            [text_message("user", f"mark-{n}-" + "z" * 1_900, id=f"{n}") for n in range(30)]
        )
        await session.add_compaction("mark-early- " + "q " * (earlier_chars // 2), "1", "2")
        result = await session.compact()
        assert result is not None
        assert "mark-early-" in result.summary
        assert {f"mark-{n}-" for n in range(3, 29)} <= set(_MARK.findall(result.summary))

    run(body)


def test_a_model_that_reads_a_prompt_of_any_length_is_asked_once() -> None:
    """The marks of a long history in one call."""
    writer = Marking()

    async def body(owner: JobOwner) -> None:
        session = owner.session.on_compaction(
            create_compact_function(writer, tail_token_budget=10, max_prompt_chars=1_000_000)
        )
        await session.append_messages(
            [text_message("user", f"mark-{n}- " + "z" * 900, id=f"{n}") for n in range(100)]
        )
        result = await session.compact()
        assert result is not None
        assert (writer.calls, len(_MARK.findall(result.summary))) == (1, 95)

    run(body)


@pytest.mark.parametrize("read_chars", [6_000, 6_500, 13_000, 50_000])
def test_few_calls_find_what_a_model_can_read(read_chars: int) -> None:
    """Refusals are at most one round of parallel calls for each halving."""
    writer = Marking(read_chars)

    async def body(owner: JobOwner) -> None:
        session = owner.session.on_compaction(
            create_compact_function(writer, tail_token_budget=10, max_prompt_chars=100_000)
        )
        await session.append_messages(
            [text_message("user", f"mark-{n}- " + "z" * 900, id=f"{n}") for n in range(200)]
        )
        result = await session.compact()
        assert result is not None
        assert len(_MARK.findall(result.summary)) == 195
        halvings = math.ceil(math.log2(100_000 / MIN_PROMPT_CHARS))
        needed = 200 * 1_000 / min(read_chars, 100_000)
        assert writer.calls <= 4 * halvings + 4 * needed

    run(body)


@_relaxed
@given(
    sizes=st.lists(st.integers(1, 400), min_size=20, max_size=80),
    threshold=st.integers(450, 900),
    tail=st.integers(0, 100),
    summary_words=st.integers(1, 60),
)
def test_calls_are_as_few_as_what_they_save_allows(
    sizes: list[int], threshold: int, tail: int, summary_words: int
) -> None:
    """At most one call for each (threshold - size after compaction) tokens that are appended."""
    calls = 0
    after: list[int] = []
    total = 0

    async def summarize(prompt: str) -> str:
        nonlocal calls
        calls += 1
        return "word " * summary_words

    async def body(owner: JobOwner) -> None:
        nonlocal total
        session = owner.session.on_compaction(
            create_compact_function(
                summarize, protect_head=1, min_tail_messages=1, tail_token_budget=tail
            )
        ).compact_after(threshold)
        for number, size in enumerate(sizes):
            before, asked = await session.estimate_tokens(), calls
            await session.append_message(text_message("user", "x" * size, id=f"m{number}"))
            if calls > asked:
                after.append(await session.estimate_tokens())
            else:
                total += await session.estimate_tokens() - before
        total += 104 * len(after)  # the appends that set one off, at their largest

    run(body)
    assert max(after, default=0) < threshold
    assert calls == len(after)
    assert calls <= 1 + total / (threshold - max(after, default=0))


@_relaxed
@given(sizes=st.lists(st.integers(1, 400), min_size=20, max_size=80))
def test_a_failing_summarizer_is_not_asked_for_each_append(sizes: list[int]) -> None:
    """Attempts grow with the logarithm of the session, not with the number of appends."""
    calls = 0

    async def summarize(prompt: str) -> str:
        nonlocal calls
        calls += 1
        raise ConnectionError("away")

    async def body(owner: JobOwner) -> None:
        session = owner.session.on_compaction(
            create_compact_function(
                summarize, protect_head=1, min_tail_messages=1, tail_token_budget=20
            )
        ).compact_after(100)
        for number, size in enumerate(sizes):
            await session.append_message(text_message("user", "x" * size, id=f"m{number}"))
        assert await session.get_path_length() == len(sizes)
        estimate = await session.estimate_tokens()
        # 1.1, 1.2, 1.4, 1.8, then 2: each attempt waits for at least that growth.
        bound = 5 + math.log2(max(1.0, estimate / 100))
        assert calls <= bound

    run(body)
