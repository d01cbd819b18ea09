"""Workers die while change hooks run; every change is told once to the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.worker_process import WorkerProcess

CHANGES = 30


@pytest.mark.timeout(600)
async def test_every_change_is_told_although_workers_die(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Hooks that had not ended run again, without what they had committed."""
    worker = WorkerProcess(
        "tests.chaos.agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue="kill-hooks",
    )
    await worker.start()
    noted = tmp_path / "changes"
    async with await AgentClient.connect(temporal.address, task_queue="kill-hooks") as client:
        watcher = client.agent("Watcher", "w")
        for number in range(CHANGES):
            await watcher.set_state({"number": number, "folder": str(tmp_path)})
            if number in (CHANGES // 3, 2 * CHANGES // 3):
                await worker.kill()
                await worker.start()

        async def all_are_told() -> None:
            told: Counter[int] = Counter(await watcher.call("changes"))
            assert told == Counter(range(CHANGES))

        await assert_eventually(all_are_told, every=0.5)
    await worker.stop()
    lines = Counter(int(line) for line in noted.read_text().splitlines())
    assert set(lines) == set(range(CHANGES))
    # A kill between a step's effect and its record may repeat it: those under way, no other.
    assert sum(lines.values()) - CHANGES <= 2 * 5
