"""The order in which an agent's handlers begin."""

from __future__ import annotations

import asyncio


class Turn:
    """Lets one handler begin after the one that arrived before it (state-and-sync 7.5.1).

    What has to be read first may be read by all at the same time; their code begins in order, and
    runs to its first wait before the next one's does.
    """

    def __init__(self, before: Turn | None) -> None:
        self._before = before
        self._passed = asyncio.Event()

    async def come(self) -> None:
        """Wait until the one before has passed on."""
        if self._before is not None:
            await self._before._passed.wait()
            self._before = None  # or all that ever ran would be kept

    def pass_on(self) -> None:
        """Let the next one begin, as soon as the running code waits."""
        self._passed.set()
