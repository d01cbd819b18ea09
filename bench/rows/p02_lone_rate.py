"""P2: the rate of a lone caller against an entity as written by hand."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, rate_ratio
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure one caller on one agent."""
    samples = await bench.one_agent(1)
    return [
        Figure(
            "lone mutation, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=3.5,
            evidence=describe(samples, "product", "by hand"),
        )
    ]


ROW = Row("P2", "lone mutation rate", run)
