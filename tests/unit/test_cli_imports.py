"""The program and its clients start fast: what is heavy is loaded when it is needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("temporalio", "pydantic", "aiosqlite", "httpx")
SCRIPT = f"import sys, agent_runtime.cli; print([m for m in {HEAVY} if m in sys.modules])"


def test_the_program_itself_loads_nothing_heavy() -> None:
    """`agent-runtime --help` pays for no SDK."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"


def test_a_client_loads_no_conversations() -> None:
    """It pays for their code when it asks an agent for one."""
    script = (
        "import sys; from agent_runtime import AgentClient; "
        "print([m for m in sys.modules if m.startswith('agent_runtime.session.')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stdout == "[]\n"
