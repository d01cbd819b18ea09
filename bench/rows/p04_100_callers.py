"""P4: 100 callers on one agent against an entity as written by hand, ten updates in flight."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, rate_ratio
from bench.support.row import Figure, Row
from bench.support.statistics import median_ratio


async def run(bench: Bench) -> list[Figure]:
    """Measure 100 callers on one agent, and a lone one for its latency."""
    lone = await bench.one_agent(1)
    samples = await bench.one_agent(100)
    return [
        Figure(
            "one agent, 100 callers, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=35,
            evidence=describe(samples, "product", "by hand", "pure update"),
        ),
        Figure(
            "one agent, 100 callers, p99 / p50 of a lone call",
            median_ratio(
                [sample.load.p99 for sample in samples["product"]],
                [sample.load.p50 for sample in lone["product"]],
            ),
            at_most=3,
        ),
    ]


ROW = Row("P4", "one agent, 100 callers", run)
