"""A served gateway, and the real JavaScript client to drive it with."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.gateway import feed
from agent_runtime.http_message import Request
from agent_runtime.identity import AgentRef
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.runtime import AgentRuntime
from tests.e2e.agents import AGENTS
from tests.support import npm
from tests.support.gateway_server import GatewayServer

DRIVER = Path(__file__).parent / "driver"
DRIVER_NEWEST = Path(__file__).parent / "driver-newest"


def custom_route(request: Request) -> AgentRef | None:
    """The application's own rules of the recordings, beside those of the router."""
    path = request.path.split("/")
    if path[1] == "custom-counter":
        return AgentRef("CounterAgent", path[2])
    if path[1] == "by-query":
        return AgentRef("CounterAgent", f"chosen-{request.query['who'][0]}")
    return AgentRef("CounterAgent", "auth-user") if path[1] == "user" else None


@pytest.fixture(scope="session")
async def runtime(
    temporal: TemporalServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AgentRuntime]:
    """A worker of all agents of the recordings."""
    async with await AgentRuntime.start(
        AGENTS,
        data_dir=tmp_path_factory.mktemp("e2e") / "data",
        address=temporal.address,
        task_queue=f"e2e-{uuid4().hex[:12]}",
    ) as started:
        yield started


@pytest.fixture(scope="session")
async def gateway(runtime: AgentRuntime) -> AsyncIterator[GatewayServer]:
    """A gateway that reaches the agents through Temporal, as one does in a process of its own."""
    temporal = runtime.client.temporal.service_client.config.target_host
    async with (
        await AgentClient.connect(
            temporal, storage=runtime.storage, task_queue=runtime.client.task_queue
        ) as client,
        GatewayServer(client, AGENTS, cors=True, resolve=custom_route) as server,
    ):
        yield server


@pytest.fixture
def unhurried_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the gateway wait long for a writer to be quiet: a slow machine is no quiet writer."""
    monkeypatch.setattr(feed, "_ECHO_SECONDS", 3.0)


@pytest.fixture(scope="session")
async def joint_gateway(runtime: AgentRuntime) -> AsyncIterator[GatewayServer]:
    """A gateway that reaches the agents as it does in the worker's process."""
    async with GatewayServer(runtime.client, AGENTS, cors=True, resolve=custom_route) as server:
        yield server


class Driver:
    """Runs scripts with the real client, from npm, on Node."""

    def __init__(self, node: str, folder: Path) -> None:
        self._node = node
        self._folder = folder

    async def start_shell(self) -> asyncio.subprocess.Process:
        """Start a process that runs snippets."""
        return await asyncio.create_subprocess_exec(
            self._node,
            "shell.mjs",
            cwd=self._folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )

    async def bundle(self, page: str, target: Path) -> None:
        """Put a page of `driver/` and all that it imports into one script."""
        program = str(self._folder / "node_modules" / ".bin" / "esbuild")
        options = ["--bundle", "--format=esm", "--jsx=automatic", f"--outfile={target}"]
        await self._run(program, page, *options)

    async def run(self, script: str, *arguments: str) -> str:
        """Run a script of `driver/` to its end and return what it printed."""
        return await self._run(self._node, script, *arguments)

    async def _run(self, *command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, errors.decode()[-3000:]
        return output.decode()

    async def record(
        self, scenario: str, host: str, folder: Path, *, pace: int = 1
    ) -> list[dict[str, Any]]:
        """Play a scenario, its pauses longer by a factor, and return its record."""
        options = ["--host", host, "--out", str(folder), "--pace", str(pace)]
        await self.run("record.mjs", *options, scenario)
        return read_record(folder / f"{scenario}.jsonl")


class Shell:
    """A Node process in which snippets drive the real client.

    A snippet is the body of an async function; see `driver/shell.mjs` for what it may use.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._runs = itertools.count(1)
        self.host = ""

    async def run(self, snippet: str, /, **values: Any) -> Any:
        """Run a snippet with values as constants, and return what it returns."""
        assert self._process.stdin is not None and self._process.stdout is not None
        constants = "".join(
            f"const {name} = {json.dumps(value)};" for name, value in values.items()
        )
        command = {"id": next(self._runs), "host": self.host, "code": constants + snippet}
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        answer = json.loads(await asyncio.wait_for(self._process.stdout.readline(), 200))
        assert answer["id"] == command["id"]
        assert "error" not in answer, answer["error"]
        return answer["value"]


def read_record(path: Path) -> list[dict[str, Any]]:
    """Read a record, one entry per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="session")
async def driver() -> Driver:
    """The driver, with its packages installed beside it on first use."""
    await npm.install(DRIVER)
    return Driver(npm.need_node(), DRIVER)


@pytest.fixture(scope="session")
async def newest_driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    """The same driver with the newest release of the client."""
    await npm.install(DRIVER_NEWEST)
    folder = tmp_path_factory.mktemp("driver")
    for script in DRIVER.glob("*.mjs"):
        # Node finds packages from where a script really is, so a link would find the other release.
        shutil.copy(script, folder)
    (folder / "node_modules").symlink_to(DRIVER_NEWEST / "node_modules")
    return Driver(npm.need_node(), folder)


@pytest.fixture(scope="session")
async def shell_process(driver: Driver) -> AsyncIterator[asyncio.subprocess.Process]:
    """One Node process for all snippets."""
    process = await driver.start_shell()
    yield process
    process.kill()
    await process.communicate()


@pytest.fixture
async def shell(
    shell_process: asyncio.subprocess.Process, gateway: GatewayServer
) -> AsyncIterator[Shell]:
    """Runs snippets at the gateway; their clients are closed when the test ends."""
    opened = Shell(shell_process)
    opened.host = gateway.host
    yield opened
    await opened.run("closeAll()")
