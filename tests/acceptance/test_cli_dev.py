"""`agent-runtime dev`: one command, everything, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.json_value import Json
from agent_runtime.local.temporal_server import HOST, is_port_free
from tests.support.eventually import assert_eventually
from tests.support.program import Running, run_program, running

AGENTS = """
from agent_runtime import Agent, callable


class Notes(Agent):
    @callable()
    async def add(self, text: str) -> int:
        await self.sql("CREATE TABLE IF NOT EXISTS notes (id INTEGER, text TEXT)")
        await self.sql("INSERT INTO notes SELECT COUNT(*) + 1, ? FROM notes", text)
        [row] = await self.sql("SELECT MAX(id) AS id FROM notes")
        return row["id"]
"""


CLUSTER = "postgres/cluster"
FREE_PORTS = ("--port", "0", "--ui-port", "0", "--gateway-port", "0")


class Dev:
    """A running `agent-runtime dev` and what it said of itself."""

    def __init__(self, run: Running, folder: Path) -> None:
        self.run = run
        self.folder = folder
        self.port = 0
        self.worker_pid = 0
        self.gateway = ""

    async def read_start(self) -> None:
        """Read on until everything runs."""
        await self.read_worker()
        line = await self.run.line_with("Temporal ")
        self.port = int(line.split()[1].rpartition(":")[2])
        line = await self.run.line_with("gateway  ")
        self.gateway = line.split()[1]
        await self.run.line_with("Ctrl-C stops everything")

    async def read_worker(self) -> None:
        """Read on until a worker is ready."""
        while (line := await self.run.line_with("is ready")).split()[0] != "worker":
            pass  # the gateway is ready too, sooner or later
        self.worker_pid = int(line.split()[1])

    def server_pid(self, place: str = "temporal.db") -> int:
        """Return the Temporal server's process, from the process table, or another's by a file."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if str(self.folder / place).encode() in command:
                    return int(folder.name)
        return 0


@asynccontextmanager
async def dev(folder: Path, *options: str) -> AsyncIterator[Dev]:
    """Start it on free ports, with its data in a folder with a space in its name."""
    (folder / "notes.py").write_text(AGENTS)
    data_dir = folder / "my data"
    arguments = (*FREE_PORTS, "--data-dir", str(data_dir), *options)
    async with running("dev", "notes.py", *arguments, cwd=folder) as run:
        yield Dev(run, data_dir)


def client_of(started: Dev) -> httpx.AsyncClient:
    """Return a client of its gateway, for use as a context; as patient as the gateway itself."""
    return httpx.AsyncClient(base_url=started.gateway, trust_env=False, timeout=60)


def is_alive(pid: int) -> bool:
    """Tell whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")


async def test_it_says_what_runs_where(tmp_path: Path) -> None:
    """Address, page, data, agents, task queue and logs are printed."""
    async with dev(tmp_path) as started:
        await started.read_start()

    text = "\n".join(started.run.lines)
    names = (
        "Temporal UI  http://",
        "agents       Notes",
        "task queue   agent-runtime",
        "gateway      http://127.0.0.1:",
        "worker.log",
    )
    assert [name for name in names if name not in text] == []
    assert str(started.folder / "agents.db") in text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_everything_with_0(tmp_path: Path, number: int) -> None:
    """Worker and server are gone when it has ended."""
    async with dev(tmp_path) as started:
        await started.read_start()

        code = await started.run.end(number)

    assert (code, is_alive(started.worker_pid)) == (0, False)
    assert is_port_free(started.port)


FORMS = [((), "worker"), (("--gateway-apart",), "gateway")]


@pytest.mark.parametrize(("options", "process"), FORMS, ids=["in the worker", "apart"])
async def test_its_gateway_serves_and_is_brought_back(
    tmp_path: Path, options: tuple[str, ...], process: str
) -> None:
    """At the same address after the process that it lives in was killed."""
    async with dev(tmp_path, *options) as started:
        await started.read_start()
        async with client_of(started) as http:
            put = await http.put("/api/agents/Notes/n/state", json=1)
            ready = [line.split() for line in started.run.lines if line.endswith("is ready")]
            os.kill(next(int(words[1]) for words in ready if words[0] == process), signal.SIGKILL)
            await started.run.line_with(f"the {process} was killed by signal 9; starting it again")
            await started.run.line_with("is ready")
            got = await http.get("/api/agents/Notes/n/state")

    assert (put.status_code, got.json()) == (200, 1)


async def test_its_gateway_runs_apart_if_asked_to(tmp_path: Path) -> None:
    """It outlives the worker then, and has a log of its own."""
    async with dev(tmp_path, "--gateway-apart") as started:
        await started.read_start()
        os.kill(started.worker_pid, signal.SIGKILL)
        async with client_of(started) as http:
            put = await http.put("/api/agents/Notes/n/state", json=1)

        assert (started.folder / "gateway.log").read_text().startswith("READY gateway=")

    assert put.status_code == 200


async def test_its_gateway_serves_files(tmp_path: Path) -> None:
    """`--static` is the gateway's; its folder is where the command was given."""
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("the page")
    async with dev(tmp_path, "--static", "page") as started:
        await started.read_start()
        async with client_of(started) as http:
            got = await http.get("/")

    assert (got.status_code, got.text) == (200, "the page")


