"""The shape of a state: checked on its way in, whole on its way out, whatever its type."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field
from typing_extensions import TypedDict

from agent_runtime.errors import NotSerializableError, StateRejectedError, StateTooLargeError
from agent_runtime.state import MAX_STATE_BYTES, UNSET, StateSchema, Unset, check_size, parse_stored
from tests.support.json_values import json_values


class Game(BaseModel):
    """The usual state."""

    players: list[str] = []
    score: float = 0.0


class Renamed(BaseModel):
    """A state with other names in JSON."""

    player_count: int = Field(alias="playerCount")
    started_at: datetime | None = Field(default=None, alias="startedAt")


class Strict(BaseModel):
    """A state that takes no near miss."""

    model_config = ConfigDict(strict=True, extra="forbid")
    at: datetime
    kind: Literal["a", "b"] = "a"


class Computed(BaseModel):
    """A state that shows more than it takes."""

    model_config = ConfigDict(extra="forbid")
    width: int = 1

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> int:
        """The square of the width."""
        return self.width**2


class Options(TypedDict):
    """A plain dict with known keys."""

    name: str
    size: NotRequired[int]


@dataclasses.dataclass
class Point:
    """A dataclass."""

    x: int
    y: int = 0


class Plain:
    """No pydantic type."""


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state_type", "value"),
    [
        (Game, Game(players=["a"], score=1.5)),
        (Renamed, Renamed(playerCount=2, startedAt=NOON)),
        (Strict, Strict(at=NOON)),
        (Computed, Computed(width=3)),
        (Options, {"name": "n"}),
        (Point, Point(1, 2)),
        (dict[str, int], {"a": 1}),
        (dict, {"a": [None]}),
        (list[Point], [Point(1)]),
        (int | None, None),
        (None, {"any": ["thing", None]}),
        (None, None),
    ],
)
def test_what_is_stored_is_loaded_equal(state_type: Any, value: Any) -> None:
    """A value that could be written is read back equal, as often as one likes."""
    schema = StateSchema(state_type)
    text = schema.dump(value)

    assert schema.load(text) == value
    assert schema.dump(schema.load(text)) == text


@pytest.mark.parametrize(
    ("state_type", "initial", "expected"),
    [
        (Game, Game(), {"players": [], "score": 0.0}),
        (Game, {"score": 1}, {"players": [], "score": 1.0}),
        (Renamed, Renamed(playerCount=2), {"playerCount": 2, "startedAt": None}),
        (Renamed, {"playerCount": 2}, {"playerCount": 2, "startedAt": None}),
        (Strict, Strict(at=NOON), {"at": "2026-01-02T12:00:00Z", "kind": "a"}),
        (Options, {"name": "n"}, {"name": "n"}),
        (Point, Point(1), {"x": 1, "y": 0}),
        (None, {"count": 0}, {"count": 0}),
        (None, Point(1), {"x": 1, "y": 0}),
        (None, None, None),
        (int | None, None, None),
    ],
)
def test_initial_state_in_every_form(state_type: Any, initial: Any, expected: Any) -> None:
    """`initial_state` may be the author's type or its JSON form; its names are those of JSON."""
    assert StateSchema(state_type, initial).initial() == expected


def test_no_initial_state_is_not_null() -> None:
    """A class without `initial_state` has none; null would be one."""
    assert StateSchema(None).initial() is UNSET


def test_initial_state_is_a_fresh_copy() -> None:
    """What one agent does to its copy never shows in another's."""
    schema: StateSchema[Any] = StateSchema(None, {"items": []})
    first: Any = schema.initial()
    first["items"].append(1)

    assert schema.initial() == {"items": []}


@pytest.mark.parametrize(
    ("state_type", "value", "place"),
    [
        (Game, {"score": "high"}, "score"),
        (Game, {"players": [1]}, r"players\.0"),
        (Game, [], "object"),
        (Game, None, "object"),
        (Renamed, {"player_count": 2}, "playerCount"),
        (Strict, {"at": 5}, "at"),
        (Strict, {"at": "2026-01-02T12:00:00Z", "kind": "c"}, "kind"),
        (Strict, {"at": "2026-01-02T12:00:00Z", "more": 1}, "more"),
        (Options, {"size": 1}, "name"),
        (Point, {"y": 1}, "x"),
        (dict[str, int], {"a": "b"}, "a"),
    ],
)
def test_a_value_of_another_shape_is_refused(state_type: Any, value: Any, place: str) -> None:
    """The refusal names the place."""
    with pytest.raises(StateRejectedError, match=place):
        StateSchema(state_type).check(value)


