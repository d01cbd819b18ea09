"""How a peer's process is told what to do: a line of JSON in, a line of JSON out.

Imports nothing but the standard library: peers run in environments without the product.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable

_numbers = itertools.count()
READY = "READY"
Increment = Callable[[str, str], Awaitable[object]]


async def serve_lines(increment: Increment) -> None:
    """Answer each `[agents, callers, seconds]` by what callers of `increment` saw."""
    print(READY, flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        agents, callers, seconds = json.loads(line)
        print(
            "RESULT" + json.dumps(await _measure(increment, agents, callers, seconds)), flush=True
        )


async def _measure(
    increment: Increment, agents: int, callers: int, seconds: float
) -> tuple[float, list[float], list[str]]:
    latencies: list[float] = []
    errors: list[str] = []
    start = time.perf_counter()
    end = start + seconds

    async def call(agent: str) -> None:
        while (begin := time.perf_counter()) < end:
            try:
                await increment(agent, f"{os.getpid()}-{next(_numbers)}")
            except Exception as error:  # whatever a peer raises is a failed call
                errors.append(f"{type(error).__name__}: {error}"[:200])
            else:
                latencies.append(time.perf_counter() - begin)

    names = [f"agent-{number}" for number in range(agents)]
    await asyncio.gather(*(call(name) for name in names for _ in range(callers)))
    return time.perf_counter() - start, latencies, errors
