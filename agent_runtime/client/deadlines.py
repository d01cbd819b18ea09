"""One timer for all who wait equally long: a timer each costs a third of a busy caller's time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any


class Deadlines:
    """Fails futures that are not done so many seconds after they were handed in.

    Args:
        late: Makes the error for one that is late.
    """

    def __init__(self, seconds: float, late: Callable[[], Exception]) -> None:
        self._seconds = seconds
        self._late = late
        self._waiting: deque[tuple[float, asyncio.Future[Any]]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, future: asyncio.Future[Any]) -> None:
        """Fail a future in time; futures are due in the order in which they come here."""
        loop = future.get_loop()
        due = loop.time() + self._seconds
        waiting = self._waiting
        while waiting and waiting[0][1].done():
            waiting.popleft()
        waiting.append((due, future))
        if self._timer is None:
            self._timer = loop.call_at(due, self._fail_late)

    def close(self) -> None:
        """Watch no longer."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail_late(self) -> None:
        self._timer = None
        waiting = self._waiting
        while waiting:
            due, future = waiting[0]
            loop = future.get_loop()
            if not future.done():
                if due > loop.time():
                    self._timer = loop.call_at(due, self._fail_late)
                    return
                future.set_exception(self._late())
            waiting.popleft()
