"""Work that must not overlap, and must not wait for itself either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_runtime.errors import ContextBlockError


class OneAtATime:
    """Turns that tasks take one after the other, in the order they asked.

    Args:
        what: What a task asks for that already has the turn, for its error.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and keep it for the block.

        Raises:
            ContextBlockError: This task has it already; waiting would never end.
        """
        task = asyncio.current_task()
        if self._holder is not None and self._holder is task:
            raise ContextBlockError(
                f"a provider asked for {self._what} of the session that is calling it; "
                "get what it needs elsewhere"
            )
        async with self._lock:
            self._holder = task
            try:
                yield
            finally:
                self._holder = None
