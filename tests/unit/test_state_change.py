"""What each mutation makes of each kind of state."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from agent_runtime.errors import AgentRuntimeError, StateRejectedError, StateTooLargeError
from agent_runtime.hosting.state_change import (
    MAX_CHANGES_IN_A_ROW,
    WorkingState,
    apply_mutation,
    rebuild,
)
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.mutation import Mutation, MutationKind
from agent_runtime.state import UNSET, StateSchema, Unset
from agent_runtime.storage.protocol import StoredState

INITIAL = {"count": 0, "items": []}


class Game(BaseModel):
    """A typed state with another name in JSON."""

    model_config = ConfigDict(extra="ignore")
    player_count: int = Field(default=0, alias="playerCount")
    tags: dict[str, int] = {}


class Rules:
    """What a class says about its state; notes what its validator is shown."""

    def __init__(self, state_type: Any = None, initial: Any = UNSET, refuse: str = "") -> None:
        self.schema: StateSchema[Any] = StateSchema(state_type, initial)
        self.has_validator = True
        self.guards_state = False
        self.shown: list[tuple[Json | Unset, Json, str]] = []
        self._refuse = refuse

    def validate(self, current: Json | Unset, next_state: Json, source: str) -> None:
        """Note the call, refuse a state with the marked text."""
        self.shown.append((current, next_state, source))
        if self._refuse and next_state == self._refuse:
            raise StateRejectedError("refused")

    def from_client(self, current: Json | Unset, mutation: Mutation) -> Json:
        """Put what a client sent beside what it does not see."""
        assert isinstance(current, dict)
        return {**current, "sent": mutation.value}

    def check_call(self, method: str, args: list[Json], event: str = "") -> None:
        """Accept every call; none is made here."""


def _stored(value: Any = UNSET, version: int = 3) -> WorkingState:
    if value is UNSET:
        return WorkingState(StoredState(1))
    return WorkingState(StoredState(1, version, to_json(value).decode(), version, 5))


def _apply(
    working: WorkingState, kind: str, value: Json = None, rules: Rules | None = None
) -> list[tuple[int, str, Json, bool]]:
    mutation = Mutation("k", MutationKind(kind), value)
    changes = apply_mutation(working, rules or Rules(), mutation)
    return [(c.version, c.kind, from_json(c.value), c.is_full) for c in changes]


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, {"a": {"b": [1]}}, "text", 1.5])
def test_set_replaces_by_any_json(value: Json) -> None:
    """Any JSON value may follow any other (state-and-sync 7.1)."""
    for before in (UNSET, None, {"old": 1}, [1], "x"):
        working = _stored(before)
        version = working.version + 1
        assert _apply(working, "set", value) == [(version, "set", value, True)]
        assert working.value == value


@pytest.mark.parametrize(
    ("before", "partial", "after"),
    [
        ({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 9}}, {"a": {"x": 9}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": 1}, {}, {"a": 1}),
        ({}, {"z": 1}, {"z": 1}),
        (None, {"z": 1}, {"z": 1}),
        (UNSET, {"z": 1}, {"z": 1}),
    ],
)
def test_merge_is_shallow(before: Json, partial: Json, after: Json) -> None:
    """Named top-level keys are replaced; null stays; nothing is removed (state-and-sync 16.2)."""
    working = _stored(before)

    _apply(working, "merge", partial)

    assert working.value == after


@pytest.mark.parametrize("before", [[], [1], "text", 7, True, 0, "", False])
def test_merge_into_no_object_is_refused(before: Json) -> None:
    """Arrays and scalars are not made objects (state-and-sync 16.2.3)."""
    working = _stored(before)

    with pytest.raises(StateRejectedError, match="only objects can be merged into"):
        _apply(working, "merge", {"a": 1})
    assert (working.value, working.version) == (before, 3)


@pytest.mark.parametrize("partial", [None, 1, "x", [1], [["a", 1]]])
def test_only_objects_are_merged(partial: Json) -> None:
    """What is no object has no keys to merge."""
    with pytest.raises(StateRejectedError, match="only an object can be merged"):
        _apply(_stored({"a": 1}), "merge", partial)


def test_merge_keeps_changed_keys_only() -> None:
    """History holds the keys that were named, not the state."""
    working = _stored({"a": 1, "big": "x" * 1_000})

    assert _apply(working, "merge", {"a": 2}) == [(4, "merge", {"a": 2}, False)]


def test_reset_puts_initial_state_back() -> None:
    """Reset gives `initial_state` as the class has it; `{}` where it has none."""
    working = _stored({"a": 1})
    assert _apply(working, "reset", rules=Rules(initial=INITIAL)) == [(4, "reset", INITIAL, True)]

    working = _stored({"a": 1})
    assert _apply(working, "reset") == [(4, "reset", {}, True)]


def test_reset_without_initial_state_needs_a_type_with_defaults() -> None:
    """`{}` goes through the state type like any value."""
    working = _stored({"playerCount": 3, "tags": {}})
    _apply(working, "reset", rules=Rules(Game))
    assert working.value == {"playerCount": 0, "tags": {}}

    with pytest.raises(StateRejectedError, match="does not fit"):
        _apply(_stored([1]), "reset", rules=Rules(list[int]))


def test_reading_kinds_store_the_initial_state_first() -> None:
    """A merge into a state that was never set begins with `initial_state`, as reading does."""
    working = _stored()

    changes = _apply(working, "merge", {"count": 5}, Rules(initial=INITIAL))

    assert changes == [(1, "init", INITIAL, True), (2, "merge", {"count": 5}, False)]
    assert working.value == {"count": 5, "items": []}


@pytest.mark.parametrize("kind", ["set", "reset"])
def test_replacing_kinds_do_not(kind: str) -> None:
    """A set before any read simply sets; `initial_state` is then never used (7.2.5)."""
    assert len(_apply(_stored(), kind, {"x": 1}, Rules(initial=INITIAL))) == 1


def test_init_is_for_what_was_never_set() -> None:
    """Init stores `initial_state` once; a state of null counts as set."""
    working = _stored()
    assert _apply(working, "init", rules=Rules(initial=INITIAL)) == [(1, "init", INITIAL, True)]
    assert _apply(working, "init", rules=Rules(initial=INITIAL)) == []
    assert _apply(_stored(None), "init", rules=Rules(initial=INITIAL)) == []
    assert _apply(_stored(), "init") == []


def test_corrupt_text_counts_as_never_set() -> None:
    """A state that does not parse is replaced by `initial_state` at the next version (7.2.6)."""
    working = WorkingState(StoredState(1, 7, "invalid{json", 7, 5))

    assert _apply(working, "init", rules=Rules(initial=INITIAL)) == [(8, "init", INITIAL, True)]


def test_update_runs_on_a_copy() -> None:
    """The function may alter what it is given; if it raises, nothing has changed."""
    working = _stored({"items": [1]})

    def grow(state: Any) -> Any:
        state["items"].append(2)
        return state

    def break_it(state: Any) -> Any:
        state["items"].append(3)
        raise KeyError("oops")

    apply_mutation(working, Rules(), Mutation("k", MutationKind.UPDATE), grow)
    with pytest.raises(KeyError):
        apply_mutation(working, Rules(), Mutation("l", MutationKind.UPDATE), break_it)

    assert (working.value, working.version) == ({"items": [1, 2]}, 4)


def test_update_gets_the_author_s_type() -> None:
    """With a state type the function is given and returns that type."""
    working = _stored({"playerCount": 1, "tags": {}})

    def more(game: Game) -> Game:
        return game.model_copy(update={"player_count": game.player_count + 1})

    apply_mutation(working, Rules(Game), Mutation("k", MutationKind.UPDATE), more)

    assert working.value == {"playerCount": 2, "tags": {}}


def test_update_must_not_be_async() -> None:
    """An async function is refused, and its coroutine closed."""

    async def late(state: Any) -> Any:
        return state

    with pytest.raises(StateRejectedError, match="must not be async"):
        apply_mutation(_stored({}), Rules(), Mutation("k", MutationKind.UPDATE), late)


def test_update_of_what_was_never_set_starts_from_none() -> None:
    """Without a state and `initial_state` the function is given None."""
    working = _stored()
    seen: list[Any] = []

    def note(state: Any) -> Any:
        seen.append(state)
        return 1

    apply_mutation(working, Rules(), Mutation("k", MutationKind.UPDATE), note)

    assert (seen, working.value) == ([None], 1)


def test_a_typed_merge_knows_its_fields() -> None:
    """A key that the state type does not have is refused, not dropped without a word."""
    working = _stored({"playerCount": 1, "tags": {}})

    with pytest.raises(StateRejectedError, match="no field colour"):
        _apply(working, "merge", {"colour": "red"}, Rules(Game))
    with pytest.raises(StateRejectedError, match="playerCount"):
        _apply(working, "merge", {"playerCount": "many"}, Rules(Game))

    assert _apply(working, "merge", {"playerCount": 2}, Rules(Game)) == [
        (4, "merge", {"playerCount": 2}, False)
    ]


def test_a_typed_merge_drops_fields_of_an_older_type() -> None:
    """Keys that the class no longer has go with the next merge, and history stays true."""
    working = _stored({"playerCount": 1, "tags": {}, "gone": 1})

    changes = _apply(working, "merge", {"playerCount": 2}, Rules(Game))

    assert changes == [(4, "merge", {"playerCount": 2, "tags": {}}, True)]


def test_the_validator_sees_each_step() -> None:
    """It is shown present and next state and source, for an initial state too (19.1, fault 1)."""
    rules = Rules(initial=INITIAL)
    working = _stored()
    apply_mutation(working, rules, Mutation("k", MutationKind.MERGE, {"count": 1}, source="c1"))

    assert rules.shown == [
        (UNSET, INITIAL, "server"),
        (INITIAL, {"count": 1, "items": []}, "c1"),
    ]


def test_equal_values_are_versions_of_their_own() -> None:
    """Setting what is there already is an update like any other (7.3.6)."""
    working = _stored({"a": 1})

    _apply(working, "set", {"a": 1})
    _apply(working, "merge", {"a": 1})

    assert working.version == 5


def test_whole_states_come_in_between() -> None:
    """A version is never more than so many changes away from a whole state."""
    working = _stored({"n": 0})
    kinds = [_apply(working, "merge", {"n": n})[0][3] for n in range(3 * MAX_CHANGES_IN_A_ROW)]

    gaps = "".join("F" if is_full else "." for is_full in kinds).split("F")
    assert max(map(len, gaps)) == MAX_CHANGES_IN_A_ROW
    assert kinds.count(True) == 2


@pytest.mark.parametrize("kind", ["set", "merge"])
def test_a_state_beyond_the_limit_is_refused(kind: str) -> None:
    """Neither a set nor many merges get beyond two million bytes."""
    working = _stored({"a": "x" * 1_999_900})

    with pytest.raises(StateTooLargeError, match=r"self\.sql"):
        _apply(working, kind, {"b": "y" * 2_000_000})
    with pytest.raises(StateTooLargeError):
        for number in range(100):
            _apply(working, "merge", {f"c{number}": "z" * 50})
    assert len(to_json(working.value)) <= 2_000_000


def test_restore_takes_everything_back() -> None:
    """After a refusal in the middle the working state is as it was marked."""
    working = _stored({"a": 1})
    mark = working.mark()
    _apply(working, "merge", {"a": 2})
    _apply(working, "set", {"b": 3})
    working.restore(mark)

    assert (working.value, working.version, working.full_version) == ({"a": 1}, 3, 3)
    assert not working.is_changed


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], UNSET),
        ([(True, "null")], None),
        ([(True, "[1]")], [1]),
        ([(True, '{"a":1}'), (False, '{"b":2}'), (False, '{"a":null}')], {"a": None, "b": 2}),
        ([(True, None), (False, '{"b":2}')], UNSET),
        ([(True, '{"a":1}'), (False, None)], UNSET),
    ],
)
def test_rebuild(entries: list[tuple[bool, str | None]], expected: Json) -> None:
    """A whole state and the changes after it make a version, or it is kept no longer."""
    result = rebuild(entries)

    assert result == expected
    assert (result is UNSET) is (expected is UNSET)


def test_errors_of_refusals_are_typed() -> None:
    """Every refusal is an error of ours."""
    for kind, value in (("merge", 1), ("merge", {"a": 1})):
        with pytest.raises(AgentRuntimeError):
            _apply(_stored([1]), kind, value)


@pytest.mark.parametrize("kind", ["set", "merge"])
def test_a_guarded_state_takes_what_is_made_of_a_client_s(kind: str) -> None:
    """Whatever the client asked for: what it sent is not the state."""
    rules = Rules(initial={"hidden": 1})
    rules.guards_state = True
    working = _stored()
    mutation = Mutation("k", MutationKind(kind), {"seen": 2}, source="client")

    changes = apply_mutation(working, rules, mutation)

    assert working.value == {"hidden": 1, "sent": {"seen": 2}}
    assert [(change.kind, change.is_full) for change in changes] == [("init", True), (kind, True)]
    assert rules.shown[-1][2] == "client"


def test_a_guarded_state_is_the_code_s_own() -> None:
    """Changes that no client sent are made as they are."""
    rules = Rules()
    rules.guards_state = True
    working = _stored({"hidden": 1})

    _apply(working, "merge", {"seen": 2}, rules)

    assert working.value == {"hidden": 1, "seen": 2}
