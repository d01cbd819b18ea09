"""What a stored message holds: the families of its parts, its text and its tool calls."""

from __future__ import annotations

from collections.abc import Mapping

from agent_runtime.json_value import Json

COMPACTION_PREFIX = "compaction_"
"""Begins the ids of synthetic messages; reserved, so no stored message has such an id."""

DYNAMIC_TOOL = "dynamic-tool"
"""The type of a tool part that tells the tool's name in a field of its own only."""

PROVIDER_METADATA = "providerMetadata"
"""The key of what a part's provider wants to have back with it."""

UNKNOWN_TOOL = "unknown"
"""Stands for the name of a tool that a stored part does not tell."""


def is_compaction_message(message: Mapping[str, Json]) -> bool:
    """Say whether a read made this message out of an overlay (sessions 6.3)."""
    identifier = message.get("id")
    return isinstance(identifier, str) and identifier.startswith(COMPACTION_PREFIX)


def parts_of(message: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the message's parts in order; what is no JSON object is left out."""
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def is_text_part(part: Mapping[str, Json]) -> bool:
    """Say whether the part is text that the user or the model wrote."""
    return part.get("type") == "text"


def is_reasoning_part(part: Mapping[str, Json]) -> bool:
    """Say whether the part holds a model's reasoning."""
    return part.get("type") == "reasoning"


def is_tool_part(part: Mapping[str, Json]) -> bool:
    """Say whether the part is a tool's call, result or both: `tool-*`, `dynamic-tool` (F40)."""
    kind = part.get("type")
    return isinstance(kind, str) and (kind.startswith("tool-") or kind == DYNAMIC_TOOL)


def tool_parts_of(message: Mapping[str, Json]) -> list[dict[str, Json]]:
    """Return the message's tool parts in order."""
    return [part for part in parts_of(message) if is_tool_part(part)]


def tool_name_of(part: Mapping[str, Json]) -> str | None:
    """Return a tool part's name: its `toolName`, else what follows `tool-` in its type (F31)."""
    name = part.get("toolName")
    if isinstance(name, str) and name:
        return name
    kind = part.get("type")
    if isinstance(kind, str) and kind.startswith("tool-"):
        return kind.removeprefix("tool-") or None
    return None


def tool_call_id_of(part: Mapping[str, Json]) -> str | None:
    """Return the id that joins a tool's call and its result, None when the part has none."""
    identifier = part.get("toolCallId")
    return identifier if isinstance(identifier, str) and identifier else None


def tool_result_of(part: Mapping[str, Json]) -> Json:
    """Return a tool part's result: `output`, or `result` where that is absent or null."""
    output = part.get("output")
    return part.get("result") if output is None else output


def has_tool_result(part: Mapping[str, Json]) -> bool:
    """Say whether a tool part tells how the call ended: with a result or an error.

    A null `output` is a result too, but not in a state of input.
    """
    if part.get("output") is not None or part.get("result") is not None:
        return True
    state = part.get("state")
    return state == "output-error" or ("output" in part and not str(state).startswith("input-"))


def is_bare_tool_result(part: Mapping[str, Json]) -> bool:
    """Say whether a tool part is a result without its call: type `tool-result`."""
    return part.get("type") == "tool-result"


def text_of(message: Mapping[str, Json], separator: str = "\n") -> str:
    """Return the message's text parts joined, `""` when it has none."""
    texts = (part.get("text") for part in parts_of(message) if is_text_part(part))
    return separator.join(text for text in texts if isinstance(text, str))
