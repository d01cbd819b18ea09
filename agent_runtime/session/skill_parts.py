"""How a conversation shows that skills were loaded and unloaded (contract 15.2, 15.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from agent_runtime.compaction.message_parts import is_tool_part, tool_name_of, tool_parts_of
from agent_runtime.json_value import Json
from agent_runtime.session.message import Message
from agent_runtime.session.tool import ERROR_PREFIX, capped

LOAD_TOOL, UNLOAD_TOOL = "load_context", "unload_context"
UNLOADED_PREFIX = "[skill unloaded:"

Skill: TypeAlias = tuple[str, str]
"""A block's label and a document's key in it."""


def not_found_text(key: str) -> str:
    """Return what the model reads when there is no document of a key."""
    return capped(f"Not found: {key}")


def replay(message: Message, loaded: dict[Skill, None]) -> None:
    """Do to the set of loaded skills what the calls in a message did; failed ones do nothing."""
    for part in tool_parts_of(message):
        skill, output = _skill_of(part), part.get("output")
        if skill is None or _is_failure(skill, output):
            continue
        if tool_name_of(part) == UNLOAD_TOOL or _is_marker(output):
            loaded.pop(skill, None)
        else:
            loaded[skill] = None


def shown_skills(message: Message) -> Iterator[Skill]:
    """Yield the skills whose text the message holds, one for each load, in order."""
    for part in tool_parts_of(message):
        skill = _shown_skill(part)
        if skill is not None:
            yield skill


def shows_skill(part: Json) -> bool:
    """Tell whether a part holds the text of a skill that was loaded and not unloaded since."""
    return isinstance(part, Mapping) and _shown_skill(part) is not None


def load_calls(message: Message) -> Iterator[Skill]:
    """Yield the skills the message loads, whether it still holds their text or not."""
    for part in tool_parts_of(message):
        skill = _skill_of(part)
        if skill is not None and tool_name_of(part) == LOAD_TOOL:
            yield skill


def with_unloaded(message: Message, is_unloaded: Callable[[Skill], bool]) -> Message:
    """Return the message with a marker for each text that is unloaded; itself if there is none.

    Args:
        is_unloaded: Asked once for each load whose text the message holds, in order.
    """
    parts = [_with_marker(part, is_unloaded) for part in message["parts"]]
    is_same = all(new is old for new, old in zip(parts, message["parts"], strict=True))
    return message if is_same else {**message, "parts": parts}


def _with_marker(part: Json, is_unloaded: Callable[[Skill], bool]) -> Json:
    skill = _shown_skill(part) if isinstance(part, Mapping) else None
    if skill is None or not is_unloaded(skill):
        return part
    return {**part, "output": f"{UNLOADED_PREFIX} {skill[1]}]"}


def _shown_skill(part: Mapping[str, Json]) -> Skill | None:
    skill, output = _skill_of(part), part.get("output")
    if skill is None or tool_name_of(part) != LOAD_TOOL:
        return None
    return None if _is_marker(output) or _is_failure(skill, output) else skill


def _skill_of(part: Mapping[str, Json]) -> Skill | None:
    """Return what a finished call of one of the two tools was about, None for other parts."""
    arguments = part.get("input")
    if (
        not is_tool_part(part)
        or tool_name_of(part) not in (LOAD_TOOL, UNLOAD_TOOL)
        or part.get("state") != "output-available"
        or not isinstance(arguments, Mapping)
    ):
        return None
    label, key = arguments.get("label"), arguments.get("key")
    return (label, key) if isinstance(label, str) and isinstance(key, str) else None


def _is_failure(skill: Skill, output: Json) -> bool:
    return isinstance(output, str) and (
        output.startswith(ERROR_PREFIX) or output == not_found_text(skill[1])
    )


def _is_marker(output: Json) -> bool:
    return isinstance(output, str) and output.startswith(UNLOADED_PREFIX)
