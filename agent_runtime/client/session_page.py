"""Reading an agent's conversations by asking its worker, whose answers come in pages.

What a query returns is limited; a page begins where the one before it ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_runtime.json_value import Json, pack

MAX_PAGE_BYTES = 2_000_000

Ask = Callable[[Json], Awaitable[Json]]
"""Sends a read request to the agent and returns the answer."""


def page(items: list[Json], start: int) -> Json:
    """Return as many items from `start` on as an answer has room for, at least one."""
    size, end = 0, start
    while end < len(items):
        size += len(pack(items[end]))
        if end > start and size > MAX_PAGE_BYTES:
            break
        end += 1
    return {"items": items[start:end], "next": end if end < len(items) else None}


def answer(result: Json, start: int) -> Json:
    """Return a result as it travels, a page of it where it is a list."""
    return page(result, start) if isinstance(result, list) else {"value": result}


async def ask_value(ask: Ask, request: dict[str, Json]) -> Json:
    """Return the answer to a request for one thing."""
    return (await ask({**request, "start": 0}))["value"]


async def ask_items(ask: Ask, request: dict[str, Json]) -> list[Json]:
    """Return the answer to a request for a list, whole."""
    items: list[Json] = []
    start: int | None = 0
    while start is not None:
        answered = await ask({**request, "start": start})
        items += answered["items"]
        start = answered["next"]
    return items
