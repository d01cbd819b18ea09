"""The shape of an agent's state: checking values, reading stored text, limits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Generic

import orjson
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypeVar

from agent_runtime.errors import NotSerializableError, StateRejectedError, StateTooLargeError
from agent_runtime.json_value import Json, from_json, to_json

StateT = TypeVar("StateT", default=Any)

MAX_STATE_BYTES: Final = 2_000_000


class Unset:
    """The state of an agent whose state was never set; not the same as None, which is null."""

    _instance: Unset | None = None

    def __new__(cls) -> Unset:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


class StateSchema(Generic[StateT]):
    """What one agent class allows as its state.

    Args:
        state_type: A pydantic model, TypedDict, dataclass or other annotated type; None lets any
            JSON value pass (state-and-sync 7.1).
        initial_state: The class's `initial_state`, or UNSET.
    """

    def __init__(self, state_type: Any, initial_state: StateT | Unset = UNSET) -> None:
        self._adapter: TypeAdapter[StateT] | None = (
            None if state_type is None else TypeAdapter(state_type)
        )
        self._initial = initial_state

    @property
    def is_typed(self) -> bool:
        """The class names a type for its state."""
        return self._adapter is not None

    def initial(self) -> Json | Unset:
        """Return a fresh copy of `initial_state` as JSON, or UNSET if the class has none.

        Raises:
            NotSerializableError: It is not JSON.
            StateRejectedError: It does not fit the class's own state type.
        """
        if isinstance(self._initial, Unset):
            return UNSET
        if self._adapter is not None:
            # Goes on below if it is given in its JSON form, such as a dict for a model.
            with suppress(NotSerializableError):
                return self.check(from_json(self.dump(self._initial)))
        return self.check(from_json(to_json(self._initial, what="initial_state")))

    def check(self, value: Json) -> Json:
        """Return the JSON value as the state type normalises it.

        Raises:
            StateRejectedError: It does not fit.
        """
        if self._adapter is None:
            return value
        return from_json(self.dump(self.load(orjson.dumps(value))))

    def load(self, text: str | bytes) -> StateT:
        """Make the author's value from stored JSON text, anew at each call.

        Raises:
            StateRejectedError: The text does not fit the state type.
        """
        if self._adapter is None:
            value: StateT = orjson.loads(text)
            return value
        try:
            loaded: StateT = self._adapter.validator.validate_json(text)
        except ValidationError as error:
            raise StateRejectedError(
                f"the state does not fit its type: {_reasons(error)}"
            ) from None
        return loaded

    def dump(self, value: StateT) -> bytes:
        """Write the author's value as JSON text.

        Raises:
            NotSerializableError: It holds something that is not JSON.
        """
        if self._adapter is None:
            return to_json(value, what="the state")
        # Through Python values first: pydantic's own writer turns NaN into null without a word.
        try:
            # Without computed fields, which a model that forbids extra keys would not take back.
            plain = self._adapter.serializer.to_python(
                value, mode="json", by_alias=True, round_trip=True, warnings="error"
            )
        except ValueError as error:
            raise NotSerializableError(f"the state is not JSON: {error}") from None
        return to_json(plain, what="the state")


def check_size(size: int) -> None:
    """Refuse a state beyond the limit.

    Args:
        size: Bytes of its JSON text in UTF-8.

    Raises:
        StateTooLargeError: With size and limit.
    """
    if size > MAX_STATE_BYTES:
        raise StateTooLargeError(
            f"the state would have {size} bytes of JSON, at most {MAX_STATE_BYTES} are allowed; "
            "keep bulk data in the agent's own tables (self.sql) or in a session",
            size=size,
            limit=MAX_STATE_BYTES,
        )


def parse_stored(text: str | None) -> Json | Unset:
    """Read stored state; what does not parse counts as never set (state-and-sync 7.2.6)."""
    if text is None:
        return UNSET
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return UNSET


def _reasons(error: ValidationError) -> str:
    parts = []
    for item in error.errors(include_url=False, include_context=False)[:5]:
        place = ".".join(str(step) for step in item["loc"])
        parts.append(f"{place}: {item['msg']}" if place else item["msg"])
    more = error.error_count() - len(parts)
    return "; ".join(parts) + (f"; and {more} more" if more > 0 else "")
