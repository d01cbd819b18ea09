"""Lists of ids, as callers give them."""

from __future__ import annotations

from collections.abc import Iterable

from agent_runtime.errors import InvalidRequestError


def id_list(ids: Iterable[str], what: str) -> list[str]:
    """Return the ids.

    Raises:
        InvalidRequestError: They are one text, whose letters would be taken for ids, or no texts.
    """
    if isinstance(ids, str):
        raise InvalidRequestError(f"{what} is a list of ids, not a text; write [{ids!r}]")
    if not isinstance(ids, Iterable):
        raise InvalidRequestError(f"{what} is a list of ids, not {ids!r:.40}")
    found = list(ids)
    if not all(isinstance(each, str) for each in found):
        raise InvalidRequestError(f"{what} is a list of ids, each a text")
    return found
