"""Lists that are never longer than an answer may be, however many and long their items are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json, pack
from agent_runtime.storage.read_size import FIRST_ROWS, rows_at_once

T = TypeVar("T")
C = TypeVar("C", int, str | None)

MAX_ANSWER_BYTES = 8_000_000
"""One item that is longer comes alone."""


async def read_page(
    read: Callable[[C, int], Awaitable[Sequence[T]]],
    after: C,
    limit: int,
    cursor_of: Callable[[T], C],
    to_json: Callable[[T], Json],
) -> tuple[list[Json], C | None]:
    """Read items until there are enough, or an answer has no room for more.

    Args:
        read: Returns as many items behind a place as there are, at most so many.
        cursor_of: Returns the place of an item.

    Returns:
        The items, and the place to read on from; None at the end.
    """
    items: list[Json] = []
    size, count = 0, FIRST_ROWS
    while len(items) < limit:
        asked = min(count, limit - len(items))
        found = await read(after, asked)
        largest = 0
        for each in found:
            item = to_json(each)
            item_size = len(pack(item))
            size, largest = size + item_size, max(largest, item_size)
            if items and size > MAX_ANSWER_BYTES:
                return items, after
            items.append(item)
            after = cursor_of(each)
        if len(found) < asked:
            return items, None
        count = rows_at_once(largest)
    return items, after


def fitting(items: Sequence[Json]) -> list[Json]:
    """Return as many of the first items as an answer has room for, one at least."""
    size, kept = 0, 0
    for item in items:
        size += len(pack(item))
        if kept and size > MAX_ANSWER_BYTES:
            break
        kept += 1
    return list(items[:kept])


def listed(
    items: Sequence[T],
    after: str | None,
    limit: int,
    name_of: Callable[[T], str],
    to_json: Callable[[T], Json],
) -> tuple[list[Json], str | None]:
    """Return a page of a list that was read whole, and the name to read on behind.

    Args:
        after: Name of the item that the page begins behind; None for the first page.

    Raises:
        InvalidRequestError: There is none of that name, or no longer.
    """
    names = [name_of(item) for item in items]
    if after is not None and after not in names:
        raise InvalidRequestError("after names nothing that is there; begin anew without it")
    start = 0 if after is None else names.index(after) + 1
    shown = fitting([to_json(item) for item in items[start : start + limit]])
    end = start + len(shown)
    return shown, names[end - 1] if end < len(items) else None
