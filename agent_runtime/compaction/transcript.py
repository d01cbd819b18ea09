"""Conversations as text for a summarizer: rendered, guarded and cut into chunks that fit.

A chunk is a list of messages again, so that summarizers that read messages and such that read
text see the same. A message too long for a chunk becomes several, numbered ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from agent_runtime.compaction.boundaries import tool_groups
from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import (
    UNKNOWN_TOOL,
    has_tool_result,
    is_text_part,
    is_tool_part,
    parts_of,
    text_of,
    tool_name_of,
    tool_parts_of,
    tool_result_of,
)
from agent_runtime.json_value import Json

MAX_TOOL_CHARS = 500
"""Input and output of a tool are cut to so many characters each."""

_MAX_NAME_CHARS = 100
_NUMBER_ROOM = "\n(part 1000000 of 1000000)\n"

SEPARATOR = "\n\n---\n\n"

# What would look like the structure around it, were it quoted as it is.
_FORGED_LINE = re.compile(r"^(?=[ \t]*(?:---|\[[^\]\n]*\])[ \t]*$)", re.MULTILINE)
_FORGED_TAG = re.compile(
    r"<(?=\s{0,9}/?\s{0,9}(?:transcript|earlier_summary|partial_summary)\b)", re.I
)


def render_message(message: Mapping[str, Json]) -> str:
    """Return a message as text: its role, its text, its tools with input and output (8.5).

    Reasoning and files are left out. Lines that look like a role, a tool or a separator are marked
    with a backslash and the tags of prompts are escaped, so no message can pretend to be several
    or to be the prompt.
    """
    lines = [f"[{_one_line(message.get('role'))}]"]
    if text := text_of(message):
        lines.append(_quoted(text))
    for part in tool_parts_of(message):
        lines.append(f"[Tool: {_one_line(tool_name_of(part) or UNKNOWN_TOOL)}]")
        given = part.get("input")
        # Empty lists and objects are an input too, as in the language of the reference.
        if given not in (None, "", 0):
            lines.append(_quoted(f"Input: {_cut(given)}"))
        if part.get("errorText"):
            lines.append(_quoted(f"Output: error: {_cut(part['errorText'])}"))
        elif has_tool_result(part):
            lines.append(_quoted(f"Output: {_cut(tool_result_of(part))}"))
    return "\n".join(lines)


def render_transcript(messages: Sequence[Mapping[str, Json]]) -> str:
    """Return the messages as text, separated by a blank line, `---` and a blank line."""
    return SEPARATOR.join(map(render_message, messages))


def guarded(text: str) -> str:
    """Return text in which none of the tags around a prompt's sections begins or ends."""
    return _FORGED_TAG.sub("&lt;", text)


def chunk_messages(
    messages: Sequence[Mapping[str, Json]], max_chars: int
) -> list[list[Mapping[str, Json]]]:
    """Part messages into chunks whose transcripts have at most `max_chars` characters.

    Every message is in some chunk, in order. Calls and their results stay together unless they
    alone are too long. One chunk when everything fits, none for no messages. Linear.
    """
    chunks: list[list[Mapping[str, Json]]] = []
    room = 0
    for group, size in _fitting_groups(messages, max_chars):
        if not chunks or size + len(SEPARATOR) > room:
            chunks.append([])
            room = max_chars + len(SEPARATOR)
        chunks[-1] += group
        room -= size + len(SEPARATOR)
    return chunks


def _fitting_groups(
    messages: Sequence[Mapping[str, Json]], max_chars: int
) -> Iterator[tuple[list[Mapping[str, Json]], int]]:
    for group in tool_groups(messages):
        if (size := _size(group)) <= max_chars:
            yield group, size
            continue
        for message in group:
            for piece in split_message(message, max_chars):
                yield [piece], _size([piece])


def split_message(message: Mapping[str, Json], max_chars: int) -> list[Mapping[str, Json]]:
    """Return the message, or the numbered pieces it has to be cut into to fit.

    A piece has the message's id and role, `(part 2 of 5)` above its text, and whole tool parts or
    a stretch of text, cut at a line or a word where there is one.
    """
    if _size([message]) <= max_chars:
        return [message]
    room = max(1, max_chars - _size([{"role": message.get("role")}]) - len(_NUMBER_ROOM))
    contents: list[list[dict[str, Json]]] = []
    for part in parts_of(message):
        if is_tool_part(part):
            contents.append([part])
        elif is_text_part(part) and isinstance(text := part.get("text"), str):
            contents += [[{"type": "text", "text": piece}] for piece in _pieces(text, room)]
    total = len(contents)
    return [
        {
            **message,
            "parts": [{"type": "text", "text": f"(part {number} of {total})"}, *content],
        }
        for number, content in enumerate(contents, 1)
    ]


def _pieces(text: str, room: int) -> Iterator[str]:
    start = 0
    while start < len(text):
        end = start + room
        if end < len(text):
            window = text[start + room // 2 : end]
            seam = max(window.rfind("\n"), window.rfind(" "))
            end = start + room // 2 + seam + 1 if seam >= 0 else end
        piece = text[start:end]
        start = end
        if len(_quoted(piece)) <= room or room == 1:
            yield piece
        else:
            yield from _pieces(piece, room // 2)


def _size(messages: Sequence[Mapping[str, Json]]) -> int:
    return len(render_transcript(messages))


def _quoted(text: str) -> str:
    return _FORGED_LINE.sub(r"\\", guarded(text))


def _cut(value: Json) -> str:
    return (value if isinstance(value, str) else json_text(value))[:MAX_TOOL_CHARS]


def _one_line(name: Json) -> str:
    return guarded(" ".join(str(name).split()))[:_MAX_NAME_CHARS]
