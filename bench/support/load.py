"""Callers that do one thing after another, as many at the same time as asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bench.support.statistics import quantile

Submit = Callable[[], Awaitable[object]]


@dataclass
class Load:
    """What callers saw.

    Args:
        latencies: Seconds of each call that succeeded.
        acknowledged_at: `time.time()` of each call that succeeded.
        errors: Of each call that failed, in short.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    acknowledged_at: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Calls per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    @property
    def p50(self) -> float:
        """Median seconds of a call."""
        return quantile(self.latencies, 0.5)

    @property
    def p99(self) -> float:
        """Seconds that one call in a hundred exceeds."""
        return quantile(self.latencies, 0.99)

    @property
    def worst(self) -> float:
        """Seconds of the slowest call."""
        return max(self.latencies, default=0.0)


async def drive(submits: Sequence[Submit], callers: int, seconds: float) -> Load:
    """Let `callers` per submit call it again and again for a while, and return what they saw."""
    load = Load()
    end = time.perf_counter() + seconds

    async def call(submit: Submit) -> None:
        while (start := time.perf_counter()) < end:
            await note(load, submit, start)

    start = time.perf_counter()
    await asyncio.gather(*(call(submit) for submit in submits for _ in range(callers)))
    load.seconds = time.perf_counter() - start
    return load


async def note(load: Load, submit: Submit, start: float) -> None:
    """Make one call and note how it went."""
    try:
        await submit()
    except Exception as error:  # whatever a peer raises is a failed call
        load.errors.append(f"{type(error).__name__}: {error}"[:200])
        await asyncio.sleep(0.01)
    else:
        load.latencies.append(time.perf_counter() - start)
        load.acknowledged_at.append(time.time())
