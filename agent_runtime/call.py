"""Handler calls as they travel through workflows: plain types only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent_runtime.identity import AgentRef


@dataclass(frozen=True)
class CallRequest:
    """A handler call.

    Args:
        args: JSON values, positional.
        key: Idempotency key; empty when the activity that runs the call is to make one of its run
            and activity id.
        chain: Keys of the handler invocations that wait for this call.
        hook_depth: How many change hooks, one through the other, led to the call.
    """

    agent: str
    name: str
    method: str
    args: list[Any] = field(default_factory=list)
    key: str = ""
    chain: list[str] = field(default_factory=list)
    hook_depth: int = 0

    @property
    def ref(self) -> AgentRef:
        """The agent to call."""
        return AgentRef(self.agent, self.name)


@dataclass(frozen=True)
class CallResult:
    """What a call returned, with the fingerprint of what was asked."""

    fingerprint: str
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
HOOKS_ACTIVITY = "agent_runtime.state_hooks"
ENTITY_WORKFLOW = "agent_runtime.Agent"
CALL_WORKFLOW = "agent_runtime.Call"
HOOKS_WORKFLOW = "agent_runtime.StateHooks"
MUTATE_UPDATE = "mutate"
MUTATE_SIGNAL = "mutate_one_way"
READ_QUERY = "read"
WAKE_SIGNAL = "wake"
ROLLING_OVER = "RollingOver"
DRAINING = "Draining"

DEFAULT_TASK_QUEUE = "agent-runtime"


def handler_queue(task_queue: str) -> str:
    """Return the queue of handlers, apart so that slow ones never take a commit's place."""
    return f"{task_queue}-handlers"
