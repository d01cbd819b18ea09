"""The program starts fast because it loads what is heavy when a command needs it."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("temporalio", "pydantic", "aiosqlite", "httpx")
SCRIPT = f"import sys, agent_runtime.cli; print([m for m in {HEAVY} if m in sys.modules])"


def test_the_program_itself_loads_nothing_heavy() -> None:
    """`agent-runtime --help` pays for no SDK."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
