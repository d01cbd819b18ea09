"""P6: 100 agents with one caller each."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, processor, rate_ratio
from bench.support.many_agents import many_agents
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Measure one caller on each of 100 agents."""
    samples = await many_agents(bench, 100, 1)
    return [
        Figure(
            "100 agents x 1 caller, rate / hand-written entity",
            rate_ratio(samples, "product", "by hand"),
            at_least=1.8,
            evidence=describe(samples, "product", "by hand"),
        ),
        Figure(
            "100 agents x 1 caller, rate / pure-update floor",
            rate_ratio(samples, "product", "pure update"),
            at_least=0.7,
            evidence=f"{describe(samples, 'pure update', 'prototype')}; "
            "CPU ms/op server+worker+client: "
            + processor(samples, "product", "prototype", "pure update"),
        ),
    ]


ROW = Row("P6", "100 agents, one caller each", run)
