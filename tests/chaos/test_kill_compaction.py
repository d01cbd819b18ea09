"""A worker dies between any two steps of a compaction; the next one ends the job, once."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_runtime.call import CompactionOutcome
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.identity import AgentRef
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.session.message import text_message
from agent_runtime.storage.session_protocol import OverlayRow, SessionRef, UsageRow
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.eventually import assert_eventually
from tests.support.worker_process import WorkerProcess

MESSAGES = 25
CALLS = 4
"""What the conversation takes: three parts and one merge."""

KILL_POINTS: dict[str, int] = {
    "before the plan is stored": 0,
    "after the plan is stored": 0,
    "before a summary is stored": 3,
    "after a summary is stored": 2,
    "before the merge is planned": 0,
    "after the merge is planned": 0,
    "before the overlay is stored": 0,
    "after the overlay is stored": 0,
    "after clients are told": 0,
    "after the parts are dropped": 0,
    "before a step is reported": 0,
    "after a step is reported": 0,
}
"""How many calls of the model each may cost again: those under way when the worker died."""

FAILURE_POINTS = [
    "after a summary is stored",
    "before the failure is told",
    "after the failure is told",
    "after the parts are dropped",
]
AT_THE_SAME_TIME = 4


@dataclass
class Ended:
    """What a killed job has left."""

    point: str
    outcome: CompactionOutcome
    calls: int
    overlays: list[OverlayRow]
    usage: list[UsageRow]
    phases: list[str]
    errors: list[str]
    starts: int


@pytest.mark.timeout(600)
async def test_c18_a_killed_worker_costs_no_summary_and_stores_none_twice(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """At every kill point: one overlay, one usage record a part, at most the calls under way."""
    ended = await _all(temporal, tmp_path, list(KILL_POINTS), "good")

    for each in ended:
        assert each.starts == 2, each.point
        assert each.outcome.status == "applied", each
        assert len(each.overlays) == 1, each
        assert len(each.usage) == CALLS, each
        assert CALLS <= each.calls <= CALLS + KILL_POINTS[each.point], each
        assert each.phases[-1] == "idle", each
        assert not each.errors, each


@pytest.mark.timeout(600)
async def test_c18_a_killed_worker_tells_of_a_failure_all_the_same(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """A blank answer: nothing stored, what it cost is counted once, and the handler hears of it."""
    for each in await _all(temporal, tmp_path, FAILURE_POINTS, "blank"):
        assert each.starts == 2, each.point
        assert each.outcome.status == "failed", each
        assert not each.overlays, each
        assert 1 <= len(each.usage) <= each.calls <= 5, each
        assert 1 <= len(each.errors) <= 2, each
        assert each.phases[-1] == "idle", each


async def _all(
    temporal: TemporalServer, tmp_path: Path, points: list[str], name: str
) -> list[Ended]:
    places = asyncio.Semaphore(AT_THE_SAME_TIME)

    async def one(number: int, point: str) -> Ended:
        async with places:
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            return await _kill_at(temporal, folder, point, name)

    return await asyncio.gather(*(one(number, point) for number, point in enumerate(points)))


async def _kill_at(temporal: TemporalServer, folder: Path, point: str, name: str) -> Ended:
    queue = f"kill-compaction-{folder.name}"
    worker = WorkerProcess(
        "tests.chaos.compaction_agents",
        address=temporal.address,
        data_dir=folder / "data",
        task_queue=queue,
        environment={"COMPACTION_FOLDER": str(folder)},
    )
    await worker.start()
    async with await AgentClient.connect(temporal.address, task_queue=queue) as client:
        session = client.agent("Summarized", name).session()
        (folder / "kill").write_text(point)
        messages = [
            text_message("user", f"{n} ".ljust(600, "x"), id=f"m{n}") for n in range(MESSAGES)
        ]
        # Not waited for yet: the worker may die before it has answered.
        appending = asyncio.create_task(session.append_messages(messages))

        async def is_killed() -> None:
            assert not (folder / "kill").exists()

        try:
            await assert_eventually(is_killed)
            await worker.kill()
            await worker.start()
            async with asyncio.timeout(90):
                await appending
                outcome = await session.compaction.last_outcome()
            assert outcome is not None
        finally:
            await worker.stop()
    storage = await SqliteStorage.open(folder / "data")
    ref = SessionRef(AgentRef("Summarized", name), "")
    frames = [json.loads(line) for line in _lines(folder / "frames")]
    ended = Ended(
        point,
        outcome,
        len(_lines(folder / "calls")),
        await storage.sessions.overlays(ref),
        await storage.sessions.usage(ref),
        [frame.get("phase", "error") for frame in frames],
        _lines(folder / "errors"),
        worker.starts,
    )
    await storage.close()
    return ended


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
