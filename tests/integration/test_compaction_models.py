"""Compaction jobs over a scripted provider: how each misbehaviour ends, and what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import uuid4

import pytest
from temporalio.common import RetryPolicy

from agent_runtime.call import CompactionOutcome
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.model_summarizer import ModelSummarizer
from agent_runtime.errors import (
    ContextTooLongError,
    HandlerError,
    ModelAuthenticationError,
    ModelRequestError,
    ModelResponseError,
    ModelUnavailableError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.llm.chat_model import ChatResponse, Usage
from agent_runtime.llm.open_model import open_model
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session import Session
from agent_runtime.storage.session_protocol import SessionRef, UsageRow
from agent_runtime.testing import (
    Answer,
    RawAnswer,
    Refusal,
    ScriptedModelServer,
    ScriptStep,
    Silence,
)
from agent_runtime.workflows import compaction as workflow_module
from tests.conftest import Serve
from tests.support.compacting_agent import Compacting, phases, setups
from tests.support.session import shown

ATTEMPTS = 10
SPENT = Usage(input_tokens=300, output_tokens=40)
BLANK = ChatResponse("  \n", usage=SPENT)
REASONING = ChatResponse("", reasoning="I wonder", usage=SPENT)
RATE_LIMITED = Refusal("rate_limited", headers={"retry-after-ms": "50"})


@dataclass
class Ended:
    """How a job ended."""

    outcome: CompactionOutcome
    calls: int
    history: list[str]
    usage: list[UsageRow]
    errors: list[Exception] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)


@pytest.fixture(autouse=True)
def _hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = RetryPolicy(
        initial_interval=timedelta(milliseconds=10),
        backoff_coefficient=1,
        maximum_attempts=ATTEMPTS,
    )
    assert workflow_module.MODEL_RETRIES.maximum_attempts == ATTEMPTS
    monkeypatch.setattr(workflow_module, "MODEL_RETRIES", policy)


async def compact(
    serve: Serve,
    server: ScriptedModelServer,
    *,
    count: int = 10,
    length: int = 100,
    max_prompt_chars: int | None = None,
    is_automatic: bool = False,
    earlier: str = "",
    timeout_seconds: float = 30.0,
) -> Ended:
    """Compact a conversation once, with the provider's script, and return how it ended."""
    name = uuid4().hex[:12]
    errors: list[Exception] = []
    config = server.config(timeout_seconds=timeout_seconds)
    model = open_model(config)
    function = create_compact_function(
        ModelSummarizer(model, config),
        protect_head=1,
        min_tail_messages=1,
        tail_token_budget=20,
        max_prompt_chars=max_prompt_chars,
    )

    def setup(session: Session) -> Session:
        session.on_compaction(function).on_compaction_error(errors.append)
        return session.compact_after(100) if is_automatic else session

    setups[name] = setup
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        if earlier:
            await session.append_messages(messages(4, 10))
            await session.add_compaction(earlier, "m1", "m2")
        await session.append_messages(messages(count, length, start=4 if earlier else 0))
        if not is_automatic:
            result = await session.compact()
        outcome = await session.compaction.last_outcome()
        assert outcome is not None
        if not is_automatic:
            assert (result is not None) == (outcome.status == "applied")
        ref = SessionRef(AgentRef("Compacting", name), "")
        ended = Ended(
            outcome,
            len(server.requests),
            shown(await session.get_history()),
            await served.runtime.storage.sessions.usage(ref),
            errors,
            [str(request.body["messages"][0]["content"]) for request in server.requests],
        )
        await model.close()
        assert phases(name)[-1].startswith("idle")
        return ended


def messages(count: int, length: int, *, start: int = 0) -> list[Message]:
    """Return users' messages of that many characters."""
    return [
        text_message("user", f"said-{number} ".ljust(length, "x"), id=f"m{number}")
        for number in range(start, start + count)
    ]


