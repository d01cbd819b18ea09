"""P7: 100 agents with ten callers each."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, rate_ratio
from bench.support.many_agents import many_agents
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure ten callers on each of 100 agents."""
    samples = await many_agents(bench, 100, 10)
    return [
        Figure(
            "100 agents x 10 callers, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=7,
            evidence=describe(samples, "product", "by hand", "prototype"),
        )
    ]


ROW = Row("P7", "100 agents, ten callers each", run)
