"""`agent-runtime gateway`: what it says, how it ends, and what it refuses to start with."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.conftest import Serve
from tests.support.agents import Bare
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import next_frame
from tests.support.program import UNREACHABLE, Running, run_program, running

AGENTS = """
import asyncio

from agent_runtime import Agent, callable


class Bare(Agent):
    @callable()
    async def pause(self, seconds: float) -> str:
        await self.broadcast("begun")
        await asyncio.sleep(seconds)
        return "rested"
"""
TOKEN = "a-token-that-may-do-everything"


@asynccontextmanager
async def gateway(
    serve: Serve, folder: Path, *options: str, **variables: str
) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """Run a worker here and the program beside it; yields the run and the facts of its line."""
    (folder / "agents.py").write_text(AGENTS)
    async with serve(Bare) as served:
        place = ("--data-dir", str(served.data_dir), "--address", served.address)
        queue = ("--task-queue", served.task_queue)
        arguments = ("gateway", "agents.py", "--port", "0", *place, *queue, *options)
        async with running(*arguments, cwd=folder, variables=variables) as run:
            line = await run.line_with("READY ")
            yield run, dict(word.split("=", 1) for word in shlex.split(line)[1:])


async def test_it_serves_and_says_where(serve: Serve, tmp_path: Path) -> None:
    """State put over HTTP reaches a client's socket."""
    async with gateway(serve, tmp_path) as (_, facts):
        url = facts["gateway"]
        async with (
            connect(
                f"{url.replace('http', 'ws')}/agents/bare/a", proxy=None, open_timeout=60
            ) as socket,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http,
        ):
            await next_frame(socket, "cf_agent_mcp_servers")
            put = await http.put("/api/agents/Bare/a/state", json={"n": 1})
            frame = await next_frame(socket, "cf_agent_state")

    assert (put.status_code, frame["state"], facts["agents"]) == (200, {"n": 1}, "Bare")
    assert url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_0(serve: Serve, tmp_path: Path, number: int) -> None:
    """Clients are told 1012, on which they come back, and nothing is logged as a failure."""
    async with gateway(serve, tmp_path) as (run, facts):
        url = facts["gateway"].replace("http", "ws")
        async with connect(f"{url}/agents/bare/a", proxy=None, open_timeout=60) as socket:
            await next_frame(socket, "cf_agent_mcp_servers")
            code = await run.end(number)
            with pytest.raises(ConnectionClosed) as end:
                await socket.recv()

    assert end.value.rcvd is not None
    assert (code, end.value.rcvd.code) == (0, 1012)
    assert [line for line in run.lines if "ERROR" in line or "Traceback" in line] == []


@asynccontextmanager
async def joint_gateway(
    temporal: TemporalServer, folder: Path
) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """Run the program as gateway and worker in one."""
    (folder / "agents.py").write_text(AGENTS)
    place = ("--data-dir", str(folder / "data"), "--address", temporal.address)
    queue = ("--task-queue", f"test-{uuid4().hex[:12]}")
    arguments = ("gateway", "agents.py", "--with-worker", "--port", "0", *place, *queue)
    async with running(*arguments, cwd=folder) as run:
        line = await run.line_with("READY ")
        yield run, dict(word.split("=", 1) for word in shlex.split(line)[1:])


async def test_it_runs_the_agents_too_if_asked_to(temporal: TemporalServer, tmp_path: Path) -> None:
    """State and calls need no other process, and another client of the agents sees both."""
    async with joint_gateway(temporal, tmp_path) as (_, facts):
        queue = facts["task_queue"]
        async with (
            httpx.AsyncClient(base_url=facts["gateway"], trust_env=False, timeout=60) as http,
            await AgentClient.connect(temporal.address, task_queue=queue) as client,
        ):
            put = await http.put("/api/agents/Bare/a/state", json={"n": 1})
            called = await http.post("/api/agents/Bare/a/call/pause", json={"args": [0]})
            seen = await client.agent("Bare", "a").get_state()

    assert (put.status_code, called.json(), seen.value) == (200, {"result": "rested"}, {"n": 1})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_both_with_0(
    temporal: TemporalServer, tmp_path: Path, number: int
) -> None:
    """Sockets get 1012, and a call under way its answer, as the worker stops after the gateway."""
    async with joint_gateway(temporal, tmp_path) as (run, facts):
        url = facts["gateway"]
        async with (
            connect(f"{url.replace('http', 'ws')}/agents/bare/a", proxy=None) as socket,
            httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http,
        ):
            await next_frame(socket, "cf_agent_mcp_servers")
            call = asyncio.create_task(
                http.post("/api/agents/Bare/a/call/pause", json={"args": [0.2]})
            )
            while await socket.recv() != "begun":
                pass
            code = await run.end(number)
            with pytest.raises(ConnectionClosed) as end:
                while True:
                    await socket.recv()
            answer = await call

    assert end.value.rcvd is not None
    assert (code, end.value.rcvd.code) == (0, 1012)
    assert (answer.status_code, answer.json()) == (200, {"result": "rested"})
    assert [line for line in run.lines if "ERROR" in line or "Traceback" in line] == []


