"""G4: the real JavaScript client on our gateway and on the reference server, in turns."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path

from agent_runtime.temporal_server import free_port
from bench.support.bench import Bench
from bench.support.processes import ChildProcess
from bench.support.row import Figure, Row, SkipRow, number
from bench.support.statistics import median, median_ratio

_CLIENT = Path(__file__).parents[1] / "peers" / "wire_client.mjs"
_PACKAGES = Path(__file__).parents[2] / "tests" / "e2e" / "driver"
_REPETITIONS = 3

Measured = dict[str, tuple[str, list[float]]]
"""By name: "ms" or "/s", and one value per repetition."""


async def run(bench: Bench) -> list[Figure]:
    """Drive both servers in turns; skip without a reference server."""
    reference = bench.reference
    if reference is None:
        raise SkipRow("no reference server; start one and name it with --reference HOST:PORT")
    if shutil.which("node") is None or not (_PACKAGES / "node_modules").is_dir():
        raise SkipRow("no Node packages; `make test TIERS=e2e` installs them")
    await bench.worker()
    port = free_port()
    place = ["--address", bench.server.address, "--queue", "product"]
    place += ["--data-dir", str(bench.data_dir("product")), "--port", str(port)]
    gateway = ChildProcess("bench.gateway", place, bench.folder / "gateway.log")
    ours: Measured = {}
    theirs: Measured = {}
    try:
        await gateway.wait_ready()
        for _ in range(_REPETITIONS):
            await _measure(f"127.0.0.1:{port}", bench.scale.pick(2, 1), ours)
            await _measure(reference, bench.scale.pick(2, 1), theirs)
    finally:
        await gateway.stop()
    return [_figure(name, ours[name], theirs[name]) for name in ours]


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
        measured = json.loads(line)
        unit = "ms" if "milliseconds" in measured else "/s"
        value = measured["milliseconds" if unit == "ms" else "perSecond"]
        into.setdefault(measured["name"], (unit, []))[1].append(value)


def _figure(name: str, ours: tuple[str, list[float]], theirs: tuple[str, list[float]]) -> Figure:
    unit, values = ours
    evidence = f"{number(median(values))} {unit} against {number(median(theirs[1]))} {unit}"
    return Figure(f"{name} / reference server", median_ratio(values, theirs[1]), evidence=evidence)


ROW = Row("G4", "the reference server", run)
