"""Rows of the agents' own SQL as the JSON text that is noted of them."""

from __future__ import annotations

import base64

import orjson

from agent_runtime.json_value import Json


def pack_rows(rows: list[dict[str, Json]]) -> str:
    """Return rows as JSON text; bytes are kept as such."""
    return orjson.dumps(rows, _pack_bytes).decode()


def unpack_rows(result: str | None) -> list[dict[str, Json]]:
    """Return the rows that `pack_rows` was given."""
    return [
        {
            name: base64.b64decode(value["_bytes"]) if isinstance(value, dict) else value
            for name, value in row.items()
        }
        for row in orjson.loads(result or "[]")
    ]


def _pack_bytes(value: object) -> object:
    if isinstance(value, bytes):
        return {"_bytes": base64.b64encode(value).decode()}
    raise TypeError(type(value).__name__)
