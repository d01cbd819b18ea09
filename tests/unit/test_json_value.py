"""JSON at the boundary: what passes comes back equal, everything else is refused with its place."""

from __future__ import annotations

import dataclasses
import enum
import math
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_runtime.errors import NotSerializableError
from agent_runtime.json_value import MAX_DEPTH, fingerprint, from_json, to_json
from tests.support.json_values import json_values


class _Model(BaseModel):
    score: float = 0.0
    inner: _Model | None = None


@dataclasses.dataclass
class _Point:
    x: float
    y: Any = None


class _Color(enum.Enum):
    RED = "red"


class _Pair(NamedTuple):
    a: int
    b: int


class _Text(str):
    pass


class _Number(int):
    pass


class _Ratio(float):
    pass


def _nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def _cycle() -> Any:
    value: dict[str, Any] = {"a": []}
    value["a"].append(value)
    return value


@given(json_values)
def test_json_comes_back_equal(value: Any) -> None:
    """Every JSON value survives writing and reading."""
    assert from_json(to_json(value)) == value


@given(json_values)
def test_fingerprints_ignore_the_order_of_keys(value: Any) -> None:
    """Equal values have equal fingerprints, in whatever order their keys were put in."""
    assert fingerprint(value) == fingerprint(_reversed(value))


@given(st.lists(json_values, min_size=2, max_size=2, unique_by=lambda value: to_json(value)))
def test_fingerprints_tell_values_apart(values: list[Any]) -> None:
    """Different values have different fingerprints."""
    first, second = values
    is_same = to_json(_sorted(first)) == to_json(_sorted(second))
    assert (fingerprint(first) == fingerprint(second)) is is_same


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (_Model(score=1.5, inner=_Model()), {"score": 1.5, "inner": {"score": 0.0, "inner": None}}),
        ({"p": _Point(1.0, [_Point(2.0)])}, {"p": {"x": 1.0, "y": [{"x": 2.0, "y": None}]}}),
        ((1, 2), [1, 2]),
        (_Pair(1, 2), [1, 2]),
        ({1}, [1]),
        (OrderedDict(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (_Color.RED, "red"),
        ([_Text("t"), _Number(7), _Ratio(0.5)], ["t", 7, 0.5]),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05+00:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ([None, True, 0, -0.0, ""], [None, True, 0, 0.0, ""]),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        ("a\0b\u2028🦊", "a\0b\u2028🦊"),
    ],
)
def test_values_with_a_json_form_are_written(value: Any, expected: Any) -> None:
    """Models, dataclasses, dates, enums and subclasses have the JSON form one expects."""
    assert from_json(to_json(value)) == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan has no JSON form"),
        ({"a": [1, {"b": math.inf}]}, r"inf at \.a\[1\]\.b has no JSON form"),
        ([-math.inf, None], r"-inf at \[0\]"),
        (_Model(score=math.nan), r"nan at \.score"),
        (_Model(inner=_Model(score=math.inf)), r"inf at \.inner\.score"),
        ([_Point(math.nan)], r"nan at \[0\]\.x"),
        ({"p": _Point(0.0, _Model(score=math.nan))}, r"nan at \.p\.y\.score"),
        (_Ratio("nan"), "nan has no JSON form"),
        ((math.nan,), r"nan at \[0\]"),
        (lambda: 1, "function has no JSON form"),
        ({"x": object()}, "object has no JSON form"),
        (b"bytes", "bytes has no JSON form"),
        (1j, "complex has no JSON form"),
        (_Model, "has no JSON form"),
        ({1: "a"}, "key must be str"),
        ({"a": {None: 1}}, "key must be str"),
        ({("t",): 1}, "key must be str"),
        ("\ud800", "surrogates"),
        ({"\udfff": 1}, "surrogates"),
        (2**64, "64-bit"),
        (-(2**63) - 1, "64-bit"),
        (_cycle(), "contains itself"),
    ],
)
def test_what_is_not_json_is_refused(value: Any, reason: str) -> None:
    """NaN, functions, cycles, odd keys, lone surrogates and huge integers say why they fail."""
    with pytest.raises(NotSerializableError, match=reason):
        to_json(value)


def test_a_shared_value_is_no_cycle() -> None:
    """The same object twice is two values."""
    shared = {"a": [1]}

    assert from_json(to_json([shared, shared])) == [{"a": [1]}, {"a": [1]}]


def test_a_hundred_levels_are_the_limit() -> None:
    """One level more is refused, and so are depths that break naive writers."""
    assert from_json(to_json(_nested(MAX_DEPTH))) == _nested(MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 253, 254, 300, 5_000):
        with pytest.raises(NotSerializableError, match="100 levels"):
            to_json(_nested(levels))


def test_many_brackets_are_not_depth() -> None:
    """Wide values with many lists, and texts full of brackets, are not deep."""
    value = [[[]] * 500, "[" * 500, {"{": "{" * 500}]

    assert from_json(to_json(value)) == value


def test_errors_name_what_they_are_about() -> None:
    """The caller's word for the value is in the message."""
    with pytest.raises(NotSerializableError, match="the arguments is not JSON"):
        to_json([math.nan], what="the arguments")


@pytest.mark.parametrize("text", ["", "{", "nan", "[1,]", b"\xff", '"\ud800"', "NaN", "1 2"])
def test_text_that_is_not_json_is_refused(text: str | bytes) -> None:
    """Only JSON text is read."""
    with pytest.raises(NotSerializableError, match="not JSON text"):
        from_json(text)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(item) for key, item in reversed(value.items())}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(item) for key, item in sorted(value.items())}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
