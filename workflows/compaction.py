"""The compaction job: plan, summarize, commit, each retried until it is done (design 9)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError

from agent_runtime.call import (
    ABANDON_COMPACTION_ACTIVITY,
    COMMIT_COMPACTION_ACTIVITY,
    COMPACTION_PROGRESS_QUERY,
    COMPACTION_WORKFLOW,
    PLAN_COMPACTION_ACTIVITY,
    SUMMARIZE_ACTIVITY,
    CompactionOutcome,
    CompactionPlan,
    CompactionProgress,
    CompactionRun,
    CompactionStage,
)
from agent_runtime.direct_read import read_progress

T = TypeVar("T")

STEP_TIMEOUT = timedelta(minutes=2)
STAGE_TIMEOUT = timedelta(hours=6)
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
STEP_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=30),
)
# A provider that is out of order for longer than this is tried again when the session has grown.
MODEL_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2,
    maximum_interval=timedelta(minutes=1),
    maximum_attempts=10,
)


@workflow.defn(name=COMPACTION_WORKFLOW, sandboxed=False)
class Compaction:
    """Summarizes a part of one session; at most one run per session and branch at a time.

    Texts stay in the storage: the history holds numbers and ids, whatever the conversation's size.
    """

    @workflow.init
    def __init__(self, request: CompactionRun) -> None:
        self._request = request
        self._phase = "planning"
        self._stage = 0
        self._parts = 0
        self._is_cancelled = False

    @workflow.run
    async def run(self, request: CompactionRun) -> CompactionOutcome:
        """Carry the job to its end; a failed one has stored no summary and says why."""
        try:
            return await self._carry_out()
        except (ActivityError, asyncio.CancelledError) as error:
            cause = error.cause if isinstance(error, ActivityError) else error
            if isinstance(cause, CancelledError | asyncio.CancelledError):
                await self._abandon("cancelled", "Cancelled")
                raise
            kind = cause.type if isinstance(cause, ApplicationError) and cause.type else "Failure"
            text = cause.message if isinstance(cause, ApplicationError) else str(error)
            if kind == "AgentDestroyedError":
                return CompactionOutcome("failed", text)  # there is no session to tell of it
            return await self._abandon(text, kind)

    @workflow.query(name=COMPACTION_PROGRESS_QUERY)
    def progress(self) -> CompactionProgress:
        """Return how far the job is, with the parts done as the storage has them."""
        info = workflow.info()
        done = read_progress(self._request, info.run_id, self._stage) if self._parts else 0
        return CompactionProgress(self._phase, self._stage, self._parts, done)

    async def _carry_out(self) -> CompactionOutcome:
        plan: CompactionPlan = await self._step(
            PLAN_COMPACTION_ACTIVITY, [self._request], CompactionPlan, "plan"
        )
        if self._is_cancelled:
            raise asyncio.CancelledError
        if plan.chunks == 0:
            self._phase = "skipped"
            return CompactionOutcome("skipped", plan.reason)
        stage, parts = 0, plan.chunks
        while parts:
            self._phase, self._stage, self._parts = "summarizing", stage, parts
            done: CompactionStage = await workflow.execute_activity(
                SUMMARIZE_ACTIVITY,
                args=[self._request, stage],
                result_type=CompactionStage,
                start_to_close_timeout=STAGE_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=MODEL_RETRIES,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"summarize {parts} part{'' if parts == 1 else 's'}"
                + (f", round {stage + 1}" if stage else ""),
            )
            if done.reason:
                return await self._abandon(done.reason, "BlankSummary")
            stage, parts = stage + 1, done.next_chunks
        self._phase = "committing"
        # Cancelled from here on, the job is done all the same: its summary may be stored already.
        outcome: CompactionOutcome = await self._step(
            COMMIT_COMPACTION_ACTIVITY,
            [self._request, stage - 1],
            CompactionOutcome,
            "store the summary",
        )
        self._phase = outcome.status
        return outcome

    async def _abandon(self, reason: str, kind: str) -> CompactionOutcome:
        self._phase = "failed"
        return await self._step(
            ABANDON_COMPACTION_ACTIVITY,
            [self._request, reason, kind],
            CompactionOutcome,
            "give up",
        )

    async def _step(self, name: str, args: list[Any], result_type: type[T], summary: str) -> T:
        """Run a short step to its end, also if the job is cancelled meanwhile."""
        step = workflow.start_activity(
            name,
            args=args,
            result_type=result_type,
            start_to_close_timeout=STEP_TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=STEP_RETRIES,
            summary=summary,
        )
        while True:
            try:
                result: T = await asyncio.shield(step)
                return result
            except asyncio.CancelledError:
                if step.done():
                    raise
                self._is_cancelled = True
