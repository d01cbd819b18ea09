"""Which message answers which tool call: by id, the newest call before the answer.

Ids may come again in a conversation (some models count from zero in each turn), so an answer
belongs to the newest call of its id. An assistant's part that tells a call makes a new one, unless
it brings the result of a call that still waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_runtime.compaction.message_parts import (
    has_tool_result,
    is_bare_tool_result,
    tool_call_id_of,
    tool_parts_of,
)
from agent_runtime.json_value import Json


@dataclass(frozen=True)
class ToolAnswer:
    """One tool part that answers a call of an earlier message.

    Attributes:
        call_id: The id that joins the two.
        call_index: Position of the message that made the call.
        answer_index: Position of the message that holds the answer.
        part: The answering part.
        is_own_call: Whether the answering part tells the call too, and so can stand alone.
    """

    call_id: str
    call_index: int
    answer_index: int
    part: Mapping[str, Json]
    is_own_call: bool


def tool_answers(messages: Sequence[Mapping[str, Json]]) -> list[ToolAnswer]:
    """Return every answer to a call of an earlier message, in order of the answers. Linear."""
    answers: list[ToolAnswer] = []
    called_at: dict[str, int] = {}
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        is_assistant = message.get("role") == "assistant"
        for part in tool_parts_of(message):
            call_id = tool_call_id_of(part)
            if call_id is None:
                continue
            is_own_call = is_assistant and not is_bare_tool_result(part)
            call_index = called_at.get(call_id)
            has_result = has_tool_result(part)
            is_answer = not is_own_call or (has_result and call_id in waiting)
            if is_answer and call_index is not None and call_index < index:
                answers.append(ToolAnswer(call_id, call_index, index, part, is_own_call))
            elif is_assistant:
                called_at[call_id] = index
                waiting.add(call_id)
            if has_result:
                waiting.discard(call_id)
    return answers
