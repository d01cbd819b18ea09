"""P10: 30 client processes on one agent, three times what the server takes by updates."""

from __future__ import annotations

import asyncio

from bench.support.bench import Bench
from bench.support.client_processes import ClientPlan, ClientProcesses
from bench.support.row import Figure, Row, number

_PROCESSES = 30
_CALLERS = 10


async def run(bench: Bench) -> list[Figure]:
    """Let all call at once and measure from their first call on."""
    queue = bench.new_name("crowd")
    await bench.start_worker(queue)
    agent = bench.new_name("shared")
    plan = ClientPlan(bench.server.address, queue, str(bench.data_dir(queue)), (agent,), _CALLERS)
    client = await bench.client(queue)
    await client.agent("Counter", agent).merge_state({"count": 0})
    bench.say(f"{_PROCESSES} client processes")
    async with ClientProcesses(plan, _PROCESSES) as clients:
        clients.go()
        await asyncio.sleep(bench.scale.pick(20, 6))
        load = await clients.stop()
    return [
        Figure(
            f"{_PROCESSES} client processes x {_CALLERS} callers on one agent, rate",
            load.rate,
            "ops/s",
            at_least=3_000,
            evidence=f"p50 {number(load.p50 * 1e3)} ms",
        ),
        Figure(
            f"{_PROCESSES} client processes, p99",
            load.p99,
            "s",
            at_most=0.3,
            evidence=f"worst {number(load.worst)} s",
        ),
        Figure(
            f"{_PROCESSES} client processes, failed calls",
            len(load.errors),
            "calls",
            at_most=0,
            evidence=load.errors[0] if load.errors else "",
        ),
    ]


ROW = Row("P10", "30 client processes on one agent", run)