async def test_a_killed_worker_is_brought_back(tmp_path: Path) -> None:
    """It says so, and agents answer again."""
    async with dev(tmp_path) as started:
        await started.read_start()
        os.kill(started.worker_pid, signal.SIGKILL)
        await started.run.line_with("was killed by signal 9; starting it again in 0.2 s")
        await started.read_worker()

        async with await AgentClient.connect(f"{HOST}:{started.port}") as client:
            receipt = await client.agent("Notes", "n").set_state(1)

    assert receipt.version == 1


async def test_the_pause_before_a_restart_grows(tmp_path: Path) -> None:
    """A worker that dies again and again is not started without end."""
    async with dev(tmp_path) as started:
        await started.read_start()
        for pause in ("0.2", "0.4", "0.8"):
            os.kill(started.worker_pid, signal.SIGKILL)
            await started.run.line_with(f"starting it again in {pause} s")
            await started.read_worker()


@needs_proc
async def test_a_killed_server_is_said_and_brought_back(tmp_path: Path) -> None:
    """State set before and after is there: its data is on disk."""
    async with dev(tmp_path) as started:
        await started.read_start()
        os.kill(started.server_pid(), signal.SIGKILL)
        await started.run.line_with("the Temporal server died; starting it again")
        await started.run.line_with("answers again")

        async with await AgentClient.connect(f"{HOST}:{started.port}") as client:
            receipt = await client.agent("Notes", "n").set_state(1)

    assert receipt.version == 1


@needs_proc
async def test_a_killed_dev_leaves_nothing_for_long(tmp_path: Path) -> None:
    """Its worker ends by itself, and the next dev in the directory ends its server."""
    async with dev(tmp_path) as first:
        await first.read_start()
        server = first.server_pid()
        first.run.process.kill()
        await first.run.process.wait()

    async def worker_is_gone() -> None:
        assert not is_alive(first.worker_pid)

    await assert_eventually(worker_is_gone)
    async with dev(tmp_path) as second:
        await second.read_start()
        assert not is_alive(server)


@needs_proc
@pytest.mark.timeout(300)
async def test_its_postgres_outlives_worker_and_itself(tmp_path: Path) -> None:
    """State and an agent's own rows are there after a killed worker, a killed server, a restart."""

    async def add(started: Dev, text: str) -> Json:
        async with await AgentClient.connect(f"{HOST}:{started.port}") as client:
            return await client.agent("Notes", "n").call("add", text)

    async with dev(tmp_path, "--postgres") as first:
        await first.read_start()
        assert any("postgresql://" in line for line in first.run.lines)
        assert await add(first, "a") == 1
        os.kill(first.worker_pid, signal.SIGKILL)
        await first.read_worker()
        assert await add(first, "b") == 2
        os.kill(first.server_pid(CLUSTER), signal.SIGKILL)
        await first.run.line_with("the PostgreSQL server answers again")
        assert await add(first, "c") == 3
        assert await first.run.end(signal.SIGTERM) == 0
        assert first.server_pid(CLUSTER) == 0

    assert not (first.folder / "agents.db").exists()
    async with dev(tmp_path, "--postgres") as second:
        await second.read_start()
        assert await add(second, "d") == 4


@needs_proc
async def test_the_postgres_of_a_killed_dev_is_ended_by_the_next(tmp_path: Path) -> None:
    """Two servers on one cluster would be refused."""
    async with dev(tmp_path, "--postgres") as first:
        await first.read_start()
        server = first.server_pid(CLUSTER)
        first.run.process.kill()
        await first.run.process.wait()

    async with dev(tmp_path, "--postgres") as second:
        await second.read_start()
        assert not is_alive(server)


async def test_postgres_of_its_own_and_another_is_refused(tmp_path: Path) -> None:
    """Which of the two has the agents would be a guess."""
    (tmp_path / "notes.py").write_text(AGENTS)

    ran = await run_program(
        *("dev", "notes.py", "--postgres", *FREE_PORTS),
        cwd=tmp_path,
        variables={"AGENT_RUNTIME_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/agents"},
    )

    assert ran.code == 2
    assert "leave one of them out" in ran.err


async def test_a_second_dev_in_the_directory_is_refused(tmp_path: Path) -> None:
    """Two servers on one database would ruin it."""
    async with dev(tmp_path) as started:
        await started.read_start()

        ran = await run_program(
            *("dev", "notes.py", *FREE_PORTS),
            *("--data-dir", str(started.folder)),
            cwd=tmp_path,
        )

    assert (ran.code, "another `agent-runtime dev` uses" in ran.err) == (2, True)


async def test_a_module_that_cannot_be_served_ends_it(tmp_path: Path) -> None:
    """The reason is shown by worker or gateway, and the code is that of wrong usage."""
    (tmp_path / "empty.py").write_text("")

    ran = await run_program("dev", "empty.py", *FREE_PORTS, cwd=tmp_path)

    assert (ran.code, "empty.py has no class derived from Agent" in ran.out) == (2, True)
    assert ran.err.endswith(" cannot start; its message is above\n")