async def test_its_tokens_come_from_a_file(serve: Serve, tmp_path: Path) -> None:
    """Without one nothing is told; with one, everything."""
    (tmp_path / "tokens").write_text(f"full {TOKEN}\n")
    async with gateway(serve, tmp_path, "--token-file", "tokens", "--host", "0.0.0.0") as (
        _,
        facts,
    ):
        url = facts["gateway"].replace("0.0.0.0", "127.0.0.1")
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
            without = await http.get("/api/agents")
            given = await http.get("/api/agents", headers={"Authorization": f"Bearer {TOKEN}"})

    assert (without.status_code, given.status_code) == (401, 200)


async def test_its_tokens_come_from_variables(serve: Serve, tmp_path: Path) -> None:
    """A token is never in the output."""
    variables = {"AGENT_RUNTIME_GATEWAY_TOKENS": f"{TOKEN}, {TOKEN}-2"}
    async with gateway(serve, tmp_path, **variables) as (run, facts):
        async with httpx.AsyncClient(
            base_url=facts["gateway"], trust_env=False, timeout=60
        ) as http:
            headers = {"Authorization": f"Bearer {TOKEN}-2"}
            given = await http.get("/api/agents", headers=headers)
            wrong = await http.get("/api/agents?token=" + TOKEN)
        await run.end()

    assert (given.status_code, wrong.status_code) == (200, 401)
    assert TOKEN not in "\n".join(run.lines)


async def test_an_allowed_origin_and_a_folder(serve: Serve, tmp_path: Path) -> None:
    """Both options reach what they are for."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("<p>page")
    page = "https://page.example"
    options = ("--allow-origin", page, "--static", "page")
    async with (
        gateway(serve, tmp_path, *options) as (_, facts),
        httpx.AsyncClient(base_url=facts["gateway"], trust_env=False, timeout=60) as http,
    ):
        put = await http.put("/api/agents/Bare/a/state", json=1, headers={"Origin": page})
        shown = await http.get("/")

    assert (put.headers["access-control-allow-origin"], shown.text) == (page, "<p>page")


REFUSED = [
    (("--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines: give --token-file"),
    (("--token-file", "none"), "the token file none cannot be read"),
    (("--allow-origin", "example.com"), "'example.com' is no origin"),
    (("--static", "none"), "none is no folder"),
    (("--host", "192.0.2.1", "--token-file", "tokens"), "cannot listen on 192.0.2.1"),
    (("--port", "70000"), "AGENT_RUNTIME_GATEWAY_PORT=70000 is wrong"),
]


@pytest.mark.parametrize(("options", "reason"), REFUSED)
async def test_what_is_wrong_is_said_and_is_2(
    temporal: TemporalServer, tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    """It does not start in another way than it was asked to."""
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "tokens").write_text(f"full {TOKEN}\n")

    ran = await run_program(
        *("gateway", "agents.py", "--port", "0", "--address", temporal.address, *options),
        cwd=tmp_path,
    )

    assert (ran.code, reason in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err


async def test_without_temporal_it_is_alive_and_not_ready(tmp_path: Path) -> None:
    """It says so while the server is away, and serves again once it is back."""
    (tmp_path / "agents.py").write_text(AGENTS)
    async with TemporalServer(tmp_path / "temporal") as server:
        place = ("--address", server.address, "--data-dir", str(tmp_path / "data"))
        async with running("gateway", "agents.py", "--port", "0", *place, cwd=tmp_path) as run:
            line = await run.line_with("READY ")
            [url] = [word[8:] for word in shlex.split(line) if word.startswith("gateway=")]
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:

                async def is_ready() -> None:
                    assert (await http.get("/readyz")).status_code == 200

                await assert_eventually(is_ready)
                await server.stop()
                away = [await http.get("/readyz"), await http.get("/healthz")]
                await server.start()
                await assert_eventually(is_ready)

    assert [each.status_code for each in away] == [503, 200]
    assert away[0].json() == {"status": "not ready", "storage": "ok", "temporal": "unavailable"}


async def test_a_gateway_that_reaches_no_temporal_is_code_3(tmp_path: Path) -> None:
    """It ends, for whoever supervises it to try again."""
    (tmp_path / "agents.py").write_text(AGENTS)

    ran = await run_program(
        *("gateway", "agents.py", "--port", "0", "--address", UNREACHABLE), cwd=tmp_path
    )

    assert (ran.code, "TemporalUnreachableError" in ran.err) == (3, True), ran.err


async def test_missing_packages_are_named(tmp_path: Path) -> None:
    """The extra that brings them is in the message."""
    script = (
        "import sys, importlib.util as util; real = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'uvicorn' else real(name, *more)\n"
        "from agent_runtime.cli import main; sys.exit(main(['gateway', 'agents.py']))"
    )

    ran = await run_program("-c", script, cwd=tmp_path, command=(sys.executable,))

    assert (ran.code, 'pip install "temporal-agent-runtime[gateway]"' in ran.err) == (2, True)
