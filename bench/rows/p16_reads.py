"""P16: reading the state, against a bare read of a row and against a workflow query."""

from __future__ import annotations

import time

from bench.peers.plain_transaction import PlainTransactions
from bench.support.bench import Bench
from bench.support.load import Submit
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio


async def run(bench: Bench) -> list[Figure]:
    """Read in turns with storage at hand, by hand, and over Temporal only."""
    await bench.worker()
    direct = (await bench.client(has_storage=True)).agent("Counter", "read")
    remote = (await bench.client()).agent("Counter", "read")
    await direct.merge_state({"count": 1})
    ours: list[float] = []
    plain: list[float] = []
    queries: list[float] = []
    async with PlainTransactions(bench.data_dir("product") / "read.db") as transactions:
        await transactions.increment("read", "one")
        for _ in range(bench.scale.pick(30, 10)):
            ours.append(await _seconds(direct.get_state, 100))
            plain.append(await _seconds(lambda: transactions.read("read"), 100))
            queries.append(await _seconds(remote.get_state, 5))
    return [
        Figure(
            "read by a client with storage / bare aiosqlite read",
            median_ratio(ours, plain),
            at_most=2,
            evidence=f"{_milliseconds(ours)} against {_milliseconds(plain)}",
        ),
        Figure(
            "read by a client with storage / read by query",
            median_ratio(ours, queries),
            at_most=0.1,
            evidence=f"{_milliseconds(ours)} against {_milliseconds(queries)}",
        ),
    ]


async def _seconds(read: Submit, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        await read()
    return (time.perf_counter() - start) / times


def _milliseconds(values: list[float]) -> str:
    return f"{number(median(values) * 1e3)} ms"


ROW = Row("P16", "reads", run)
