"""Deltas between JSON values: applied by rules of their own they give the value."""

from __future__ import annotations

import copy
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.gateway.json_delta import json_delta

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.5, "", "a", "~/"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["", "a", "b", "~1", "a/b", "0"]), inner, max_size=4)
    ),
    max_leaves=15,
)


def apply(patch: list[Any], value: Any) -> Any:
    """Apply a patch as RFC 6902 says."""
    root = {"": copy.deepcopy(value)}
    for operation in patch:
        names = [part.replace("~1", "/").replace("~0", "~") for part in _parts(operation["path"])]
        place: Any = root
        for name in names[:-1]:
            place = place[int(name)] if isinstance(place, list) else place[name]
        last: Any = int(names[-1]) if isinstance(place, list) else names[-1]
        if operation["op"] == "remove":
            del place[last]
        elif operation["op"] == "add" and isinstance(place, list):
            assert 0 <= last <= len(place)
            place.insert(last, operation["value"])
        else:
            assert operation["op"] == "add" or names == [""] or last in _keys(place)
            place[last] = operation["value"]
    return root[""]


def _parts(path: str) -> list[str]:
    return path.split("/")  # the first one is empty: the root's only key


def _keys(place: Any) -> Any:
    return range(len(place)) if isinstance(place, list) else place


@given(before=json_values, after=json_values)
def test_a_delta_leads_from_one_value_to_the_other(before: Any, after: Any) -> None:
    """To the letter: true is not 1, and 1 is not 1.0."""
    reached = apply(json_delta(before, after), before)

    sort = orjson.OPT_SORT_KEYS
    assert orjson.dumps(reached, option=sort) == orjson.dumps(after, option=sort)


@given(value=json_values)
def test_equal_values_have_none(value: Any) -> None:
    """Nothing is said where nothing has changed."""
    assert json_delta(value, copy.deepcopy(value)) == []


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [{"op": "replace", "path": "/b", "value": 3}]),
        ({"a/b": 1}, {"~": 1}, [
            {"op": "remove", "path": "/a~1b"}, {"op": "add", "path": "/~0", "value": 1}]),
        ([1, 2, 3], [0, 1, 2, 3], [{"op": "add", "path": "/0", "value": 0}]),
        ([1, 2, 3], [1, 3], [{"op": "remove", "path": "/1"}]),
        (1, True, [{"op": "replace", "path": "", "value": True}]),
    ],
)  # fmt: skip
def test_a_delta_is_small(before: Any, after: Any, patch: list[Any]) -> None:
    """One change is one operation, also in front of a list."""
    assert json_delta(before, after) == patch


def test_deep_values_take_no_longer_than_long_ones() -> None:
    """A hundred levels of lists are done at once."""

    def nested(leaf: int) -> Any:
        value: Any = leaf
        for _ in range(95):
            value = [value, 0]
        return value

    started = time.process_time()
    patch = json_delta(nested(1), nested(2))

    assert [operation["value"] for operation in patch] == [2]
    assert time.process_time() - started < 3
