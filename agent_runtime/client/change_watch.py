"""Who waits for changes of agents in this process, woken from the storage's change feed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections import defaultdict

from agent_runtime.errors import StorageError
from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import DESTROYED, Storage

logger = logging.getLogger("agent_runtime")

_POLL_SECONDS = 0.004
_ERROR_PAUSE_SECONDS = 0.5
_PAGE = 500


class Waiter:
    """Waits for changes of one agent; it is forgotten when nobody holds it any more."""

    def __init__(self, ref: AgentRef) -> None:
        self.ref = ref
        self.is_closed = False
        self.has_restarted = False
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Say that something has changed."""
        self._changed.set()

    def restart(self) -> None:
        """Say that the agent was destroyed: its next states are those of another."""
        self.has_restarted = True
        self._changed.set()

    def close(self) -> None:
        """Wait no more."""
        self.is_closed = True
        self._changed.set()

    async def wait(self, seconds: float) -> None:
        """Wait for a change since the last wait, and not longer than given."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()


class ChangeWatch:
    """Follows the change feed while somebody waits."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiters: defaultdict[AgentRef, weakref.WeakSet[Waiter]] = defaultdict(weakref.WeakSet)
        self._after = 0
        self._following: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    async def add(self, ref: AgentRef) -> Waiter:
        """Return a waiter that is woken by whatever is committed from now on."""
        waiter = Waiter(ref)
        async with self._starting:
            if self._following is None or self._following.done():
                # Before the waiter looks for itself: what comes later is in the feed after this.
                self._after = await self._storage.read_feed_end()
                self._waiters[ref].add(waiter)
                self._following = asyncio.create_task(self._follow())
            self._waiters[ref].add(waiter)
        return waiter

    async def close(self) -> None:
        """Follow no more; all that wait are closed."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                waiter.close()
        self._waiters.clear()
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following

    async def _follow(self) -> None:
        mark = None
        while self._has_waiters():
            try:
                newest = await self._storage.read_change_mark()
                if newest != mark:
                    mark = newest
                    await self._wake_changed()
            except StorageError as error:
                logger.warning("the change feed waits: %s", error)
                await asyncio.sleep(_ERROR_PAUSE_SECONDS)
            await asyncio.sleep(_POLL_SECONDS)

    async def _wake_changed(self) -> None:
        while True:
            rows = await self._storage.read_feed(self._after, _PAGE)
            for row in rows:
                self._after = row.seq
                if row.kind not in ("state", DESTROYED) or row.ref not in self._waiters:
                    continue
                for waiter in list(self._waiters[row.ref]):
                    waiter.wake() if row.kind == "state" else waiter.restart()
            if len(rows) < _PAGE:
                return

    def _has_waiters(self) -> bool:
        for ref in [ref for ref, waiters in self._waiters.items() if not waiters]:
            del self._waiters[ref]
        return bool(self._waiters)
