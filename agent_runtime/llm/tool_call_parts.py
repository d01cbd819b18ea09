"""A tool call that arrives in pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_runtime.errors import ModelResponseError, NotSerializableError
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.llm.chat_model import FinishReason, ToolCall, Usage
from agent_runtime.llm.usable_response import usage_details


@dataclass(slots=True)
class ToolCallParts:
    """What has arrived of a tool call.

    Args:
        arguments: JSON text of an object; blank or null for no arguments. Some servers write the
            object as a text within the text.
        given: The arguments, if they came as an object at once; they go before the text.
    """

    call_id: str = ""
    name: str = ""
    arguments: str = ""
    given: dict[str, Json] = field(default_factory=dict)


def tool_calls(
    parts: Iterable[ToolCallParts], finish_reason: FinishReason, usage: Usage
) -> tuple[ToolCall, ...]:
    """Return the calls, once all of them have arrived; a call without an id gets its number.

    Raises:
        ModelResponseError: A call has no name or its arguments are no JSON object; `reason` is
            `length` if the answer was cut off there, else `malformed_arguments`. It tells what the
            answer cost.
    """
    calls = []
    for number, part in enumerate(parts):
        arguments: Json = part.given
        try:
            if not arguments and part.arguments.strip():
                arguments = _unwrapped(from_json(part.arguments))
            # What is nested too deeply to be stored is no use either.
            to_json(arguments)
        except NotSerializableError:
            arguments = None
        if not part.name or not isinstance(arguments, dict):
            is_cut = finish_reason == "length"
            raise ModelResponseError(
                "the answer was cut off within a tool call; raise max_tokens"
                if is_cut
                else "the model asked for a tool with arguments that are no JSON object; try again",
                reason="length" if is_cut else "malformed_arguments",
                **usage_details(usage),
            )
        calls.append(ToolCall(part.call_id or f"call_{number}", part.name, arguments))
    return tuple(calls)


def _unwrapped(arguments: Json) -> Json:
    if isinstance(arguments, str):
        arguments = from_json(arguments) if arguments.strip() else None
    return {} if arguments is None else arguments
