"""P14: the first call to an agent that sleeps or has left the worker's memory."""

from __future__ import annotations

import time

from agent_runtime import AgentHandle
from agent_runtime.call import EntityRun
from bench.support.bench import Bench
from bench.support.forms import Product
from bench.support.row import Figure, Row, number
from bench.support.statistics import median

_EVENTS = 500


async def run(bench: Bench) -> list[Figure]:
    """Wake agents that have hibernated, then one that was evicted with a long history."""
    return [await _hibernated(bench), await _evicted(bench)]


async def _hibernated(bench: Bench) -> Figure:
    await bench.worker()
    client = await bench.client(entity=EntityRun("", "", idle_seconds=0.2))
    form = Product(client)
    names = [bench.new_name("asleep") for _ in range(bench.scale.pick(25, 8))]
    handles = [client.agent("Counter", name) for name in names]
    for handle in handles:
        await handle.merge_state({"count": 0})
    for name in names:
        await form.handle(name).result()
    times = [await _seconds(handle) for handle in handles]
    return Figure(
        "wake of a hibernated agent",
        median(times) * 1e3,
        "ms",
        at_most=60,
        evidence=f"worst {number(max(times) * 1e3)} ms of {len(times)}",
    )


async def _evicted(bench: Bench) -> Figure:
    queue = bench.new_name("evicted")
    worker = await bench.start_worker(queue, "--max-cached", "1")
    client = await bench.client(queue, entity=EntityRun("", "", max_events=10 * _EVENTS))
    form = Product(client)
    cold, other = (client.agent("Counter", bench.new_name("evicted")) for _ in range(2))
    while (await _touch(form, cold)) < _EVENTS:
        pass
    times: list[float] = []
    warm: list[float] = []
    for _ in range(bench.scale.pick(15, 7)):
        await other.merge_state({"count": 1})
        times.append(await _seconds(cold))
        warm.append(await _seconds(cold))
    await worker.stop()
    return Figure(
        f"wake of an evicted agent of {_EVENTS} events",
        median(times),
        "s",
        at_most=0.2,
        evidence=f"worst {number(max(times))} s of {len(times)}; warm {number(median(warm))} s",
    )


async def _touch(form: Product, handle: AgentHandle) -> int:
    for _ in range(10):
        await handle.merge_state({"count": 1})
    return (await form.history(handle.ref.name)).events


async def _seconds(handle: AgentHandle) -> float:
    start = time.perf_counter()
    await handle.merge_state({"count": 1})
    return time.perf_counter() - start


ROW = Row("P14", "waking an agent", run)
