"""A worker that keeps no workflow in memory replays each one at every task."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.runtime import AgentRuntime
from tests.replay.agents import Task


async def test_an_agent_works_the_same_when_every_task_replays(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Mutations, calls and hooks give the same results with a cache of no workflows."""
    queue = f"no-cache-{uuid4().hex[:8]}"
    async with (
        await AgentRuntime.start(
            [Task],
            data_dir=tmp_path,
            address=temporal.address,
            task_queue=queue,
            max_cached_agents=0,
        ),
        await AgentClient.connect(temporal.address, task_queue=queue) as client,
    ):
        task = client.agent("Task", "t")

        receipts = [await task.merge_state({"n": number}) for number in range(5)]
        together = await asyncio.gather(*(task.merge_state({"m": number}) for number in range(20)))
        version = await task.call("advance", 3)

        # The first merge reads, which stores the initial state as version 1.
        assert [receipt.version for receipt in receipts] == [2, 3, 4, 5, 6]
        assert sorted(receipt.version for receipt in together) == list(range(7, 27))
        assert version == 27
