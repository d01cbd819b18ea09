"""What tells that others have committed, without asking: the server's notifications."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

import asyncpg

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.storage.postgres_errors import storage_errors

logger = logging.getLogger("agent_runtime")

CHANNEL = "agent_runtime_feed"
_PAUSES_SECONDS = (0.05, 0.2, 1.0)
# A connection that was cut without a word brings no notifications any more.
_SAFETY_SECONDS = 5.0


class ChangeListener:
    """Counts notifications of new entries of the change feed, on a connection of its own."""

    def __init__(self, connect: Callable[[], Awaitable[asyncpg.Connection]], place: str) -> None:
        self._connect = connect
        self._place = place
        self._count = 0
        self._listening: asyncio.Task[None] | None = None

    def mark(self) -> int:
        """Return a number that changes after a commit; the first call begins to listen."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        return self._count + int(time.monotonic() / _SAFETY_SECONDS)

    async def close(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                await self._listen_once()
                failures = 0
            except AgentRuntimeError as error:
                if failures == 0:
                    logger.warning("no notifications of changes for now: %s", error)
                await asyncio.sleep(_PAUSES_SECONDS[min(failures, len(_PAUSES_SECONDS) - 1)])
                failures += 1

    async def _listen_once(self) -> None:
        """Listen until the connection is lost."""
        connection = await self._connect()
        is_lost = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: is_lost.set())
            with storage_errors(self._place):
                await connection.add_listener(CHANNEL, self._notified)
            # Whatever was committed while nobody listened.
            self._count += 1
            await is_lost.wait()
        finally:
            await connection.close()

    def _notified(self, *_: object) -> None:
        self._count += 1
