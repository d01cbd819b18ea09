"""The HTTP API keeps what its OpenAPI document promises, whatever it is sent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_runtime.gateway.limits import Limits
from tests.conftest import Serve
from tests.support.agents import Bare, Calls, Counter
from tests.support.chat_agent import Chat
from tests.support.child_process import ROOT
from tests.support.live_gateway import live_gateway
from tests.support.npm import missing
from tests.support.program import run_program

OWN = ROOT / ".venv-schema" / "bin" / "schemathesis"
PROGRAM = str(OWN) if OWN.is_file() else shutil.which("schemathesis")

SECONDS = 900

HOOKS = '''
import schemathesis


@schemathesis.serializer("application/jsonl")
def lines(context, value):
    """Lines are generated as texts."""
    return value if isinstance(value, bytes) else str(value).encode(errors="surrogatepass")
'''
"""What the program does not know by itself, as a module of its own environment."""


@pytest.mark.timeout(SECONDS + 60)
async def test_generated_requests_get_documented_answers(serve: Serve, tmp_path: Path) -> None:
    """Statuses, content types and bodies are as documented; nothing wrong is accepted."""
    if PROGRAM is None:
        missing("schemathesis is not there; `make test` installs it in an environment of its own")
    # Whether a sound request is accepted depends on the state, which the document cannot know.
    options = ("--exclude-checks", "positive_data_acceptance", "--max-examples", "10")
    (tmp_path / "hooks.py").write_text(HOOKS)
    # It sends as fast as it can.
    limits = Limits(requests_per_second=1_000_000)
    async with live_gateway(serve, Bare, Calls, Chat, Counter, limits=limits) as live:
        ran = await run_program(
            *("run", f"{live.url}/openapi.json", "--seed", "1", "--no-color", *options),
            cwd=tmp_path,
            command=(PROGRAM,),
            variables={"PYTHONPATH": "", "SCHEMATHESIS_HOOKS": str(tmp_path / "hooks.py")},
            seconds=SECONDS,
        )

    assert ran.code == 0, ran.out
