"""What travels through workflows: plain types and names, importable in the sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepCall:
    """A handler call that a workflow asks for.

    Args:
        args: JSON values, positional.
        event: "session" if `method` is one of a conversation's.
    """

    agent: str
    name: str
    method: str
    args: list[Any] = field(default_factory=list)
    event: str = ""


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


@dataclass(frozen=True)
class CompactionRun:
    """A compaction asked for: of one session's active path, or of the path to a leaf.

    Args:
        is_automatic: It was asked for because the session had grown past its threshold.
    """

    agent: str
    name: str
    session_id: str = ""
    leaf_id: str = ""
    is_automatic: bool = False


@dataclass(frozen=True)
class CompactionPlan:
    """What a compaction is to summarize, as its workflow knows it.

    Args:
        chunks: How many parts the range was split into; 0 if there is nothing to summarize.
        reason: Why there is nothing.
    """

    chunks: int = 0
    reason: str = ""


@dataclass(frozen=True)
class CompactionStage:
    """What summarizing all parts of a stage has led to.

    Args:
        next_chunks: How many summaries are to be made of these; 0 if the last one is made.
        reason: Why the job must end here, empty if it need not.
    """

    next_chunks: int = 0
    reason: str = ""


@dataclass(frozen=True)
class CompactionOutcome:
    """How a compaction ended.

    Args:
        status: "applied"; "skipped" if there was nothing to do or it no longer fitted; "failed";
            "cancelled".
        reason: Why it was not applied.
    """

    status: str
    reason: str = ""
    from_message_id: str = ""
    to_message_id: str = ""
    overlay_id: str = ""
    summary_tokens: int = 0


@dataclass(frozen=True)
class CompactionProgress:
    """How far a compaction is.

    Args:
        phase: "planning", "summarizing", "committing", or how it has ended.
        stage: How often the summaries were merged, or cut shorter, up to now.
        parts: How many summaries the stage has.
        done: How many of them are stored.
    """

    phase: str
    stage: int = 0
    parts: int = 0
    done: int = 0


COMMIT_ACTIVITY = "agent_runtime.commit"
STEP_ACTIVITY = "agent_runtime.step"
CALL_ACTIVITY = "agent_runtime.call"
HANDLERS_ACTIVITY = "agent_runtime.handlers"
PLAN_COMPACTION_ACTIVITY = "agent_runtime.plan_compaction"
SUMMARIZE_ACTIVITY = "agent_runtime.summarize"
COMMIT_COMPACTION_ACTIVITY = "agent_runtime.commit_compaction"
ABANDON_COMPACTION_ACTIVITY = "agent_runtime.abandon_compaction"
COMPACTION_WORKFLOW = "agent_runtime.Compaction"
COMPACTION_PROGRESS_QUERY = "progress"
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
