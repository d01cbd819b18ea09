"""Workers die while agents are destroyed; each destroy is finished, and happens once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import AgentDestroyedError
from agent_runtime.identity import AgentRef
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.storage.sqlite_private import sql_file_name
from tests.support.eventually import assert_eventually
from tests.support.worker_process import WorkerProcess

AGENTS, LIVES, KILLS = 6, 6, 5


@pytest.mark.timeout(600)
async def test_w268_a_killed_destroy_is_finished(temporal: TemporalServer, tmp_path: Path) -> None:
    """The worker dies after the agent and before the answer; the next one tells the caller."""
    worker, deaths = _worker("cut", temporal, tmp_path), tmp_path / "deaths"
    await worker.start()
    async with await AgentClient.connect(temporal.address, task_queue="cut") as client:
        agent = client.agent("Mortal", "m")
        await agent.set_state({"life": 1})
        assert await agent.call("keep", 1) == [1]
        call = await agent.start_call("die", str(tmp_path))

        async def is_destroyed() -> None:
            assert deaths.is_file() and deaths.read_text() == "m\n"

        await assert_eventually(is_destroyed)
        await worker.kill()
        await worker.start()

        with pytest.raises(AgentDestroyedError):
            await call.result()
        assert (await agent.get_state()).value == {"life": 0}
        assert await agent.call("keep", 2) == [2]
    await worker.stop()
    await _assert_nothing_is_left(tmp_path / "data", ["m"])


@pytest.mark.timeout(600)
async def test_every_destroy_happens_once_although_workers_die(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """No life sees anything of the one before, and none is ended by a repeat of its destroy."""
    chance = random.Random(5)
    worker = _worker("lives", temporal, tmp_path)
    await worker.start()
    names = [f"m{number}" for number in range(AGENTS)]
    lived = 0
    async with await AgentClient.connect(temporal.address, task_queue="lives") as client:

        async def live(agent: AgentHandle) -> None:
            nonlocal lived
            for life in range(1, LIVES + 1):
                await agent.set_state({"life": life}, idempotency_key="state")
                assert await agent.call("keep", life, idempotency_key=f"keep-{life}") == [life]
                assert (await agent.get_state()).value == {"life": life}
                await agent.destroy(idempotency_key=f"destroy-{life}")
                lived += 1
            assert (await agent.get_state()).value == {"life": 0}

        async def kill() -> None:
            for kills in range(1, KILLS + 1):
                goal = kills * AGENTS * LIVES // (KILLS + 1)

                async def is_reached(goal: int = goal) -> None:
                    assert lived >= goal

                await assert_eventually(is_reached, seconds=120, every=0.005)
                await asyncio.sleep(chance.random() * 0.05)
                await worker.kill()
                await worker.start()

        await asyncio.gather(kill(), *(live(client.agent("Mortal", name)) for name in names))
    await worker.stop()
    await _assert_nothing_is_left(tmp_path / "data", names)


def _worker(queue: str, temporal: TemporalServer, tmp_path: Path) -> WorkerProcess:
    return WorkerProcess(
        "tests.chaos.agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue=queue,
    )


async def _assert_nothing_is_left(data_dir: Path, names: list[str]) -> None:
    """Only the files of the last lives are there, and no destroy is unfinished."""
    storage = await SqliteStorage.open(data_dir)
    try:
        unfinished = await storage.read_unfinished(2**60, 100)
        allowed = set()
        for name in names:
            ref = AgentRef("Mortal", name)
            stored = await storage.read_state(ref)
            assert stored is not None
            allowed.add(sql_file_name(ref, stored.agent_id))
    finally:
        await storage.close()
    assert unfinished == []
    assert _own_databases(data_dir) <= allowed


def _own_databases(data_dir: Path) -> set[str]:
    return {path.name for path in data_dir.glob("sql-*.db")}
