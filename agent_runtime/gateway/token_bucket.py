"""A rate that may be exceeded for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable


class TokenBucket:
    """Allows a rate, and twice as much at once after a pause.

    Args:
        now: Seconds that only grow.
    """

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._room = max(1.0, per_second * 2)
        self._left = self._room
        self._now = now
        self._seen = now()

    def take(self) -> bool:
        """Tell whether one more is within the rate."""
        now = self._now()
        self._left = min(self._room, self._left + (now - self._seen) * self._rate)
        self._seen = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
