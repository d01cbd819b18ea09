"""What a message is, how it is checked, and the text it is stored as (contract 2)."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import orjson

from agent_runtime.compaction.message_parts import COMPACTION_PREFIX as COMPACTION_PREFIX
from agent_runtime.errors import InvalidMessageError
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.given_text import MAX_ID_BYTES, byte_length

Message: TypeAlias = dict[str, Json]
"""A JSON object with `id`, `role` and `parts`; every other key is kept untouched."""


def message_json(message: Mapping[str, Json]) -> bytes:
    """Check a message and return the JSON text it is stored as, in UTF-8.

    Keys keep their order; whole numbers are written without a fraction, as JavaScript does.

    Raises:
        InvalidMessageError: `id` or `role` is no string or holds U+0000, `parts` is no list of
            objects with a `type`, or the id has the reserved prefix `compaction_` or more than
            2,000 bytes of UTF-8.
        NotSerializableError: A value in it is not JSON.
    """
    if not isinstance(message, Mapping):
        raise InvalidMessageError(f"a message is a JSON object, not {type(message).__name__}")
    for field in ("id", "role"):
        if not isinstance(message.get(field), str):
            raise InvalidMessageError(f"a message needs a string `{field}`")
        if "\0" in message[field]:
            raise InvalidMessageError(f"a message's `{field}` cannot hold the character U+0000")
    parts = message.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        raise InvalidMessageError("a message needs a list `parts`")
    for part in parts:
        if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
            raise InvalidMessageError("each of a message's `parts` is an object with a `type`")
    if message["id"].startswith(COMPACTION_PREFIX):
        raise InvalidMessageError(
            f"ids beginning with {COMPACTION_PREFIX!r} are kept for summaries; choose another"
        )
    text = to_json(message if isinstance(message, dict) else dict(message), what="the message")
    if (size := byte_length(message["id"])) > MAX_ID_BYTES:
        raise InvalidMessageError(
            f"a message's `id` has at most {MAX_ID_BYTES} bytes of UTF-8, not {size}"
        )
    # Searched for first: walking every message would cost more than writing it.
    if b".0" in text:
        text = orjson.dumps(_without_whole_floats(orjson.loads(text)))
    return text


def is_message(value: Json) -> bool:
    """Tell whether a stored JSON value counts as a message; reads skip what does not."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("id"), str)
        and isinstance(value.get("role"), str)
        and isinstance(value.get("parts"), list)
    )


def parse_messages(contents: Sequence[str]) -> list[Message]:
    """Read stored messages, leaving out what is no message."""
    is_collecting = gc.isenabled()
    # Every few hundred objects the collector would look for cycles, of which JSON has none.
    gc.disable()
    try:
        values = list(map(orjson.loads, contents))
    except orjson.JSONDecodeError:
        values = [value for content in contents for value in _parsed(content)]
    finally:
        if is_collecting:
            gc.enable()
    return [value for value in values if is_message(value)]


def searchable_text(message: Mapping[str, Json]) -> str:
    """Return the text that search finds a message by: its text parts, joined by one space."""
    return " ".join(
        part["text"]
        for part in message["parts"]
        if isinstance(part, Mapping)
        and part.get("type") == "text"
        and isinstance(part.get("text"), str)
    )


def text_message(role: str, text: str, *, id: str) -> Message:
    """Return a message of one text part."""
    return {"id": id, "role": role, "parts": [{"type": "text", "text": text}]}


def message_text(message: Mapping[str, Json]) -> str:
    """Return a message's text parts, joined by newlines; empty if it has none."""
    return "\n".join(
        part["text"]
        for part in message["parts"]
        if part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def _parsed(content: str) -> list[Json]:
    try:
        return [orjson.loads(content)]
    except orjson.JSONDecodeError:
        return []


def _without_whole_floats(value: Json) -> Json:
    if isinstance(value, float):
        # Beyond 2**53 the digits would claim more than the number says.
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, dict):
        return {key: _without_whole_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_whole_floats(item) for item in value]
    return value
