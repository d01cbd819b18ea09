"""How slowly agents do what takes a while: as slowly as the scenario is played that calls them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_factor = 1


@contextmanager
def paced(factor: int) -> Iterator[None]:
    """Make all pauses longer meanwhile."""
    global _factor
    _factor = factor
    try:
        yield
    finally:
        _factor = 1


async def pause(milliseconds: float) -> None:
    """Take a while."""
    await asyncio.sleep(milliseconds * _factor / 1000)
