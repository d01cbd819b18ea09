"""`agent-runtime worker` as a process: what it says, and how it ends."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from uuid import uuid4

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.program import Running, run_program, running

ROOT = Path(__file__).parents[2]
AGENTS = """
import asyncio
import time

from agent_runtime import Agent, callable


class Notes(Agent):
    @callable()
    def block(self) -> None:
        print("blocking", flush=True)
        time.sleep(60)


class Slow(Agent):
    async def on_start(self) -> None:
        print("starting slowly", flush=True)
        await asyncio.sleep(60)
"""


class Place:
    """Where a worker runs: module, data directory and task queue of its own."""

    def __init__(self, temporal: TemporalServer, folder: Path, client: AgentClient) -> None:
        self.folder = folder
        self.address = temporal.address
        self.client = client

    def worker(self, *arguments: str, **variables: str) -> AbstractAsyncContextManager[Running]:
        """Start `agent-runtime worker`."""
        own = {
            "TEMPORAL_ADDRESS": self.address,
            "AGENT_RUNTIME_TASK_QUEUE": self.client.task_queue,
            "AGENT_RUNTIME_DATA_DIR": str(self.folder / "my data"),
        }
        return running("worker", *arguments, cwd=self.folder, variables={**own, **variables})


@pytest.fixture
async def place(temporal: TemporalServer, tmp_path: Path) -> AsyncIterator[Place]:
    """A fresh place, and a client of it."""
    (tmp_path / "my_agents.py").write_text(AGENTS)
    task_queue = f"test-{uuid4().hex[:12]}"
    async with await AgentClient.connect(temporal.address, task_queue=task_queue) as client:
        yield Place(temporal, tmp_path, client)


async def test_ready_tells_what_is_served(place: Place) -> None:
    """One line with all that matters, for people and scripts."""
    async with place.worker("my_agents.py") as worker:
        line = await worker.line_with("READY")

    facts = dict(part.split("=", 1) for part in shlex.split(line)[1:])
    assert (facts["agents"], facts["temporal"]) == ("Notes,Slow", place.address)
    assert facts["data_dir"] == str(place.folder / "my data")


@pytest.mark.parametrize("module", ["my_agents.py:Notes", "my_agents:Notes"])
async def test_one_class_of_a_module_is_served(place: Place, module: str) -> None:
    """A file or dotted name with :Class serves that class alone."""
    async with place.worker(module) as worker:
        line = await worker.line_with("READY")

    assert "agents=Notes " in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_under_load_ends_it_quickly_with_0(place: Place, number: int) -> None:
    """Callers are at work all the time; whatever they wait for is done by the next worker."""
    done = asyncio.Event()

    async def change(name: str) -> None:
        while not done.is_set():
            await place.client.agent("Notes", name).set_state({"at": time.time()})

    async with place.worker("my_agents.py") as worker:
        await worker.line_with("READY")
        callers = [asyncio.create_task(change(f"n-{each % 4}")) for each in range(12)]
        await place.client.agent("Notes", "n-0").set_state({"at": 0})
        started = time.monotonic()
        code = await worker.end(number)
        seconds = time.monotonic() - started
    done.set()
    async with place.worker("my_agents.py") as worker:
        await worker.line_with("READY")
        await asyncio.gather(*callers)

    assert code == 0
    assert seconds < 20


async def test_a_blocking_handler_does_not_hold_up_the_end(place: Place) -> None:
    """A thread that sleeps for a minute is left behind."""
    async with place.worker("my_agents.py") as worker:
        await worker.line_with("READY")
        await place.client.agent("Notes", "n").start_call("block")
        await worker.line_with("blocking")

        code = await worker.end(seconds=45)

    assert code == 0


async def test_a_second_signal_ends_it_at_once(place: Place) -> None:
    """Who does not want to wait for the grace need not."""
    async with place.worker("my_agents.py", AGENT_RUNTIME_SHUTDOWN_GRACE_SECONDS="60") as worker:
        await worker.line_with("READY")
        change = asyncio.create_task(place.client.agent("Slow", "s").set_state(1))
        await worker.line_with("starting slowly")
        worker.process.send_signal(signal.SIGTERM)
        await worker.line_with("stopping")

        code = await worker.end(signal.SIGTERM, seconds=45)
        change.cancel()

    assert code == 128 + signal.SIGTERM


async def test_a_tethered_worker_ends_with_its_parent(place: Place) -> None:
    """Its stdin is closed here from the start."""
    async with place.worker("my_agents.py", "--tethered") as worker:

        async def check() -> None:
            assert worker.process.returncode == 0

        await assert_eventually(check)


async def test_logs_are_json_where_asked(place: Place) -> None:
    """AGENT_RUNTIME_LOG_FORMAT=json makes each record an object."""
    async with place.worker("my_agents.py", AGENT_RUNTIME_LOG_FORMAT="json") as worker:
        await worker.line_with("READY")
        await worker.end()

    [record] = [line for line in worker.lines if '"message": "stopping"' in line]
    assert '"level": "info"' in record


async def test_worker_py_in_the_root_is_the_same_program() -> None:
    """`python worker.py` does what `agent-runtime` does."""
    command = (sys.executable, str(ROOT / "worker.py"))

    ran = await run_program("--version", cwd=ROOT, command=command)

    assert (ran.code, ran.out.split()[0]) == (0, "agent-runtime")
