"""What travels through workflows: plain types and names, importable in the sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepCall:
    """A handler call that a workflow asks for.

    Args:
        args: JSON values, positional.
    """

    agent: str
    name: str
    method: str
    args: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class StepResult:
    """What a call returned."""

    result: Any = None


@dataclass(frozen=True)
class StepMutation:
    """A state mutation that a workflow asks for (state-and-sync 16.2).

    Args:
        kind: "set", "merge" or "reset".
        key: Idempotency key; empty to take run id and activity id, which repeat with the step.
    """

    agent: str
    name: str
    kind: str
    value: Any = None
    expected_version: int | None = None
    key: str = ""


@dataclass(frozen=True)
class StepReceipt:
    """The receipt of a step's mutation, see `mutation.Receipt`."""

    version: int
    applied: bool = True
    duplicate: bool = False


@dataclass(frozen=True)
class EntityRun:
    """What one run of an agent's entity workflow is given.

    Args:
        carried: One-way batches that the run before took but left for this one, as
            [batch id, JSON text].
    """

    agent: str
    name: str
    max_events: int = 500
    max_bytes: int = 256 * 1024
    max_batches: int = 1_500
    idle_seconds: float = 600.0
    carried: list[list[str]] = field(default_factory=list)


COMMIT_ACTIVITY = "agent_runtime.commit"
STEP_ACTIVITY = "agent_runtime.step"
CALL_ACTIVITY = "agent_runtime.call"
HANDLERS_ACTIVITY = "agent_runtime.handlers"
ENTITY_WORKFLOW = "agent_runtime.Agent"
HANDLERS_WORKFLOW = "agent_runtime.Handlers"
MUTATE_UPDATE = "mutate"
MUTATE_SIGNAL = "mutate_one_way"
READ_QUERY = "read"
ROLLING_OVER = "RollingOver"
DRAINING = "Draining"

DEFAULT_TASK_QUEUE = "agent-runtime"


def handler_queue(task_queue: str) -> str:
    """Return the queue of handlers, apart so that slow ones never take a commit's place."""
    return f"{task_queue}-handlers"
