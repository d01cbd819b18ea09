"""P15: what an idle agent costs the worker that keeps it warm."""

from __future__ import annotations

import asyncio

from bench.support.accounting import processor_seconds, resident_bytes
from bench.support.bench import Bench
from bench.support.row import Figure, Row, number

_BASE = 50
_IDLE_SECONDS = 3.0


async def run(bench: Bench) -> list[Figure]:
    """Compare the worker's memory before and after many agents, and its processor when idle."""
    queue = bench.new_name("idle")
    worker = await bench.start_worker(queue)
    client = await bench.client(queue)
    count = bench.scale.pick(1_000, 250)
    bench.say(f"{count} idle agents")
    gate = asyncio.Semaphore(20)

    async def touch(name: str) -> None:
        async with gate:
            await client.agent("Counter", name).merge_state({"count": 1})

    await asyncio.gather(*(touch(bench.new_name("idle")) for _ in range(_BASE)))
    before = resident_bytes(worker.pid)
    await asyncio.gather(*(touch(bench.new_name("idle")) for _ in range(count)))
    each = (resident_bytes(worker.pid) - before) / count
    used = processor_seconds(worker.pid)
    await asyncio.sleep(_IDLE_SECONDS)
    used = processor_seconds(worker.pid) - used
    whole = resident_bytes(worker.pid)
    await worker.stop()
    return [
        Figure(
            "memory per idle cached agent",
            each / 1024,
            "KiB",
            at_most=120,
            evidence=f"{count} agents; worker {number(whole / 2**20)} MiB",
        ),
        Figure(
            "worker's processor with all of them idle",
            used / _IDLE_SECONDS * 100,
            "%",
            at_most=2,
        ),
    ]


ROW = Row("P15", "idle agents", run)
