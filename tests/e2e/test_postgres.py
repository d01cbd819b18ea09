"""An installation on PostgreSQL: two workers, a gateway and a client, each with its own storage."""

from __future__ import annotations

import asyncio
import shlex
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.live_gateway import next_frame
from tests.support.postgres_databases import SQL_ROLE, PostgresDatabases
from tests.support.program import Running, run_program, running

AGENTS = """
from agent_runtime import Agent, callable


class Ledger(Agent):
    initial_state = {"total": 0}

    @callable(exclusive=True)
    async def enter(self, amount: int) -> int:
        await self.sql("CREATE TABLE IF NOT EXISTS entries (amount BIGINT)")
        await self.sql("INSERT INTO entries VALUES (?)", amount)
        [row] = await self.sql("SELECT SUM(amount) AS total FROM entries")
        await self.set_state({"total": row["total"]})
        return row["total"]
"""


@dataclass
class Installation:
    """What runs, and a client in this process."""

    workers: list[Running]
    facts: dict[str, str]
    gateway: str
    client: AgentClient


@pytest.fixture
async def installation(
    temporal: TemporalServer, postgres: PostgresDatabases, tmp_path: Path
) -> AsyncIterator[Installation]:
    """Started by the commands that docs/postgres.md names, with its roles."""
    url = (await postgres.migrated()).replace("@", ":hunter2@")
    (tmp_path / "agents.py").write_text(AGENTS)
    queue = f"test-{uuid4().hex[:12]}"
    variables = {
        "AGENT_RUNTIME_DATABASE_URL": url,
        "AGENT_RUNTIME_DATABASE_SQL_ROLE": SQL_ROLE,
        "AGENT_RUNTIME_TASK_QUEUE": queue,
        "TEMPORAL_ADDRESS": temporal.address,
    }
    async with AsyncExitStack() as stack:

        async def start(*command: str) -> tuple[Running, dict[str, str]]:
            run = await stack.enter_async_context(
                running(*command, "agents.py", cwd=tmp_path, variables=variables)
            )
            line = await run.line_with("READY ")
            return run, dict(word.split("=", 1) for word in shlex.split(line)[1:])

        (worker, facts), (other, _), (_, listening) = await asyncio.gather(
            start("worker"), start("worker"), start("gateway", "--port", "0")
        )
        client = await stack.enter_async_context(
            await AgentClient.connect(temporal.address, database_url=url, task_queue=queue)
        )
        yield Installation([worker, other], facts, listening["gateway"], client)


async def test_everything_works_across_processes(
    installation: Installation, tmp_path: Path
) -> None:
    """Calls, the agents' own SQL, live clients and HTTP; also when a worker is killed."""
    ledger = installation.client.agent("Ledger", "a")
    address = f"{installation.gateway.replace('http', 'ws')}/agents/ledger/a"
    async with (
        connect(address, proxy=None, open_timeout=60) as socket,
        httpx.AsyncClient(base_url=installation.gateway, trust_env=False, timeout=60) as http,
    ):
        await next_frame(socket, "cf_agent_mcp_servers")
        assert await ledger.call("enter", 5) == 5
        assert (await next_frame(socket, "cf_agent_state"))["state"] == {"total": 5}

        calls = [asyncio.create_task(ledger.call("enter", 1)) for _ in range(20)]
        await calls[0]
        await installation.workers[0].end(signal.SIGKILL)
        await asyncio.gather(*calls)

        assert (await ledger.get_state()).value == {"total": 25}
        got = await http.get("/api/agents/Ledger/a/state")
        assert got.json() == {"total": 25}
        while (await next_frame(socket, "cf_agent_state"))["state"] != {"total": 25}:
            pass
    assert not (tmp_path / ".agent-runtime").exists()


async def test_the_password_is_never_printed(
    installation: Installation, postgres: PostgresDatabases, tmp_path: Path
) -> None:
    """Ready lines and commands name host and database."""
    place = installation.facts["database"]
    assert place.startswith(f"PostgreSQL 127.0.0.1:{postgres.server.port}/test_")
    assert "data_dir" not in installation.facts
    await installation.client.agent("Ledger", "a").call("enter", 5)
    url = f"postgresql://agent_app:hunter2@{place.removeprefix('PostgreSQL ')}"
    variables = {"AGENT_RUNTIME_DATABASE_URL": url}
    described = await run_program(
        "agents", "describe", "Ledger", "a", "--json", cwd=tmp_path, variables=variables
    )

    assert (described.json["database"], described.json["version"]) == (place, 1)
    assert described.json["own_database"].startswith("agent_ledger_a_")
    for worker in installation.workers:
        await worker.end()
        assert "hunter2" not in "\n".join(worker.lines)
    assert "hunter2" not in described.out + described.err
