"""H2: 200 slow handlers on an agent while its state changes."""

from __future__ import annotations

import asyncio
import itertools

from bench.support.bench import Bench
from bench.support.load import Load, drive
from bench.support.row import Figure, Row, number

_HANDLERS = 200


async def run(bench: Bench) -> list[Figure]:
    """Measure lone mutations before and while 200 handlers of the same agent wait."""
    await bench.worker()
    client = await bench.client()
    agent = client.agent("Counter", bench.new_name("busy"))
    numbers = itertools.count()
    seconds = bench.scale.pick(10, 3)

    async def measure() -> Load:
        return await drive([lambda: agent.merge_state({"count": next(numbers)})], 1, seconds)

    await agent.merge_state({"count": 0})
    without = await measure()
    pause = bench.scale.pick(30, 9)
    bench.say(f"{_HANDLERS} handlers of {pause} s")
    calls = [await agent.start_call("pause", pause) for _ in range(_HANDLERS)]
    await asyncio.sleep(1)
    during = await measure()
    await asyncio.gather(*(call.result() for call in calls))
    return [
        Figure(
            f"mutation beside {_HANDLERS} handlers / alone",
            during.p50 / without.p50,
            at_most=1.5,
            evidence=f"p50 {number(during.p50 * 1e3)} against {number(without.p50 * 1e3)} ms, "
            f"p99 {number(during.p99 * 1e3)} against {number(without.p99 * 1e3)} ms",
        )
    ]


ROW = Row("H2", "slow handlers beside mutations", run)
