"""Steady conditions for operations that take turns in one process."""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
From = TypeVar("From")


async def steadily(measure: Callable[[From], Awaitable[T]], given: From) -> T:
    """Measure on one processor, without collecting what the benchmark itself has imported.

    A hop to a database's thread and back costs several times as much, for seconds on end, when the
    scheduler happens to have put the two on different processors; and a collection of everything
    takes longer than most of what is measured, and falls on either side.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    gc.collect()
    gc.freeze()
    try:
        return await measure(given)
    finally:
        gc.unfreeze()
        os.sched_setaffinity(0, before)
