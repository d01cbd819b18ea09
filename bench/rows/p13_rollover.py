"""P13: agents that go over to their next run again and again under load."""

from __future__ import annotations

import asyncio

from agent_runtime.call import EntityRun
from bench.support.bench import Bench
from bench.support.forms import Product
from bench.support.ledger import Ledger
from bench.support.row import Figure, Row, number
from bench.support.statistics import quantile

_CALLERS = 50
_EVENTS = 60


async def run(bench: Bench) -> list[Figure]:
    """Let 50 callers work on an agent whose runs end after 60 events."""
    queue = bench.new_name("rolling")
    worker = await bench.start_worker(queue)
    client = await bench.client(
        queue, has_storage=True, entity=EntityRun("", "", max_events=_EVENTS)
    )
    agent = bench.new_name("rolling")
    await client.agent("Counter", agent).merge_state({"count": 0})
    ledger = Ledger()
    ledger.start(client, [agent], _CALLERS)
    runs: set[str] = set()
    seconds = bench.scale.pick(10, 4)
    bench.say(f"{_CALLERS} callers, runs of {_EVENTS} events, {seconds} s")
    form = Product(client)
    for _ in range(seconds * 10):
        await asyncio.sleep(0.1)
        runs.add((await form.history(agent)).run_id)
    await ledger.stop()
    lost, doubled = await ledger.lost_and_doubled(client, [agent])
    await worker.stop()
    return [
        Figure(
            "continue-as-new under load, worst call",
            max(ledger.latencies) * 1e3,
            "ms",
            at_most=100,
            evidence=f"{len(runs)} runs seen, {number(len(ledger.times) / seconds)}/s, "
            f"p99 {number(quantile(ledger.latencies, 0.99) * 1e3)} ms",
        ),
        Figure(
            "continue-as-new under load, lost, doubled or failed",
            lost + doubled + len(ledger.errors),
            "calls",
            at_most=0,
            evidence=ledger.errors[0] if ledger.errors else "",
        ),
    ]


ROW = Row("P13", "continue-as-new under load", run)
