"""Histories recorded by each release replay on today's code."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from agent_runtime.workflows.agent import AgentEntity
from agent_runtime.workflows.compaction import Compaction
from agent_runtime.workflows.handlers import AgentHandlers
from tests.replay.workflows import Progress

RECORDED = sorted(Path(__file__).with_name("histories").glob("*.json"))


ENDS = {
    "applied": "WORKFLOW_EXECUTION_COMPLETED",
    "refused": "WORKFLOW_EXECUTION_COMPLETED",
    "patient": "WORKFLOW_EXECUTION_CANCELED",
}
"""How the recorded compactions ended."""


def _load(path: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(path.stem, path.read_text())


@pytest.mark.parametrize(
    "path", [path for path in RECORDED if "user" not in path.stem], ids=lambda path: path.stem
)
async def test_a_framework_history_replays(path: Path) -> None:
    """The workflows of entities, handlers and compactions make the same commands again."""
    replayer = Replayer(
        workflows=[AgentEntity, AgentHandlers, Compaction],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )

    await replayer.replay_workflow(_load(path))


@pytest.mark.parametrize(
    "path", [path for path in RECORDED if "user" in path.stem], ids=lambda path: path.stem
)
async def test_a_users_workflow_with_steps_replays_in_the_sandbox(path: Path) -> None:
    """Steps of a user's workflow make the same commands again, under the default sandbox."""
    replayer = Replayer(workflows=[Progress], workflow_runner=SandboxedWorkflowRunner())

    await replayer.replay_workflow(_load(path))


def test_the_recordings_show_what_they_are_for() -> None:
    """Every workflow is recorded, with local and regular commits, signals and a roll-over."""
    events = {
        path.stem.partition("-")[2]: [
            EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
            for event in _load(path).events
        ]
        for path in RECORDED
    }

    assert {"handlers", "user-steps"} <= events.keys()
    assert "MARKER_RECORDED" in events["entity-running"]
    assert "WORKFLOW_EXECUTION_SIGNALED" in events["entity-running"]
    assert events["entity-continued"][-1] == "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"
    assert "ACTIVITY_TASK_COMPLETED" in events["entity-drained-and-idle"]
    assert events["entity-drained-and-idle"][-1] == "WORKFLOW_EXECUTION_COMPLETED"
    scheduled = [events[f"compaction-{name}"].count("ACTIVITY_TASK_SCHEDULED") for name in ENDS]
    assert scheduled == [4, 3, 3]
    assert [events[f"compaction-{name}"][-1] for name in ENDS] == list(ENDS.values())
