"""Summaries by a model, and which summarizer is taken where none is named."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agent_runtime.compaction import default_summarizer as choosing
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.extractive import ExtractiveSummarizer
from agent_runtime.compaction.metered_summarizer import MeteredSummarizer, MeteredSummary
from agent_runtime.compaction.model_summarizer import ModelSummarizer
from agent_runtime.compaction.summary_request import MIN_PROMPT_CHARS, SummaryRequest
from agent_runtime.errors import ModelRateLimitedError, ModelResponseError
from agent_runtime.json_value import Json
from agent_runtime.llm import ChatResponse, ModelConfig, Usage, open_model
from agent_runtime.llm.open_models import process_models
from agent_runtime.session.message import text_message
from agent_runtime.testing import Answer, ScriptedModel, ScriptedModelServer

CONFIG = ModelConfig(
    model="scripted", context_window=20_000, max_output_tokens=2_000, input_price=1, output_price=5
)
REQUEST = SummaryRequest((text_message("user", "Tea, please.", id="m1"),))
USAGE = Usage(input_tokens=1_000, output_tokens=200)


@pytest.fixture(autouse=True)
def no_choice_told(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin as a fresh process does."""
    monkeypatch.setattr(choosing, "_told", set())
    yield
    process_models.default = None


def _chat(count: int) -> list[dict[str, Json]]:
    return [
        text_message("user", f"number {number} " * 20, id=f"m{number}") for number in range(count)
    ]


async def test_a_model_writes_the_summary_and_tells_what_it_cost() -> None:
    """One request, without tools, whose prompt is the request's; blanks around it are cut."""
    model = ScriptedModel(ChatResponse(" Tea is wanted.\n", usage=USAGE))
    summary = await ModelSummarizer(model, CONFIG).summarize_metered(REQUEST)

    assert summary == MeteredSummary("Tea is wanted.", "scripted", 1_000, 200, 0.002)
    [asked] = model.requests
    assert ([each.text for each in asked.messages], asked.tools) == ([REQUEST.prompt], ())


@pytest.mark.parametrize(
    "answer",
    [
        ChatResponse("  \n", usage=USAGE),
        ChatResponse("", reasoning="I think", usage=USAGE),
        ChatResponse("", finish_reason="length", usage=USAGE),
    ],
)
async def test_c16_a_blank_answer_is_a_blank_text_that_cost_something(answer: ChatResponse) -> None:
    """Blank, reasoning alone, or cut off before it began."""
    summary = await ModelSummarizer(ScriptedModel(answer), CONFIG).summarize_metered(REQUEST)

    assert summary == MeteredSummary("", "scripted", 1_000, 200, 0.002)


@pytest.mark.parametrize(
    "error", [ModelRateLimitedError("later"), ModelResponseError("broken", reason="malformed")]
)
async def test_other_errors_come_through(error: Exception) -> None:
    """The caller decides about another try."""
    with pytest.raises(type(error)):
        await ModelSummarizer(ScriptedModel(error), CONFIG).summarize(REQUEST)


async def test_a_summary_longer_than_the_model_writes_is_not_asked_for() -> None:
    """The length in the prompt is what the longest answer holds."""
    model = ScriptedModel("short")
    request = SummaryRequest(REQUEST.messages, budget_tokens=50_000)
    await ModelSummarizer(model, CONFIG).summarize(request)

    assert "about 1500 tokens" in model.requests[0].messages[0].text


async def test_progress_and_deadline_reach_the_model() -> None:
    """Each piece of the answer is told; a deadline too near ends the call."""
    beats: list[None] = []
    async with ScriptedModelServer(Answer("in several pieces", piece_chars=4)) as server:
        model = open_model(server.config())
        summary = await ModelSummarizer(model, CONFIG).summarize_metered(
            REQUEST,
            deadline=datetime.now(UTC) + timedelta(minutes=1),
            on_progress=lambda: beats.append(None),
        )
        await model.close()

    assert summary.text == "in several pieces"
    assert len(beats) >= 4


@pytest.mark.parametrize(
    ("window", "output", "chars"),
    [(20_000, 2_000, 14_400), (128_000, 4_096, 99_123), (4_000, 4_096, MIN_PROMPT_CHARS)],
)
def test_a_prompt_is_as_long_as_the_window_allows(window: int, output: int, chars: int) -> None:
    """Whatever the script, and never too short for a message."""
    config = ModelConfig(model="m", context_window=window, max_output_tokens=output)

    assert ModelSummarizer(ScriptedModel(), config).max_prompt_chars == chars


async def test_without_a_model_summaries_are_extracts_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Said once, however many are made."""
    compact = create_compact_function(tail_token_budget=20)
    with caplog.at_level(logging.INFO, "agent_runtime"):
        results = [await compact(_chat(12)) for _ in range(2)]

    assert isinstance(compact.summarizer, ExtractiveSummarizer)
    assert all(result is not None and "## Topic" in result.summary for result in results)
    assert [each.message for each in caplog.records if "summaries are" in each.message] == [
        "no model is configured (AGENT_RUNTIME_MODEL): summaries are extracts of what was said"
    ]


async def test_the_process_s_model_is_taken_also_if_it_is_configured_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A function that was made with the class finds the model that its worker was given."""
    compact = create_compact_function(tail_token_budget=20)
    process_models.default = ScriptedModel("by a model")
    with caplog.at_level(logging.INFO, "agent_runtime"):
        result = await compact(_chat(12))

    assert result is not None and result.summary == "by a model"
    assert isinstance(compact.summarizer, MeteredSummarizer)
    assert compact.max_prompt_chars == 99_123
    assert "summaries are written by model scripted" in caplog.text