def test_check_normalises() -> None:
    """What is stored is what the type makes of the value: defaults in, unknown keys out."""
    schema = StateSchema(Game)

    assert schema.check({"score": 1, "unknown": 2}) == {"players": [], "score": 1.0}


def test_a_long_list_of_reasons_is_cut() -> None:
    """A refusal names a few places and how many more there are."""
    with pytest.raises(StateRejectedError, match="and 15 more"):
        StateSchema(dict[str, int]).check({str(number): "x" for number in range(20)})


@pytest.mark.parametrize(
    ("state_type", "value"),
    [
        (Game, Game(score=math.nan)),
        (Game, Game(score=math.inf)),
        (dict[str, float], {"a": math.nan}),
        (list[Game], [Game(score=-math.inf)]),
        (Point, Point(2**64)),
        (dict[str, Any], {"f": print}),
        (None, {"a": math.nan}),
        (None, Game(score=math.nan)),
        (None, object()),
        (Game, Game(players=["\ud800"])),
    ],
)
def test_a_value_that_is_not_json_is_refused(state_type: Any, value: Any) -> None:
    """NaN is never stored as null, and what has no JSON form is named."""
    with pytest.raises(NotSerializableError, match="is not JSON"):
        StateSchema(state_type).dump(value)


def test_a_value_of_the_wrong_python_type_is_refused() -> None:
    """Handing a dict where the class says model is told at once, not stored."""
    with pytest.raises(NotSerializableError, match="is not JSON"):
        StateSchema[Any](Game).dump({"score": "high"})


def test_an_initial_state_that_does_not_fit_is_refused() -> None:
    """A class whose own `initial_state` breaks its type cannot be served."""
    with pytest.raises(StateRejectedError, match="score"):
        StateSchema[Any](Game, {"score": "high"}).initial()
    with pytest.raises(NotSerializableError, match="initial_state"):
        StateSchema[Any](None, {"score": math.nan}).initial()


def test_an_authors_own_validator_counts() -> None:
    """Rules inside the type refuse like the type itself, with their own text."""

    def positive(value: int) -> int:
        if value <= 0:
            raise ValueError("must be above zero")
        return value

    with pytest.raises(StateRejectedError, match="must be above zero"):
        StateSchema(Annotated[int, AfterValidator(positive)]).check(0)


def test_a_changed_type_refuses_to_load() -> None:
    """A stored state that no longer fits raises instead of showing something else."""
    with pytest.raises(StateRejectedError, match="does not fit its type"):
        StateSchema(Game).load('{"score": "high"}')


@given(json_values)
def test_without_a_type_any_json_passes(value: Any) -> None:
    """An agent without a state type keeps any JSON value unchanged."""
    schema: StateSchema[Any] = StateSchema(None)

    assert schema.check(value) == value
    assert schema.load(schema.dump(value)) == value


@pytest.mark.parametrize("text", ["invalid{json", "", "{", "undefined"])
def test_unreadable_text_counts_as_never_set(text: str) -> None:
    """Stored text that does not parse is as if there was none (state-and-sync 7.2.6)."""
    assert parse_stored(text) is UNSET


@pytest.mark.parametrize(
    ("text", "expected"),
    [("null", None), ("0", 0), ("false", False), ('""', ""), ("[]", []), ("{}", {})],
)
def test_empty_values_are_set(text: str, expected: Any) -> None:
    """Presence counts, not truth (state-and-sync 7.1.4)."""
    assert parse_stored(text) == expected
    assert parse_stored(text) is not UNSET


def test_unset_is_one_and_false() -> None:
    """There is one "never set", and it is false like None."""
    assert Unset() is UNSET
    assert not UNSET
    assert repr(UNSET) == "UNSET"


def test_the_size_limit_is_exact() -> None:
    """Two million bytes pass; one more is refused with size and limit."""
    check_size(MAX_STATE_BYTES)
    with pytest.raises(StateTooLargeError) as caught:
        check_size(MAX_STATE_BYTES + 1)

    expected = {"size": MAX_STATE_BYTES + 1, "limit": MAX_STATE_BYTES}
    assert dict(caught.value.details_map) == expected
