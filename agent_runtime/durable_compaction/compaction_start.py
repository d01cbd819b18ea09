"""Compaction jobs from outside: begun, one at a time for a session and branch, and looked after."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime.call import (
    COMPACTION_PROGRESS_QUERY,
    COMPACTION_WORKFLOW,
    CompactionOutcome,
    CompactionProgress,
    CompactionRun,
    handler_queue,
)
from agent_runtime.client.batcher import RPC_TIMEOUT
from agent_runtime.client.channel import TASK_TIMEOUT, Channel
from agent_runtime.connection import unreachable
from agent_runtime.handlers.cancellation import is_cancelled_by_caller
from agent_runtime.identity import AgentRef, compaction_workflow_id

# Longer than all retries of a stage, so that only a job nobody can carry out ends by it.
JOB_TIMEOUT = timedelta(days=1)
_KEY = "key"

Job = WorkflowHandle[object, CompactionOutcome]


async def try_compaction(channel: Channel, run: CompactionRun) -> bool:
    """Begin a job, unless one runs for the session and branch; tell whether it was begun.

    Raises:
        RPCError: Temporal did not answer.
    """
    try:
        await _begin(channel, run, WorkflowIDConflictPolicy.FAIL)
    except WorkflowAlreadyStartedError:
        return False
    return True


async def _begin(
    channel: Channel, run: CompactionRun, conflict: WorkflowIDConflictPolicy, key: str = ""
) -> Job:
    ref = AgentRef(run.agent, run.name)
    return await channel.temporal.start_workflow(
        COMPACTION_WORKFLOW,
        run,
        id=_workflow_id(channel, run),
        result_type=CompactionOutcome,
        task_queue=handler_queue(channel.task_queue),
        id_conflict_policy=conflict,
        execution_timeout=JOB_TIMEOUT,
        task_timeout=TASK_TIMEOUT,
        memo={_KEY: key},
        static_summary=f"compact {ref} session {run.session_id!r}",
        rpc_timeout=RPC_TIMEOUT,
    )


async def run_compaction(channel: Channel, run: CompactionRun, key: str) -> CompactionOutcome:
    """Run a job, or join the one that runs, and wait for its end.

    Asked again with the same key, as by a handler that is repeated, it returns what came of the
    job. A caller that cancels its call cancels the job, for all who wait for it.

    Raises:
        RPCError: Temporal did not answer.
    """
    job = await _find(channel, run, key)
    if job is None:
        job = await _begin(channel, run, WorkflowIDConflictPolicy.USE_EXISTING, key)
    try:
        return await outcome_of(job)
    except asyncio.CancelledError as error:
        if is_cancelled_by_caller(error):
            await job.cancel(rpc_timeout=RPC_TIMEOUT)
        raise


async def outcome_of(job: Job) -> CompactionOutcome:
    """Wait for a job's end, however it ends."""
    try:
        return await job.result()
    except WorkflowFailureError as error:
        if isinstance(error.cause, CancelledError):
            return CompactionOutcome("cancelled", "cancelled")
        return CompactionOutcome("failed", str(error.cause))


async def _find(channel: Channel, run: CompactionRun, key: str) -> Job | None:
    """Return the last job of the session and branch if it was begun for the same request."""
    job = _job(channel, run)
    try:
        description = await job.describe(rpc_timeout=RPC_TIMEOUT)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    if await description.memo_value(_KEY, "", type_hint=str) != key:
        return None
    return _job(channel, run, description.run_id)


def _workflow_id(channel: Channel, run: CompactionRun) -> str:
    ref = AgentRef(run.agent, run.name)
    return compaction_workflow_id(channel.task_queue, ref, run.session_id, run.leaf_id)


def _job(channel: Channel, run: CompactionRun, run_id: str | None = None) -> Job:
    return channel.temporal.get_workflow_handle(
        _workflow_id(channel, run), run_id=run_id, result_type=CompactionOutcome
    )


@dataclass(frozen=True, slots=True)
class CompactionControl:
    """The compaction of one session, for whoever watches it.

    Args:
        run: Names agent and session.
    """

    channel: Channel
    run: CompactionRun

    async def progress(self, leaf_id: str | None = None) -> CompactionProgress | None:
        """Return how far the compaction is that runs now; None if none does.

        Raises:
            TemporalUnreachableError: Temporal did not answer.
            CallTimeoutError: No worker answered in time.
        """
        job = _job(self.channel, self._of(leaf_id))
        try:
            if not await _is_running(job):
                return None
            progress: CompactionProgress = await self.channel.in_time(
                job.query(COMPACTION_PROGRESS_QUERY, result_type=CompactionProgress),
                "the compaction's progress",
            )
        except WorkflowQueryFailedError:
            return None
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise unreachable(error) from error
        return progress

    async def cancel(self, leaf_id: str | None = None) -> bool:
        """Cancel the compaction that runs now; False if none does.

        Raises:
            TemporalUnreachableError: Temporal did not answer.
        """
        job = _job(self.channel, self._of(leaf_id))
        try:
            if not await _is_running(job):
                return False
            await job.cancel(rpc_timeout=RPC_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise unreachable(error) from error
        return True

    async def last_outcome(self, leaf_id: str | None = None) -> CompactionOutcome | None:
        """Wait for the newest compaction and return how it ended; None if none is remembered.

        Raises:
            TemporalUnreachableError: Temporal did not answer.
        """
        try:
            return await outcome_of(_job(self.channel, self._of(leaf_id)))
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise unreachable(error) from error

    def _of(self, leaf_id: str | None) -> CompactionRun:
        return CompactionRun(self.run.agent, self.run.name, self.run.session_id, leaf_id or "")


async def _is_running(job: Job) -> bool:
    description = await job.describe(rpc_timeout=RPC_TIMEOUT)
    return description.status is WorkflowExecutionStatus.RUNNING
