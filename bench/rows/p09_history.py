"""P9: how much workflow history a mutation costs."""

from __future__ import annotations

import asyncio

from bench.support.bench import Bench
from bench.support.forms import HistorySize, Product
from bench.support.load import Submit
from bench.support.row import Figure, Row

_ALONE = 40
_CALLERS = 100
_EACH = 25


async def run(bench: Bench) -> list[Figure]:
    """Count events and bytes of lone mutations, then of many callers', within one run each."""
    await bench.worker()
    form = Product(await bench.client())
    alone = await _cost(form, bench.new_name("history"), callers=1, each=_ALONE)
    many = await _cost(form, bench.new_name("history"), callers=_CALLERS, each=_EACH)
    return [
        Figure("history per lone mutation", alone[0], "events", at_most=6),
        Figure("history per lone mutation, bytes", alone[1] / 1024, "KiB", at_most=1.3),
        Figure("history per operation, 100 callers", many[0], "events", at_most=0.1),
        Figure("history per operation, 100 callers, bytes", many[1], "bytes", at_most=160),
    ]


async def _cost(form: Product, agent: str, *, callers: int, each: int) -> tuple[float, float]:
    submit = await form.open(agent)
    before = await form.history(agent)
    await asyncio.gather(*(_repeat(submit, each) for _ in range(callers)))
    after = await form.history(agent)
    await form.close(agent)
    if before.run_id != after.run_id:
        raise RuntimeError("the agent went over to its next run while its history was measured")
    return _per_operation(before, after, callers * each)


def _per_operation(before: HistorySize, after: HistorySize, count: int) -> tuple[float, float]:
    return (after.events - before.events) / count, (after.size - before.size) / count


async def _repeat(submit: Submit, times: int) -> None:
    for _ in range(times):
        await submit()


ROW = Row("P9", "history", run)
