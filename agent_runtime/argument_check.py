"""Refusing arguments of a wrong type, by name, before anything is done with them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json

_JSON_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "a text"),
    "str | None": ((str, type(None)), "a text or null"),
    "bool": ((bool,), "true or false"),
    "list[Json]": ((list,), "a list"),
    "dict[str, Json]": ((dict,), "an object"),
}
"""The annotations of methods that are called from outside, and what they take; else any JSON."""


def bind_json(method: str, signature: inspect.Signature, args: Sequence[Json]) -> None:
    """Check that arguments from outside are as many, and of the kinds, as a method declares.

    Raises:
        InvalidRequestError: They are not; names the argument.
    """
    try:
        bound = signature.bind(*args)
    except TypeError as error:
        raise InvalidRequestError(f"{method}: {error}", method=method) from None
    for name, value in bound.arguments.items():
        kind = _JSON_KINDS.get(signature.parameters[name].annotation)
        if kind is not None and not isinstance(value, kind[0]):
            raise InvalidRequestError(
                f"{method}: {name} must be {kind[1]}, not {value!r:.40}", method=method
            )


def check_timeout(timeout: object) -> None:
    """Refuse what is no `timeout`.

    Raises:
        InvalidRequestError: It is neither a timedelta nor None.
    """
    if timeout is not None and not isinstance(timeout, timedelta):
        raise InvalidRequestError(f"timeout must be a timedelta or None, not {timeout!r:.40}")


def check_count(
    value: object, what: str, lowest: int | None = None, highest: int | None = None
) -> None:
    """Refuse what is no whole number, or is out of range.

    Raises:
        InvalidRequestError: It is not; says what is allowed.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        is_low = lowest is not None and value < lowest
        if not is_low and (highest is None or value <= highest):
            return
    span = "a whole number" if lowest is None else f"{lowest} or more"
    if highest is not None:
        span = f"{lowest} to {highest}"
    raise InvalidRequestError(f"{what} must be {span}, not {value!r:.40}")


def as_list(value: Any, what: str) -> list[Any]:
    """Return a list of what is a sequence, and no text.

    Raises:
        InvalidRequestError: It is none.
    """
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return list(value)
    raise InvalidRequestError(f"{what} must be a list, not {value!r:.40}")


def as_dict(value: Any, what: str) -> dict[str, Json]:
    """Return a dictionary of what is a mapping.

    Raises:
        InvalidRequestError: It is none.
    """
    if isinstance(value, Mapping):
        return dict(value)
    raise InvalidRequestError(f"{what} must be a mapping, not {value!r:.40}")
