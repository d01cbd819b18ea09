"""G1 to G3: live clients, against a bare ASGI server that passes the same frames on."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_runtime.local.temporal_server import free_port
from bench.support.bench import Bench
from bench.support.processes import ChildProcess
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio, quantile
from bench.support.wire import Room

FAN_OUT = 1_000
PEERS = 20


@asynccontextmanager
async def _servers(bench: Bench) -> AsyncIterator[tuple[int, int]]:
    """Run the gateway and the bare server, each a process; return their ports."""
    await bench.worker()
    ours, bare = free_port(), free_port()
    place = ["--address", bench.server.address, "--queue", "product"]
    place += ["--data-dir", str(bench.data_dir("product")), "--port", str(ours)]
    gateway = ChildProcess("bench.gateway", place, bench.folder / "gateway.log")
    floor = ChildProcess(
        "bench.peers.bare_asgi", ["--port", str(bare)], bench.folder / "bare_asgi.log"
    )
    async with contextlib.AsyncExitStack() as stack:
        for process in (gateway, floor):
            stack.push_async_callback(process.stop)
            await process.wait_ready()
        yield ours, bare


async def fan_out(bench: Bench) -> list[Figure]:
    """Let one client write and a thousand watch; take turns with the bare server."""
    watchers = bench.scale.pick(FAN_OUT, 200)
    ours: list[float] = []
    bare: list[float] = []
    bench.say(f"{watchers} clients of one agent")
    async with (
        _servers(bench) as (port, floor),
        Room(port, bench.new_name("fan"), watchers) as product,
        Room(floor, "fan", watchers) as peer,
    ):
        for count in range(1, bench.scale.pick(30, 10) + 1):
            ours.append(max(await product.set_state(count)))
            bare.append(max(await peer.set_state(count)))
    return [
        Figure(
            f"a state to the last of {watchers} clients / bare ASGI server",
            median_ratio(ours, bare),
            at_most=1.5,
            evidence=f"{_ms(ours)} against {_ms(bare)}",
        )
    ]


async def calls(bench: Bench) -> list[Figure]:
    """Call a method that does nothing, one call after the other."""
    async with (
        _servers(bench) as (port, floor),
        Room(port, bench.new_name("rpc"), 0) as product,
        Room(floor, "rpc", 0) as peer,
    ):
        ours = [await product.call("pause", 0) for _ in range(bench.scale.pick(300, 50))]
        bare = [await peer.call("pause", 0) for _ in range(bench.scale.pick(300, 50))]
    return [
        Figure("a call by a client, durable, round trip", median(ours) * 1e3, "ms"),
        Figure(
            "a call by a client / bare ASGI server",
            median(ours) / median(bare),
            evidence=f"{_ms(ours)} against {_ms(bare)}, which keeps nothing",
        ),
    ]


async def stalled(bench: Bench) -> list[Figure]:
    """Compare what others wait with and without one client that does not read."""
    rounds = bench.scale.pick(200, 40)
    padding = "x" * 20_000
    alone: list[float] = []
    beside: list[float] = []
    async with (
        _servers(bench) as (port, _),
        Room(port, bench.new_name("stall"), PEERS, agent="board") as free,
        Room(port, bench.new_name("stall"), PEERS, stalled=1, agent="board") as held,
    ):
        for count in range(1, rounds + 1):
            alone += await free.set_state(count, padding=padding)
            beside += await held.set_state(count, padding=padding)
    return [
        Figure(
            "p99 beside a client that does not read / without it",
            quantile(beside, 0.99) / quantile(alone, 0.99),
            at_most=1.2,
            evidence=f"p50 {_ms(beside)} against {_ms(alone)}",
        )
    ]


def _ms(values: list[float]) -> str:
    return f"{number(median(values) * 1e3)} ms"


ROWS = [
    Row("G1", "fan-out", fan_out),
    Row("G2", "calls by clients", calls),
    Row("G3", "a stalled client", stalled),
]