PASSING: dict[str, tuple[list[ScriptStep], int]] = {
    "whole answer": (["good"], 1),
    "slow stream": ([Answer("good and slow", piece_chars=2, pause_seconds=0.05)], 1),
    "rate limited": ([RATE_LIMITED, RATE_LIMITED, "good"], 3),
    "out of order": ([Refusal("out_of_order"), Refusal("overloaded"), "good"], 3),
    "lost before": ([Answer("good", lost_after=0), "good"], 2),
    "lost in the midst": ([Answer("good, or is it", lost_after=1), "good"], 2),
    "error in the midst": ([Answer("good, or is it", error_after=1), "good"], 2),
    "malformed JSON": ([RawAnswer(b'{"choices": ['), "good"], 2),
    "a proxy's page": ([RawAnswer(b"<html>busy</html>", 502, "text/html"), "good"], 2),
    "cut body": ([RawAnswer(b'{"choices"', is_lost=True), "good"], 2),
}


@pytest.mark.parametrize("name", PASSING)
async def test_what_can_pass_is_tried_again_until_a_summary_is_stored(
    serve: Serve, name: str
) -> None:
    """One overlay and one usage record, whatever came before the answer."""
    script, calls = PASSING[name]
    async with ScriptedModelServer(*script) as server:
        ended = await compact(serve, server)

    assert (ended.outcome.status, ended.calls) == ("applied", calls)
    assert [each[:4] for each in ended.history] == ["m0", "good", "m9"]
    assert [(row.purpose, row.input_tokens, row.output_tokens) for row in ended.usage] == [
        ("compaction", 100, 20)
    ]
    assert ended.outcome.from_message_id == "m1"
    assert ended.outcome.to_message_id == "m8"


FINAL: dict[str, tuple[ScriptStep, int, type[Exception], list[int]]] = {
    "wrong key": (Refusal("wrong_key"), 1, ModelAuthenticationError, []),
    "refused": (Refusal("invalid"), 1, ModelRequestError, []),
    "always too long": (Refusal("context_too_long"), 1, ContextTooLongError, []),
    "always out of order": (Refusal("out_of_order"), ATTEMPTS, ModelUnavailableError, []),
    "always malformed": (RawAnswer(b"{"), ATTEMPTS, ModelResponseError, []),
    "always rate limited": (RATE_LIMITED, ATTEMPTS, ModelUnavailableError, []),
    "blank": (BLANK, 1, HandlerError, [300]),
    "reasoning alone": (REASONING, 1, HandlerError, [300]),
    "cut in reasoning": (
        ChatResponse("", finish_reason="length", reasoning="I", usage=SPENT),
        1,
        HandlerError,
        [300],
    ),
}


@pytest.mark.parametrize("name", FINAL)
async def test_c16_what_cannot_pass_leaves_the_history_as_it_was(serve: Serve, name: str) -> None:
    """Nothing is stored but what it cost; the handler is told, and the append stands."""
    step, calls, kind, spent = FINAL[name]
    async with ScriptedModelServer(otherwise=step) as server:
        ended = await compact(serve, server, is_automatic=True)

    assert (ended.outcome.status, ended.calls) == ("failed", calls)
    assert ended.outcome.reason
    assert ended.history == [f"m{number}" for number in range(10)]
    assert [row.input_tokens for row in ended.usage] == spent
    assert len(ended.errors) == 1
    assert isinstance(ended.errors[0], kind)


@pytest.mark.parametrize("blank", [BLANK, REASONING], ids=["blank", "reasoning"])
async def test_c16_a_blank_summary_leaves_the_good_one_before_it(
    serve: Serve, blank: ChatResponse
) -> None:
    """The earlier overlay is still shown, and no other was stored."""
    async with ScriptedModelServer(blank) as server:
        ended = await compact(serve, server, earlier="S1")

    assert ended.outcome.status == "failed"
    assert ended.history[:3] == ["m0", "S1", "m3"]
    assert [row.output_tokens for row in ended.usage] == [40]


