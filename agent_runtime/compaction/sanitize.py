"""Make calls and results match again where history was cut: models' APIs refuse anything else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_runtime.compaction.message_parts import (
    UNKNOWN_TOOL,
    has_tool_result,
    is_tool_part,
    tool_call_id_of,
    tool_name_of,
    tool_parts_of,
)
from agent_runtime.compaction.tool_pairs import tool_answers
from agent_runtime.json_value import Json

STUB_PREFIX = "stub-"
MISSING_RESULT = "[Result from earlier conversation — see context summary above]"


def sanitize_tool_pairs(messages: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    """Return the messages with every result behind its call and every call with a result.

    Results without a call before them are dropped. A call without a result gets one right behind
    its message, which tells the model that the result belongs to the summarised part. Messages
    without parts are left out. The input stays untouched, untouched messages stay the same
    objects; sanitising twice changes nothing more. For what a model is sent, never for what is
    stored (sessions 8.6, F26b).
    """
    kept = _without_orphan_results(messages)
    answers = tool_answers(kept)
    answering = {(answer.answer_index, answer.call_id) for answer in answers}
    answered = {
        (answer.call_index, answer.call_id) for answer in answers if has_tool_result(answer.part)
    }
    sanitized: list[dict[str, Json]] = []
    for index, message in enumerate(kept):
        sanitized.append(message)
        if message.get("role") != "assistant":
            continue
        calls = {tool_call_id_of(part): part for part in tool_parts_of(message)}
        finished = {
            tool_call_id_of(part) for part in tool_parts_of(message) if has_tool_result(part)
        }
        sanitized += [
            _stub(message, part, call_id)
            for call_id, part in calls.items()
            if call_id is not None and call_id not in finished
            if (index, call_id) not in answering and (index, call_id) not in answered
        ]
    return sanitized


def _without_orphan_results(messages: Sequence[Mapping[str, Json]]) -> list[dict[str, Json]]:
    kept: list[dict[str, Json]] = []
    called: set[str | None] = set()
    for message in messages:
        if message.get("role") == "assistant":
            called.update(map(tool_call_id_of, tool_parts_of(message)))
        parts = message.get("parts") or []
        left = [part for part in parts if not _is_orphan(part, called)]
        if len(left) == len(parts):
            left_message = message if isinstance(message, dict) else dict(message)
        else:
            left_message = {**message, "parts": left}
        if left:
            kept.append(left_message)
    return kept


def _is_orphan(part: Json, called: set[str | None]) -> bool:
    return (
        isinstance(part, dict)
        and is_tool_part(part)
        and has_tool_result(part)
        and tool_call_id_of(part) not in called
    )


def _stub(message: Mapping[str, Json], call: Mapping[str, Json], call_id: str) -> dict[str, Json]:
    part = {
        "type": "tool-result",
        "toolCallId": call_id,
        "toolName": tool_name_of(call) or UNKNOWN_TOOL,
        "result": MISSING_RESULT,
    }
    stub = {"id": STUB_PREFIX + call_id, "role": "assistant", "parts": [part]}
    return {**stub, "createdAt": message["createdAt"]} if "createdAt" in message else stub
