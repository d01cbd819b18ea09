"""Answers that nobody can use are errors, which still tell what they cost."""

from __future__ import annotations

from agent_runtime.blank_text import is_blank
from agent_runtime.errors import ModelError, ModelRefusedError, ModelResponseError
from agent_runtime.llm.chat_model import ChatResponse, Usage


def usable_response(response: ChatResponse) -> ChatResponse:
    """Return a response that has text or tool calls.

    Raises:
        ModelRefusedError: It is blank as the provider withheld it.
        ModelResponseError: It is blank; `reason` in its details is `blank`, `reasoning_only` or
            `length`, if nothing but reasoning fitted into the longest answer.
    """
    if response.tool_calls or not is_blank(response.text):
        return response
    spent = usage_details(response.usage)
    if response.finish_reason == "content_filter":
        raise ModelRefusedError(
            "the model or its provider's filter withheld the answer; ask for something else",
            **spent,
        )
    if response.finish_reason == "length":
        raise ModelResponseError(
            "the longest allowed answer was used up before the model said anything; raise "
            "max_tokens",
            reason="length",
            **spent,
        )
    if not is_blank(response.reasoning):
        raise ModelResponseError(
            "the model reasoned but gave no answer; try again or ask differently",
            reason="reasoning_only",
            **spent,
        )
    raise ModelResponseError(
        "the model's answer is blank; try again or ask differently", reason="blank", **spent
    )


def usage_of(error: ModelError) -> Usage:
    """Return what the answer behind an error cost; all 0 if none was paid for."""
    counts = {name: error.details_map.get(name) for name in Usage.__dataclass_fields__}
    return Usage(**{name: count for name, count in counts.items() if isinstance(count, int)})


def usage_details(usage: Usage) -> dict[str, int]:
    """Return a usage as an error's details."""
    return {name: getattr(usage, name) for name in Usage.__dataclass_fields__}