async def test_temporal_waits_as_long_as_the_provider_of_summaries_asks(serve: Serve) -> None:
    """`Retry-After` of a second, against a policy of 10 ms."""
    asked = Refusal("rate_limited", headers={"retry-after": "1"})
    async with ScriptedModelServer(asked, "good") as server:
        began = time.monotonic()
        ended = await compact(serve, server)

    assert ended.outcome.status == "applied"
    assert time.monotonic() - began >= 1


async def test_a_provider_that_says_nothing_is_given_up_and_asked_again(serve: Serve) -> None:
    """The model's own timeout ends a silent connection; the next attempt succeeds."""
    async with ScriptedModelServer(Silence(), otherwise="good") as server:
        ended = await compact(serve, server, timeout_seconds=2.0)

    assert ended.outcome.status == "applied"
    assert ended.calls >= 2


async def test_what_is_too_long_is_asked_for_in_shorter_parts(serve: Serve) -> None:
    """One refusal, two halves, one merge; every message is in some prompt."""
    async with ScriptedModelServer(Refusal("context_too_long"), otherwise="a summary") as server:
        ended = await compact(serve, server, count=40, length=600)

    assert ended.outcome.status == "applied"
    assert ended.history == ["m0", "a summary", "m39"]
    asked = "\n".join(ended.prompts[1:])
    assert all(f"said-{number} " in asked for number in range(1, 39))
    assert max(map(len, ended.prompts[1:])) <= len(ended.prompts[0]) // 2
    assert ended.calls == 1 + len(ended.usage)
    assert ended.calls <= 5


async def test_a_merge_that_is_too_long_takes_the_earlier_summary_along(serve: Serve) -> None:
    """The part that the model finds too long is cut again, and nothing that was said is lost."""
    earlier = "EARLIER " * 300
    refused = [
        Refusal("context_too_long") if number == 3 else Answer(f"part {number} " + "y" * 2_000)
        for number in range(4)
    ]
    async with ScriptedModelServer(*refused, otherwise="a summary") as server:
        ended = await compact(
            serve, server, count=60, length=600, max_prompt_chars=14_000, earlier=earlier
        )

    assert ended.outcome.status == "applied"
    asked = "\n".join(ended.prompts)
    assert all(f"said-{number} " in asked for number in range(4, 63))
    assert asked.count("EARLIER") >= 300
    assert ended.history == ["m0", "a summary", "m63"]


async def test_a_long_conversation_is_summarized_in_parts_and_merged(serve: Serve) -> None:
    """As many usage records as calls; the last answer is the summary."""
    async with ScriptedModelServer(otherwise="a summary") as server:
        ended = await compact(serve, server, count=60, length=600, max_prompt_chars=8_000)

    assert ended.outcome.status == "applied"
    assert ended.calls == len(ended.usage) > 5
    assert max(map(len, ended.prompts)) <= 8_000


async def test_no_more_parts_are_asked_for_once_one_was_refused(serve: Serve) -> None:
    """Many parts and a wrong key: those under way end, and no other begins."""
    async with ScriptedModelServer(otherwise=Refusal("wrong_key")) as server:
        ended = await compact(serve, server, count=60, length=600, max_prompt_chars=8_000)

    assert ended.outcome.status == "failed"
    assert 1 <= ended.calls <= 4


async def test_parts_that_are_summarized_are_not_asked_for_again(serve: Serve) -> None:
    """A part fails once: as many calls as parts and merge, and one more."""
    async with ScriptedModelServer(
        "first", "second", Refusal("out_of_order"), otherwise="a summary"
    ) as server:
        ended = await compact(serve, server, count=30, length=600, max_prompt_chars=8_000)

    assert ended.outcome.status == "applied"
    assert ended.calls == len(ended.usage) + 1
