"""P8: what the product costs over the bare prototype, which does nothing but the job."""

from __future__ import annotations

from bench.support.bench import Bench
from bench.support.compare import describe, latency_ratio, processor, rate_ratio
from bench.support.row import Figure, Row


async def run(bench: Bench) -> list[Figure]:
    """Compare latency alone and rate at 1, 10, 100 and 1,000 callers on one agent."""
    lone = await bench.one_agent(1)
    figures = [
        Figure(
            "lone mutation, latency / bare prototype",
            latency_ratio(lone, "product", "prototype"),
            at_most=1.15,
            evidence=describe(lone, "product", "prototype"),
        )
    ]
    for callers in (1, 10, 100, 1_000):
        samples = await bench.one_agent(callers)
        figures.append(
            Figure(
                f"{callers:,} callers, time per operation / bare prototype",
                rate_ratio(samples, "prototype", "product"),
                at_most=1.15,
                evidence=f"{describe(samples, 'product', 'prototype')}; CPU ms/op "
                f"server+worker+client: {processor(samples, 'product', 'prototype')}",
            )
        )
    return figures


ROW = Row("P8", "product over bare prototype", run)
