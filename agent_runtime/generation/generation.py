"""What a turn of a conversation came to."""

from __future__ import annotations

from dataclasses import dataclass

from agent_runtime.llm.chat_model import FinishReason, Usage
from agent_runtime.session.message import Message


@dataclass(frozen=True, slots=True)
class Generation:
    """A turn that has ended.

    Args:
        text: The last answer's; blank if it asked for tools alone.
        messages: The assistant's messages of this turn as they are stored, one for each answer.
        usage: Tokens of all calls of the model, those that gave nothing usable included.
        cost: Of all calls, in the currency of the configuration's prices.
        finish_reason: Of the last answer; "tool_calls" says that `max_steps` was reached, with the
            results of its tools stored and not answered yet.
    """

    text: str
    messages: tuple[Message, ...]
    usage: Usage
    cost: float
    finish_reason: FinishReason
