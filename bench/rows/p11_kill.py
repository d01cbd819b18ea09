"""P11: workers killed under load."""

from __future__ import annotations

import asyncio
import random
import time

from bench.support.bench import Bench
from bench.support.ledger import Ledger
from bench.support.row import Figure, Row, number
from bench.support.statistics import median

_AGENTS = 4
_CALLERS = 2


async def run(bench: Bench) -> list[Figure]:
    """Kill the only worker again and again and start another; look for what went wrong."""
    queue = bench.new_name("killed")
    worker = await bench.start_worker(queue)
    client = await bench.client(queue, has_storage=True)
    agents = [bench.new_name("killed") for _ in range(_AGENTS)]
    for agent in agents:
        await client.agent("Counter", agent).merge_state({"count": 0})
    kills = bench.scale.pick(10, 3)
    bench.say(f"{kills} kills")
    ledger = Ledger()
    ledger.start(client, agents, _CALLERS)
    gaps: list[float] = []
    for _ in range(kills):
        await asyncio.sleep(0.5 + random.random())
        worker.kill()
        worker = await bench.start_worker(queue)
        gaps.append(await ledger.first_after(time.perf_counter()))
    await asyncio.sleep(1)
    await ledger.stop()
    lost, doubled = await ledger.lost_and_doubled(client, agents)
    await worker.stop()
    count = len(ledger.acknowledged)
    return [
        Figure(f"{kills} x kill -9, acknowledged but lost", lost, "calls", at_most=0),
        Figure(
            f"{kills} x kill -9, applied twice",
            doubled,
            "calls",
            at_most=0,
            evidence=f"{count:,} acknowledged, {len(ledger.errors)} failed",
        ),
        Figure(
            f"{kills} x kill -9, first success after the restart",
            median(gaps),
            "s",
            at_most=2.0,
            evidence=f"worst {number(max(gaps))} s",
        ),
    ]


ROW = Row("P11", "kill -9 under load", run)
