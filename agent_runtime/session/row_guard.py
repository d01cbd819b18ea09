"""Keep a message small enough for one row of every database (sessions 22.4)."""

from __future__ import annotations

from collections.abc import Mapping

from agent_runtime.compaction.message_parts import is_text_part, is_tool_part, tool_call_id_of
from agent_runtime.errors import MessageTooLargeError
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.truncation import truncate_tool_output

ROW_LIMIT_BYTES = 1_800_000
STORED_TOOL_OUTPUT_CHARS = 1_000
STORED_TEXT_CHARS = 500
MAX_WHOLE_TEXT_CHARS = 1_000

_METADATA_BYTES = 64


def enforce_row_size_limit(
    message: dict[str, Json], limit_bytes: int = ROW_LIMIT_BYTES
) -> dict[str, Json]:
    """Return the message, shortened if its JSON text is longer than a row may be.

    A message within the limit is the same object, and no other is changed. An assistant's finished
    tool outputs are shortened to 1000 characters; their call ids are listed in
    `metadata.compactedToolOutputs`. If that is not enough, and for other roles at once, texts of
    more than 1000 characters are cut to their first 500, oldest first and no more than needed;
    their positions are listed in `metadata.compactedTextParts`. Metadata that is no object is kept
    as it is, without lists.

    Raises:
        MessageTooLargeError: The rest, such as inline files, is too large by itself.
        NotSerializableError: The message is not JSON.
    """
    size = _size(message)
    if size <= limit_bytes:
        return message
    guarded = message
    if message.get("role") == "assistant":
        guarded = _with_short_outputs(message)
    if _size(guarded) > limit_bytes:
        guarded = _with_short_texts(guarded, limit_bytes)
    if (left := _size(guarded)) > limit_bytes:
        raise MessageTooLargeError(
            f"the message has {size} bytes, {left} with its texts and tool outputs shortened; at "
            f"most {limit_bytes} are stored: keep large files elsewhere and store their URL",
            bytes=size,
            limit_bytes=limit_bytes,
        )
    return guarded


def _with_short_outputs(message: dict[str, Json]) -> dict[str, Json]:
    parts: list[Json] = []
    shortened_ids: list[Json] = []
    for part in message["parts"]:
        if _has_stored_output(part):
            shortened = truncate_tool_output(part["output"], STORED_TOOL_OUTPUT_CHARS)
            if shortened.is_truncated:
                part = {**part, "output": shortened.output}
                shortened_ids.append(tool_call_id_of(part))
        parts.append(part)
    return _changed(message, parts, "compactedToolOutputs", shortened_ids)


def _with_short_texts(message: dict[str, Json], limit_bytes: int) -> dict[str, Json]:
    parts: list[Json] = list(message["parts"])
    positions: list[Json] = []
    size = _size(message) + _METADATA_BYTES
    for position, part in enumerate(message["parts"]):
        if size <= limit_bytes:
            break
        if not isinstance(part, dict) or not is_text_part(part):
            continue
        text = part.get("text")
        if isinstance(text, str) and len(text) > MAX_WHOLE_TEXT_CHARS:
            parts[position] = {**part, "text": _stored_text(text)}
            positions.append(position)
            size += _size(parts[position]) - _size(part) + len(f"{position},")
    return _changed(message, parts, "compactedTextParts", positions)


def _changed(
    message: dict[str, Json], parts: list[Json], name: str, changes: list[Json]
) -> dict[str, Json]:
    if not changes:
        return message
    metadata = message.get("metadata", {})
    if isinstance(metadata, Mapping):
        metadata = {**metadata, name: changes}
    return {**message, "parts": parts, "metadata": metadata}


def _has_stored_output(part: Json) -> bool:
    return (
        isinstance(part, dict)
        and is_tool_part(part)
        and part.get("state") == "output-available"
        and "output" in part
    )


def _stored_text(text: str) -> str:
    note = f"[Text truncated for storage ({len(text)} chars). It began:]"
    return f"{note}\n{text[:STORED_TEXT_CHARS]}"


def _size(value: Json) -> int:
    return len(to_json(value, what="the message"))
