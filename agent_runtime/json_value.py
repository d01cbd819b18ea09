"""JSON as the library's only value: checking, writing, reading and fingerprinting it."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import orjson
from pydantic import BaseModel

from agent_runtime.errors import NotSerializableError

Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or str-keyed dict of such."""

MAX_DEPTH = 100

_OPTIONS = orjson.OPT_PASSTHROUGH_SUBCLASS
_SORTED = orjson.OPT_SORT_KEYS


def to_json(value: object, *, what: str = "the value") -> bytes:
    """Write a value as JSON text in UTF-8, or say exactly why it is none.

    Pydantic models, dataclasses, dates, UUIDs, enums and tuples are written in their JSON form.

    Args:
        value: Anything.
        what: How error messages call it.

    Raises:
        NotSerializableError: NaN or infinity, a function or other object, a cycle, a key that is no
            text, a lone surrogate, an integer beyond 64 bits, or more than 100 levels.
    """
    try:
        text = orjson.dumps(value, _jsonable, _OPTIONS)
    except (TypeError, RecursionError) as error:
        raise NotSerializableError(f"{what} is not JSON: {_reason(value, error)}") from None
    # orjson writes NaN as null and nests to 254 levels: look closer only where that can have been.
    if b"null" in text:
        _refuse_non_finite(value, what)
    if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _depth(orjson.loads(text)) > MAX_DEPTH:
        raise NotSerializableError(f"{what} is not JSON: nested deeper than {MAX_DEPTH} levels")
    return text


def pack(value: Json) -> bytes:
    """Write what is known to be JSON, with the few levels that the library itself puts around."""
    return orjson.dumps(value)


def from_json(text: str | bytes) -> Json:
    """Read JSON text.

    Raises:
        NotSerializableError: The text is not JSON.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotSerializableError(f"not JSON text: {error}") from None


def fingerprint(value: Json) -> str:
    """Return a digest that is equal for equal JSON values, whatever the order of keys.

    Raises:
        NotSerializableError: It is no JSON value.
    """
    try:
        text = orjson.dumps(value, option=_SORTED)
    except TypeError as error:
        raise NotSerializableError(f"the value is not JSON: {_reason(value, error)}") from None
    return hashlib.blake2b(text, digest_size=12).hexdigest()


def _jsonable(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="python")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _refuse_non_finite(value: object, what: str) -> None:
    for path, leaf in _leaves(value, ""):
        if isinstance(leaf, float) and not math.isfinite(leaf):
            place = f" at {path}" if path else ""
            raise NotSerializableError(f"{what} is not JSON: {leaf}{place} has no JSON form")


def _leaves(value: object, path: str) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    stack: list[tuple[str, object]] = [(path, value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, BaseModel):
            item = item.model_dump(mode="python")
        elif dataclasses.is_dataclass(item) and not isinstance(item, type):
            item = dataclasses.asdict(item)
        if isinstance(item, Mapping):
            stack.extend((f"{path}.{key}", child) for key, child in item.items())
        elif isinstance(item, (list, tuple, set, frozenset)):
            stack.extend((f"{path}[{index}]", child) for index, child in enumerate(item))
        else:
            found.append((path, item))
    return found


def _depth(value: Json) -> int:
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, (dict, list))]:
        depth += 1
        level = [
            child for item in level for child in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _reason(value: object, error: BaseException) -> str:
    seen: set[int] = set()

    def cyclic(item: object) -> bool:
        if not isinstance(item, (dict, list, tuple)):
            return False
        if id(item) in seen:
            return True
        seen.add(id(item))
        children = item.values() if isinstance(item, dict) else item
        found = any(cyclic(child) for child in children)
        seen.discard(id(item))
        return found

    try:
        if cyclic(value):
            return "it contains itself"
    except RecursionError:
        return f"nested deeper than {MAX_DEPTH} levels"
    text = str(error)
    if "Recursion limit" in text or "recursion" in text:
        return f"nested deeper than {MAX_DEPTH} levels"
    if "Type is not JSON serializable" in text and error.__cause__ is not None:
        return str(error.__cause__)
    return text
