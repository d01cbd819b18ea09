"""Applying patches: what deltas say comes out, and what does not fit is refused."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given

from agent_runtime.errors import InvalidRequestError
from agent_runtime.gateway.json_delta import json_delta
from agent_runtime.gateway_client.json_patch import apply_patch
from tests.unit.test_json_delta import json_values


@given(before=json_values, after=json_values)
def test_a_delta_gives_the_value(before: Any, after: Any) -> None:
    """Of any two values, to the letter."""
    patch = json_delta(before, after)
    reached = apply_patch(copy.deepcopy(before), orjson.loads(orjson.dumps(patch)))

    sort = orjson.OPT_SORT_KEYS
    assert orjson.dumps(reached, option=sort) == orjson.dumps(after, option=sort)


def test_a_dash_is_the_end_of_a_list() -> None:
    """As RFC 6902 says."""
    assert apply_patch([1], [{"op": "add", "path": "/-", "value": 2}]) == [1, 2]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/missing", "value": 1},
        {"op": "remove", "path": "/missing"},
        {"op": "add", "path": "/missing/below", "value": 1},
        {"op": "add", "path": "/text/below", "value": 1},
        {"op": "add", "path": "/list/3", "value": 1},
        {"op": "replace", "path": "/list/2", "value": 1},
        {"op": "remove", "path": "/list/-"},
        {"op": "remove", "path": "/list/-1"},
        {"op": "remove", "path": "/list/01"},
        {"op": "move", "from": "/text", "path": "/other"},
        {"op": "add", "path": "/other"},
        {"op": "add", "path": 5, "value": 1},
        {"path": "/other"},
        "add",
    ],
)
def test_what_does_not_fit_is_refused(operation: Any) -> None:
    """By an error of ours, whatever is wrong."""
    with pytest.raises(InvalidRequestError, match="does not fit"):
        apply_patch({"list": [1, 2], "text": "x"}, [operation])
