"""P1: what a lone mutation takes over an update that changes memory only."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, latency_ratio, processor
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure one caller on one agent."""
    samples = await bench.one_agent(1)
    names = ("product", "pure update")
    return [
        Figure(
            "lone mutation, latency / pure-update floor",
            latency_ratio(samples, *names),
            at_most=1.7,
            evidence=f"{describe(samples, *names)}; CPU ms/op server+worker+client: "
            f"{processor(samples, *names)}",
        )
    ]


ROW = Row("P1", "lone mutation latency", run)
