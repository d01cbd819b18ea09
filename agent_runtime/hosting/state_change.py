"""What a mutation makes of a state: pure, in memory, and the only place that decides it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import orjson

from agent_runtime.errors import StateRejectedError
from agent_runtime.json_value import Json
from agent_runtime.mutation import FROM_CODE, Mutation, MutationKind
from agent_runtime.state import (
    MAX_STATE_BYTES,
    UNSET,
    StateSchema,
    Unset,
    check_size,
    parse_stored,
)
from agent_runtime.storage.protocol import StoredState

MAX_CHANGES_IN_A_ROW = 64
"""A version is rebuilt from the last whole state and at most this many changes."""


class StateRules(Protocol):
    """What the commit needs to know of an agent's class."""

    @property
    def schema(self) -> StateSchema[Any]:
        """The shape of its state."""

    @property
    def has_validator(self) -> bool:
        """The class defines `validate_state_change`."""

    @property
    def guards_state(self) -> bool:
        """The class defines `client_view` or `state_from_client`."""

    def validate(self, current: Json | Unset, next_state: Json, source: str) -> None:
        """Run the author's `validate_state_change` with `self.state` showing `current`.

        Raises:
            StateRejectedError: It refused.
        """

    def from_client(self, current: Json | Unset, mutation: Mutation) -> Json:
        """Return what becomes of a state that a client sent, where the class guards its own.

        Raises:
            StateRejectedError: Clients do not change it, or not so.
        """

    def check_call(self, method: str, args: list[Json], event: str = "") -> None:
        """Refuse a call, or an event without a hook, that can never succeed.

        Raises:
            InvalidRequestError: No such method, not callable, or other arguments.
        """


class Change(NamedTuple):
    """One version that a mutation made; `value` is the whole state or the keys that changed."""

    version: int
    kind: str
    value: str
    is_full: bool


Mark = tuple[Any, ...]


class WorkingState:
    """An agent's state while a commit decides over it; parsed only when it is looked at."""

    def __init__(self, stored: StoredState) -> None:
        self.stored = stored
        self.version = stored.version
        self.full_version = stored.full_version
        self.added_bytes = 0
        self._value: Json | Unset | None = None
        self._is_parsed = False
        self._text: bytes | None = None
        # An upper bound: merges add to it without writing the whole state each time.
        self._size = len(stored.state or "") * 4

    @property
    def value(self) -> Json | Unset:
        """The present value; never changed in place."""
        if not self._is_parsed:
            self._value = parse_stored(self.stored.state)
            self._is_parsed = True
        return self._value

    @property
    def is_changed(self) -> bool:
        """A mutation was applied."""
        return self.version != self.stored.version

    def mark(self) -> Mark:
        """Remember the present, for `restore`."""
        return (
            self._value,
            self._is_parsed,
            self._text,
            self.version,
            self.full_version,
            self._size,
            self.added_bytes,
        )

    def restore(self, mark: Mark) -> None:
        """Forget everything since `mark`."""
        (
            self._value,
            self._is_parsed,
            self._text,
            self.version,
            self.full_version,
            self._size,
            self.added_bytes,
        ) = mark

    def replace(self, value: Json, kind: str) -> Change:
        """Make `value` the state of the next version."""
        text = orjson.dumps(value)
        check_size(len(text))
        change = self._advance(value, kind, text, len(text), is_full=True)
        self._text = text
        return change

    def merge(self, value: dict[str, Json], changed: dict[str, Json], kind: str) -> Change:
        """Make `value` the state of the next version, noting only the changed keys."""
        if self.version - self.full_version >= MAX_CHANGES_IN_A_ROW:
            return self.replace(value, kind)
        text = orjson.dumps(changed)
        bound = self._size + len(text)
        if bound > MAX_STATE_BYTES:
            bound = len(orjson.dumps(value))
            check_size(bound)
        return self._advance(value, kind, text, bound, is_full=False)

    def head(self, now: int) -> StoredState:
        """Return the agent's head to store."""
        return StoredState(
            self.stored.agent_id,
            self.version,
            (self._text or orjson.dumps(self._value)).decode(),
            self.full_version,
            now,
        )

    def _advance(self, value: Json, kind: str, text: bytes, size: int, *, is_full: bool) -> Change:
        self.version += 1
        self._value, self._is_parsed, self._text, self._size = value, True, None, size
        self.added_bytes += len(text)
        if is_full:
            self.full_version = self.version
        return Change(self.version, kind, text.decode(), is_full)


