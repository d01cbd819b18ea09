"""Waiting for something to become true, in place of sleeping."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def assert_eventually(
    check: Callable[[], Awaitable[None]], *, seconds: float = 60.0, every: float = 0.02
) -> None:
    """Repeat `check` until it raises no AssertionError, or let its last one through."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            await check()
            return
        except AssertionError:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(every)
