"""P3: 10 callers on one agent against an entity as written by hand, ten updates in flight."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, rate_ratio
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure 10 callers on one agent."""
    samples = await bench.one_agent(10)
    return [
        Figure(
            "one agent, 10 callers, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=4,
            evidence=describe(samples, "product", "by hand", "pure update"),
        )
    ]


ROW = Row("P3", "one agent, 10 callers", run)
