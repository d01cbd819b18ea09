"""The demo of the README, at a size for tests."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.support.program import run_program

DEMO = Path(__file__).parents[2] / "examples" / "background_agent" / "demo.py"


async def test_the_demo_finds_everything_once(tmp_path: Path) -> None:
    """Its worker is killed, the run completes, and all its checks hold."""
    ran = await run_program(
        *(str(DEMO), "--files", "150", "--callers", "3"),
        cwd=tmp_path,
        command=(sys.executable,),
        variables={"TMPDIR": str(tmp_path), "COLUMNS": "120"},
        seconds=280,
    )

    assert ran.code == 0, ran
    assert len(re.findall(r"kill -9 of worker \d+", ran.out)) == 1
    assert "starting it again" in ran.out
    marks = re.findall(r"│ (ok|WRONG) +│", ran.out)
    assert marks == ["ok"] * 11
    assert os.listdir(tmp_path) == []
