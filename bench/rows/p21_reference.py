"""G4: the real JavaScript client on our gateway, apart and in the worker's process, in turns.

And on the reference server, where one runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

from agent_runtime.local.temporal_server import free_port
from bench.support.bench import Bench
from bench.support.processes import ChildProcess
from bench.support.row import Figure, Row, SkipRow, number
from bench.support.statistics import median, median_ratio

APART, JOINT, REFERENCE = "through Temporal", "one process", "reference server"

_CLIENT = Path(__file__).parents[1] / "peers" / "wire_client.mjs"
_PACKAGES = Path(__file__).parents[2] / "tests" / "e2e" / "driver"
_REPETITIONS = 3

Measured = dict[str, list[float]]
"""By what was measured and its unit, "a call, ms": a value per repetition."""


async def run(bench: Bench) -> list[Figure]:
    """Drive all servers in turns."""
    if shutil.which("node") is None or not (_PACKAGES / "node_modules").is_dir():
        raise SkipRow("no Node packages; `make test TIERS=e2e` installs them")
    await bench.worker()
    measured: dict[str, Measured] = defaultdict(dict)
    async with AsyncExitStack() as stack:
        hosts = {
            APART: await _gateway(bench, stack, "product"),
            JOINT: await _gateway(bench, stack, "joint", "--with-worker"),
        }
        if bench.reference is not None:
            hosts[REFERENCE] = bench.reference
        for _ in range(_REPETITIONS):
            for form, host in hosts.items():
                await _measure(host, bench.scale.pick(2, 1), measured[form])
    pairs = [(JOINT, APART), (APART, REFERENCE), (JOINT, REFERENCE)]
    return [
        _figure(what, (form, values), (peer, measured[peer][what]))
        for form, peer in pairs
        if peer in measured
        for what, values in measured[form].items()
    ]


async def _gateway(bench: Bench, stack: AsyncExitStack, name: str, *options: str) -> str:
    """Start a gateway of an installation and return where it listens."""
    port = free_port()
    data_dir = bench.data_dir(name)
    place = ["--address", bench.server.address, "--queue", name, "--data-dir", str(data_dir)]
    log = bench.folder / f"gateway-{name}.log"
    process = ChildProcess("bench.gateway", [*place, "--port", str(port), *options], log)
    stack.push_async_callback(process.stop)
    await process.wait_ready()
    return f"127.0.0.1:{port}"


async def _measure(host: str, scale: int, into: Measured) -> None:
    process = await asyncio.create_subprocess_exec(
        "node",
        "--input-type=module",
        "--eval",
        _CLIENT.read_text(),
        cwd=_PACKAGES,
        env={**os.environ, "HOST": host, "SCALE": str(scale)},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 240)
    for line in output.decode().splitlines():
        fields = json.loads(line)
        unit, field = ("ms", "milliseconds") if "milliseconds" in fields else ("/s", "perSecond")
        into.setdefault(f"{fields['name']}, {unit}", []).append(fields[field])


def _figure(what: str, ours: tuple[str, list[float]], peer: tuple[str, list[float]]) -> Figure:
    name, _, unit = what.rpartition(", ")
    evidence = " against ".join(f"{number(median(values))} {unit}" for _, values in (ours, peer))
    rate = ", rate" if unit == "/s" else ""
    return Figure(
        f"{name}{rate}, {ours[0]} / {peer[0]}",
        median_ratio(ours[1], peer[1]),
        evidence=evidence,
    )


ROW = Row("G4", "the stock client, both forms and the reference server", run)
