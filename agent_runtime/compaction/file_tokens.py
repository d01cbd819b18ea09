"""What a file in a message costs: the default formula counts it as nothing (F25).

The `"cjk"` estimator includes it. A threshold that uses the default formula may add
`estimate_file_tokens`, so that a conversation of screenshots is compacted too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from agent_runtime.compaction.message_parts import parts_of
from agent_runtime.json_value import Json

FILE_TOKENS = 1_000
"""What a file costs that is only referred to, and the most that an inline one costs."""

BYTES_PER_TOKEN = 4


def file_tokens(part: Mapping[str, Json]) -> int:
    """Return a file part's tokens: a quarter of its inline bytes, at most 1000; 0 for other parts.

    The content is a `data:` URL in `url`, or base64 text in `data`; what is only referred to
    counts 1000, as its size is unknown.
    """
    if part.get("type") not in ("file", "image"):
        return 0
    size = _inline_bytes(part)
    return FILE_TOKENS if size is None else min(FILE_TOKENS, math.ceil(size / BYTES_PER_TOKEN))


def estimate_file_tokens(messages: Iterable[Mapping[str, Json]]) -> int:
    """Return the tokens of all files in the messages, to be added to a default estimate."""
    return sum(file_tokens(part) for message in messages for part in parts_of(message))


def _inline_bytes(part: Mapping[str, Json]) -> int | None:
    data, url = part.get("data"), part.get("url")
    if isinstance(data, str) and not data.startswith(("data:", "http:", "https:")):
        return _base64_bytes(len(data))
    for address in (data, url):
        if isinstance(address, str) and address.startswith("data:"):
            comma = address.find(",")
            length = len(address) - comma - 1
            is_base64 = address.endswith(";base64", 0, max(comma, 0))
            return _base64_bytes(length) if is_base64 else length
    return None


def _base64_bytes(characters: int) -> int:
    return characters * 3 // 4
