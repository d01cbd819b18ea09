"""The benchmark runs as documented."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RATIO_LINE = re.compile(
    r"^P16 +read by a client with storage / read by query +[\d.,]+ x +<= 0\.1 x +(ok|miss)"
)


async def _bench(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode(errors="replace")


async def test_a_quick_row_prints_its_ratio(tmp_path: Path) -> None:
    """One row starts its server and worker, measures, and prints figure, goal and verdict."""
    code, output = await _bench("P16", "--quick", "--folder", str(tmp_path / "run"))
    assert code == 0, output
    assert any(RATIO_LINE.match(line) for line in output.splitlines()), output


async def test_rows_are_named() -> None:
    """The list names every row once."""
    code, output = await _bench("--list")
    names = [line.split()[0] for line in output.splitlines()]
    assert (code, sorted(set(names))) == (0, sorted(names)), output
    assert {f"P{number}" for number in range(1, 17)} <= set(names)


async def test_an_unknown_row_is_refused() -> None:
    """A row that does not exist is named, and nothing is started."""
    code, output = await _bench("P99")
    assert (code, "no row P99" in output) == (2, True), output


async def test_a_missing_peer_is_skipped(tmp_path: Path) -> None:
    """A peer whose packages are not there costs one line and no failure."""
    code, output = await _bench(
        "DBOS", "--quick", "--folder", str(tmp_path / "run"), "--peers-python", "false"
    )
    assert (code, "skipped" in output) == (0, True), output
