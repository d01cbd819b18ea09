"""DBOS, LangGraph and Restate doing the same job beside the product, in turns with it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

from bench.support.bench import Bench
from bench.support.forms import Product
from bench.support.load import Load, Submit
from bench.support.peer_process import PeerProcess
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio

_SHAPES = ((1, 1), (1, 100), (100, 1))


async def run(
    bench: Bench, *, name: str, script: str, needs: str, goals: tuple[float | None, ...]
) -> list[Figure]:
    """Compare rates of one caller, of 100 on one agent, and of one on each of 100 agents."""
    async with AsyncExitStack() as stack:
        peer = await stack.enter_async_context(
            PeerProcess(script, needs, bench.peers_python, bench.folder)
        )
        await bench.worker()
        form = Product(await bench.client())
        figures = []
        for (agents, callers), goal in zip(_SHAPES, goals, strict=True):
            bench.say(f"{name}: {agents} agents x {callers} callers")
            submits = [await form.open(bench.new_name("peer")) for _ in range(agents)]
            figures.append(await _compare(bench, peer, form, submits, callers, name, goal))
        return figures


async def _compare(
    bench: Bench,
    peer: PeerProcess,
    form: Product,
    submits: list[Submit],
    callers: int,
    name: str,
    goal: float | None,
) -> Figure:
    ours: list[Load] = []
    theirs: list[Load] = []
    for _ in range(bench.scale.repetitions):
        ours.append((await bench.sample(form, submits, callers)).load)
        theirs.append(await peer.measure(len(submits), callers, bench.scale.seconds))
    failed = sum(len(load.errors) for load in theirs)
    return Figure(
        f"{len(submits)} agents x {callers} callers, rate / {name}",
        median_ratio([load.rate for load in ours], [load.rate for load in theirs]),
        at_least=goal,
        evidence=f"product {_rate(ours)}; {name} {_rate(theirs)}"
        + (f", {failed} failed calls" if failed else ""),
    )


def _rate(loads: list[Load]) -> str:
    rate = median([load.rate for load in loads])
    p50 = median([load.p50 for load in loads]) * 1e3
    return f"{number(rate)}/s p50 {number(p50)} ms"


ROWS = [
    Row(
        "DBOS",
        "the same job by DBOS, SQLite",
        partial(run, name="DBOS", script="dbos_peer", needs="dbos", goals=(0.65, 30, 1.3)),
    ),
    Row(
        "LANGGRAPH",
        "the same job by LangGraph, SQLite",
        partial(
            run,
            name="LangGraph",
            script="langgraph_peer",
            needs="langgraph.checkpoint.sqlite.aio",
            goals=(None, 15, None),
        ),
    ),
    Row(
        "RESTATE",
        "the same job by Restate into SQLite",
        partial(
            run,
            name="Restate",
            script="restate_peer",
            needs="restate, hypercorn, aiohttp",
            goals=(0.45, 18, 0.33),
        ),
    ),
]
