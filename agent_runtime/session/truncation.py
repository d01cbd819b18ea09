"""Shorten old messages and large tool outputs for a model, keeping the kind of each value.

Lengths are characters, of the text itself or of the compact JSON text. All numbers in notes tell
the length of the original. Everything is linear in the size of what is shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import is_text_part, is_tool_part
from agent_runtime.json_value import Json

KEEP_RECENT = 4
MAX_TOOL_OUTPUT_CHARS = 500
MAX_TEXT_CHARS = 10_000

MAX_DEPTH = 8
"""Containers that lie deeper are replaced by a line of text."""

_MIN_CHILD_CHARS = 80
_MAX_SHARES = 10
_NOTE = "Shortened to fit; ask for a smaller part to see more."


@dataclass(frozen=True)
class TruncatedOutput:
    """A tool's output, shortened if it was too long.

    Attributes:
        output: The same value, or a shorter one of the same kind.
        is_truncated: Whether the value was too long.
        original_length: Characters of the value as it was given.
    """

    output: Json
    is_truncated: bool
    original_length: int


def truncate_older_messages(
    messages: Sequence[dict[str, Json]],
    keep_recent: int = KEEP_RECENT,
    max_tool_output_chars: int = MAX_TOOL_OUTPUT_CHARS,
    max_text_chars: int = MAX_TEXT_CHARS,
) -> Sequence[dict[str, Json]]:
    """Return the messages with the long texts and tool outputs of older ones shortened.

    The input stays untouched. The newest `keep_recent` messages, and older ones with nothing to
    shorten, are the same objects; with no older ones the same list is returned (sessions 22.1).
    """
    if len(messages) <= keep_recent:
        return messages
    older = len(messages) - keep_recent
    return [
        *(_shortened(each, max_tool_output_chars, max_text_chars) for each in messages[:older]),
        *messages[older:],
    ]


def truncate_tool_output(value: Json, max_chars: int) -> TruncatedOutput:
    """Return a tool's output in at most about `max_chars` characters, of the same kind as before.

    A text is cut and ends with a note. A list keeps its longest beginning that fits together with
    a marker; an object keeps its small fields. Where nothing fits, a marker object stands alone;
    it is the one thing that may be longer than a tiny budget. Numbers, booleans and null stay
    (sessions 22.2).
    """
    length = _length(value)
    if length <= max_chars:
        return TruncatedOutput(value, False, length)
    return TruncatedOutput(_reduced(value, length, max_chars, 0), True, length)


def truncation_suffix(length: int) -> str:
    """Return the note that ends a shortened text of so many characters."""
    return f"... [truncated {length} chars]"


def _shortened(
    message: dict[str, Json], max_tool_output_chars: int, max_text_chars: int
) -> dict[str, Json]:
    parts = [
        _shortened_part(part, max_tool_output_chars, max_text_chars) for part in message["parts"]
    ]
    is_changed = any(new is not old for new, old in zip(parts, message["parts"], strict=True))
    return {**message, "parts": parts} if is_changed else message


def _shortened_part(part: Json, max_tool_output_chars: int, max_text_chars: int) -> Json:
    if not isinstance(part, dict):
        return part
    if is_tool_part(part) and "output" in part:
        shortened = truncate_tool_output(part["output"], max_tool_output_chars)
        return {**part, "output": shortened.output} if shortened.is_truncated else part
    text = part.get("text")
    if is_text_part(part) and isinstance(text, str) and len(text) > max_text_chars:
        return {**part, "text": text[:max_text_chars] + truncation_suffix(len(text))}
    return part


def _length(value: Json) -> int:
    return len(value if isinstance(value, str) else json_text(value))


def _reduced(value: Json, length: int, budget: int, depth: int) -> Json:
    if isinstance(value, str):
        return _cut(value, budget)
    if not isinstance(value, (list, dict)):
        return value
    if depth >= MAX_DEPTH:
        return _cut_to(f"[nested deeper than {MAX_DEPTH} levels]", length, budget)
    if isinstance(value, list):
        return _reduced_list(value, length, budget, depth)
    return _reduced_object(value, length, budget, depth)


def _reduced_child(value: Json, budget: int, depth: int) -> Json:
    length = _length(value)
    return value if length <= budget else _reduced(value, length, budget, depth + 1)


def _child_budget(budget: int, children: int) -> int:
    if children <= 1:
        return budget
    return max(_MIN_CHILD_CHARS, budget // min(children, _MAX_SHARES))


def _reduced_list(items: list[Json], length: int, budget: int, depth: int) -> list[Json]:
    child_budget = _child_budget(budget, len(items))
    marker = _marker(length, None)
    kept: list[Json] = []
    fitting = 0
    size = len("[]")
    for item in items:
        child = _reduced_child(item, child_budget, depth)
        size += len(json_text(child)) + (1 if kept else 0)
        if size > budget:
            break
        kept.append(child)
        if size + 1 + len(json_text(marker)) <= budget:
            fitting = len(kept)
    else:
        return kept
    return [*kept[:fitting], marker] if fitting else _marker_list(length, budget)


def _reduced_object(
    fields: dict[str, Json], length: int, budget: int, depth: int
) -> dict[str, Json]:
    frame = sum(len(json_text(name)) + len(":,") for name in fields) + 1
    if frame + len(fields) > budget:
        return _marker(length, budget)
    child_budget = _child_budget(budget, len(fields))
    reduced = {name: _reduced_child(value, child_budget, depth) for name, value in fields.items()}
    sizes = {name: len(json_text(value)) for name, value in reduced.items()}
    size = frame + sum(sizes.values())
    by_size = sorted(sizes, key=sizes.__getitem__, reverse=True)
    # Texts first: of a shortened text something is left, of a list or an object a marker.
    for kind in (str, (list, dict)):
        for name in by_size:
            if size <= budget:
                return reduced
            if not isinstance(fields[name], kind):
                continue
            smaller = _smallest(fields[name], budget)
            gain = sizes[name] - len(json_text(smaller))
            if gain > 0:
                reduced[name] = smaller
                size -= gain
    return reduced if size <= budget else _marker(length, budget)


def _smallest(value: Json, budget: int) -> Json:
    if isinstance(value, str):
        return _cut(value, budget // 4)
    marker = _marker(_length(value), None)
    return [marker] if isinstance(value, list) else marker


def _cut(text: str, budget: int) -> str:
    return text if len(text) <= budget else _cut_to(text, len(text), budget)


def _cut_to(text: str, length: int, budget: int) -> str:
    suffix = truncation_suffix(length)
    return (text[: max(0, budget - len(suffix))] + suffix)[:budget]


def _marker(length: int, budget: int | None) -> dict[str, Json]:
    """Return what stands for a container, with a note for the model where the budget has room."""
    marker: dict[str, Json] = {"__truncated": True, "__truncatedChars": length}
    noted = {**marker, "note": _NOTE}
    return noted if budget is not None and len(json_text(noted)) <= budget else marker


def _marker_list(length: int, budget: int) -> list[Json]:
    for item in (_marker(length, budget), _cut_to(_NOTE, length, budget - len('[""]'))):
        if len(json_text([item])) <= budget:
            return [item]
    return [truncation_suffix(length)[:budget]]
