"""H1: a handler's own writes, against the same transaction by hand."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio


async def run(bench: Bench) -> list[Figure]:
    """Let a handler set the state and do the same by hand, in turns, in one process."""
    await bench.worker()
    client = await bench.client()
    times = bench.scale.pick(1_000, 300)
    agent = client.agent("Counter", bench.new_name("handler"))
    ours, plain = await agent.call("compare_writes", str(bench.data_dir("product")), times)
    return [
        Figure(
            "set_state in a handler / plain aiosqlite transaction",
            median_ratio(ours, plain),
            at_most=2,
            evidence=f"{number(median(ours) * 1e3)} ms against {number(median(plain) * 1e3)} ms",
        )
    ]


ROW = Row("H1", "writes of a handler", run)
