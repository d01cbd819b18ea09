"""A model's answer as it is stored: text, reasoning, and tools with their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agent_runtime.compaction.message_parts import (
    DYNAMIC_TOOL,
    has_tool_result,
    is_bare_tool_result,
    is_tool_part,
    tool_call_id_of,
)
from agent_runtime.generation.stored_reasoning import reasoning_part
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import ChatResponse, ToolCall
from agent_runtime.session.message import Message

INTERRUPTED = "The turn ended before this tool had answered."


def with_unique_calls(response: ChatResponse) -> ChatResponse:
    """Return the response with an id of its own for each call; some servers give one twice."""
    seen: set[str] = set()
    calls: list[ToolCall] = []
    for call in response.tool_calls:
        call_id, number = call.call_id, 1
        while call_id in seen:
            number += 1
            call_id = f"{call.call_id}-{number}"
        seen.add(call_id)
        calls.append(replace(call, call_id=call_id))
    return replace(response, tool_calls=tuple(calls))


def answer_message(message_id: str, response: ChatResponse) -> Message:
    """Return the message of an answer, its tools without results yet."""
    parts: list[dict[str, Json]] = []
    if response.signed_reasoning:
        parts += map(reasoning_part, response.signed_reasoning)
    elif response.reasoning:
        parts.append({"type": "reasoning", "text": response.reasoning})
    if response.text:
        parts.append({"type": "text", "text": response.text})
    for call in response.tool_calls:
        kind = f"tool-{call.name}"
        if is_bare_tool_result({"type": kind}):
            kind = DYNAMIC_TOOL
        parts.append(
            {
                "type": kind,
                "toolCallId": call.call_id,
                "toolName": call.name,
                "state": "input-available",
                "input": dict(call.arguments),
            }
        )
    metadata = {"model": response.model, "finishReason": response.finish_reason}
    return {"id": message_id, "role": "assistant", "parts": parts, "metadata": metadata}


def with_results(message: Message, results: Mapping[str, str]) -> Message:
    """Return the message with the results of its tools, by the ids of their calls."""
    return {**message, "parts": [_with_result(part, results) for part in message["parts"]]}


def has_open_calls(message: Message) -> bool:
    """Tell whether an assistant's message asks for tools that have not answered."""
    return message["role"] == "assistant" and any(map(_is_open, message["parts"]))


def with_interrupted_calls(message: Message) -> Message:
    """Return the message with an error for each tool that has not answered."""
    return {
        **message,
        "parts": [
            {**part, "state": "output-error", "errorText": INTERRUPTED} if _is_open(part) else part
            for part in message["parts"]
        ],
    }


def _with_result(part: Json, results: Mapping[str, str]) -> Json:
    call_id = tool_call_id_of(part) if isinstance(part, dict) and is_tool_part(part) else None
    if call_id is None or call_id not in results:
        return part
    return {**part, "state": "output-available", "output": results[call_id]}


def _is_open(part: Json) -> bool:
    if not isinstance(part, dict) or not is_tool_part(part) or has_tool_result(part):
        return False
    # What waits for a person is somebody else's to end.
    return tool_call_id_of(part) is not None and part.get("state") == "input-available"
