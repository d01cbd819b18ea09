"""P5: 1,000 callers on one agent, all acknowledged."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, median_of, processor, rate_ratio
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure 1,000 callers on one agent."""
    samples = await bench.one_agent(1_000)
    ours = samples["product"]
    return [
        Figure(
            "one agent, 1,000 callers, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=100,
            evidence=describe(samples, "product", "by hand", "pure update"),
        ),
        Figure(
            "one agent, 1,000 callers, rate",
            median_of(ours, lambda sample: sample.load.rate),
            "ops/s",
            at_least=15_000,
            evidence=f"CPU ms/op server+worker+client: {processor(samples, 'product')}",
        ),
        Figure(
            "one agent, 1,000 callers, failed calls",
            sum(len(sample.load.errors) for sample in ours),
            "calls",
            at_most=0,
        ),
    ]


ROW = Row("P5", "one agent, 1,000 callers", run)
