"""What asking a model came to, as a journal keeps it."""

from __future__ import annotations

from agent_runtime.generation.model_answer import ModelAnswer, answer_of
from agent_runtime.json_value import from_json, to_json
from agent_runtime.llm import ChatResponse, SignedReasoning, ToolCall, Usage

ANSWER = ModelAnswer(
    ChatResponse(
        "text",
        (ToolCall("c1", "look", {"a": [1]}),),
        "tool_calls",
        Usage(1, 2, 3, 4),
        "model",
        "why",
        (SignedReasoning("why", "signature"), SignedReasoning(hidden="sealed")),
    ),
    Usage(5, 6),
    0.5,
)


def test_an_answer_is_read_as_it_was_kept() -> None:
    """With all that it holds."""
    assert answer_of(from_json(to_json(ANSWER.to_record()))) == ANSWER


def test_an_answer_from_before_providers_signed_is_read() -> None:
    """Handlers that began with an earlier release are repeated with this one."""
    record = from_json(to_json(ANSWER.to_record()))
    del record["response"]["signed_reasoning"]

    answer = answer_of(record)

    assert isinstance(answer.outcome, ChatResponse)
    assert answer.outcome.signed_reasoning == ()
    assert answer.outcome.text == "text"