def apply_mutation(
    working: WorkingState,
    rules: StateRules,
    mutation: Mutation,
    update: Callable[[Any], Any] | None = None,
) -> list[Change]:
    """Apply one mutation and return the versions that it made.

    Usually one; two when it read a state that was never set, as reading stores `initial_state`
    (state-and-sync 7.2); none for an init of a state that was set.

    Raises:
        StateRejectedError: Type, validator or kind of the present state refuse it.
        StateTooLargeError: Beyond the limit.
    """
    changes: list[Change] = []
    kind = mutation.kind
    is_from_client = rules.guards_state and mutation.source != FROM_CODE
    is_reading = kind in (MutationKind.MERGE, MutationKind.UPDATE, MutationKind.INIT)
    is_reading = is_reading or is_from_client
    if is_reading and working.value is UNSET:
        initial = rules.schema.initial()
        if initial is not UNSET:
            _validate(working, rules, initial, FROM_CODE)
            changes.append(working.replace(initial, MutationKind.INIT))
    if kind is MutationKind.INIT:
        return changes
    if kind is MutationKind.MERGE and not is_from_client:
        changes.append(_merge(working, rules, mutation))
        return changes
    if is_from_client:
        value = rules.from_client(working.value, mutation)
    elif kind is MutationKind.SET:
        value = rules.schema.check(mutation.value)
    elif kind is MutationKind.RESET:
        initial = rules.schema.initial()
        value = rules.schema.check({}) if initial is UNSET else initial
    else:
        value = _updated(working, rules.schema, update)
    _validate(working, rules, value, mutation.source)
    changes.append(working.replace(value, kind))
    return changes


def _validate(working: WorkingState, rules: StateRules, value: Json, source: str) -> None:
    if rules.has_validator:
        rules.validate(working.value, value, source)


def _merge(working: WorkingState, rules: StateRules, mutation: Mutation) -> Change:
    current, partial = working.value, mutation.value
    if not isinstance(partial, dict):
        raise StateRejectedError("only an object can be merged into the state; use set_state")
    if current is UNSET or current is None:
        value = rules.schema.check(partial)
        _validate(working, rules, value, mutation.source)
        return working.replace(value, mutation.kind)
    if not isinstance(current, dict):
        raise StateRejectedError(
            f"the state is a {type(current).__name__}, and only objects can be merged into; "
            "use set_state"
        )
    value = rules.schema.check({**current, **partial})
    if not rules.schema.is_typed:
        _validate(working, rules, value, mutation.source)
        return working.merge(value, partial, mutation.kind)
    if unknown := partial.keys() - value.keys():
        raise StateRejectedError(
            f"the state type has no field {', '.join(sorted(unknown))}; nothing was merged"
        )
    _validate(working, rules, value, mutation.source)
    if current.keys() - value.keys():
        return working.replace(value, mutation.kind)
    changed = {
        key: item
        for key, item in value.items()
        if key in partial or key not in current or current[key] != item
    }
    return working.merge(value, changed, mutation.kind)


def _updated(
    working: WorkingState, schema: StateSchema[Any], update: Callable[[Any], Any] | None
) -> Json:
    if update is None:
        raise StateRejectedError("an update needs the agent's code; use set or merge from outside")
    present = working.value
    try:
        next_state = update(None if present is UNSET else schema.load(orjson.dumps(present)))
    except StopIteration as error:
        # Not to be carried by a future; a coroutine would turn it into the same.
        raise RuntimeError("the function given to update_state raised StopIteration") from error
    if inspect.isawaitable(next_state):
        if inspect.iscoroutine(next_state):
            next_state.close()
        raise StateRejectedError("the function given to update_state must not be async")
    text = schema.dump(next_state)
    return schema.check(orjson.loads(text))


def rebuild(entries: list[tuple[bool, str | None]]) -> Json | Unset:
    """Rebuild a version from (is whole, JSON text) of a whole state and the changes after it.

    Returns UNSET when retention has dropped what is needed.
    """
    value: Json | Unset = UNSET
    for is_full, text in entries:
        if text is None:
            return UNSET
        part = orjson.loads(text)
        value = {**value, **part} if isinstance(value, dict) and not is_full else part
    return value
