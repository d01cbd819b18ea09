"""Texts with the character NUL, which PostgreSQL cannot hold, as texts that it can.

NUL becomes two characters, the first of which is as rare and is doubled itself. Equal texts stay
equal and others different, so keys are found as on SQLite.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from agent_runtime.json_value import Json

_MARK = "\x1a"
_ENCODED = {"\0": _MARK + "0", _MARK: _MARK + "1"}
_DECODED = {encoded: plain for plain, encoded in _ENCODED.items()}
_PLAIN = re.compile(f"[\0{_MARK}]")
_PAIR = re.compile(f"{_MARK}[01]")


def stored_values(values: Sequence[Json], lists: Iterable[int] = ()) -> Sequence[Json]:
    """Return values for PostgreSQL.

    Args:
        lists: Which of them are JSON texts whose items the statement reads.
    """
    if not any(_is_odd(value) for value in values) and not lists:
        return values
    stored: list[Json] = [_stored(value) for value in values]
    for index in lists:
        text = values[index]
        if "\\u00" in text:
            stored[index] = orjson.dumps(_stored(orjson.loads(text))).decode()
    return stored


def plain_row(row: Iterable[Json]) -> tuple[Json, ...]:
    """Return a row of PostgreSQL's with the texts as they were given."""
    return tuple(
        _PAIR.sub(lambda pair: _DECODED[pair[0]], value)
        if isinstance(value, str) and _MARK in value
        else value
        for value in row
    )


def _is_odd(value: Json) -> bool:
    return isinstance(value, str) and ("\0" in value or _MARK in value)


def _stored(value: Any) -> Any:
    if isinstance(value, str):
        return _PLAIN.sub(lambda char: _ENCODED[char[0]], value)
    if isinstance(value, list):
        return [_stored(item) for item in value]
    return value
