"""Now, as the storage keeps times."""

from __future__ import annotations

import time


def now_milliseconds() -> int:
    """Return milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000
