"""The entity: one workflow per agent that carries its state mutations to storage.

The workflow holds no state of the agent. It gives requests a durable place, hands each batch to
one activity, rolls over before its history grows long, and ends when the agent is idle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from agent_runtime.call import (
    COMMIT_ACTIVITY,
    DRAINING,
    ENTITY_WORKFLOW,
    MUTATE_SIGNAL,
    MUTATE_UPDATE,
    READ_QUERY,
    ROLLING_OVER,
    EntityRun,
)
from agent_runtime.direct_read import read_directly

LOCAL_TIMEOUT = timedelta(seconds=1)
COMMIT_TIMEOUT = timedelta(seconds=3)
COMMIT_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=2),
)
# A workflow task's answer must stay under gRPC's 4 MB with the batch in it twice.
LARGE_BATCH_BYTES = 512 * 1024
MAX_CARRIED_BYTES = 256 * 1024


@workflow.defn(name=ENTITY_WORKFLOW, sandboxed=False)
class AgentEntity:
    """Handlers: update `mutate`, signal `mutate_one_way`, query `read`."""

    @workflow.init
    def __init__(self, run: EntityRun) -> None:
        self._run = run
        self._batches = 0
        self._is_closing = False
        self._one_way: list[list[str]] = list(run.carried)
        self._is_committing_one_way = False
        self._is_crowded = False
        self._left_over: list[list[str]] = []

    @workflow.run
    async def run(self, run: EntityRun) -> None:
        """Serve until history is long (continue as new) or nothing came for a while (end)."""
        await self._commit_one_way()
        while True:
            seen = self._batches
            try:
                await workflow.wait_condition(
                    self._is_due, timeout=timedelta(seconds=run.idle_seconds)
                )
            except TimeoutError:
                if seen == self._batches and workflow.all_handlers_finished():
                    return
                continue
            # From here on updates are turned away unrecorded (their clients repeat them) and
            # signals are kept for the next run, so that it soon is quiet enough to leave.
            self._is_closing = True
            await workflow.wait_condition(workflow.all_handlers_finished)
            if self._is_crowded:
                # The server refuses to end a run while something arrives, and what it refuses is
                # replayed, and refused again. A task that does nothing else falls between; a round
                # trip of an empty commit leads to one sooner than a timer, which is up to 1 s late.
                await self._commit_regularly(_raw_json("[]"), [])
                await workflow.wait_condition(workflow.all_handlers_finished)
            next_run = EntityRun(
                run.agent,
                run.name,
                run.max_events,
                run.max_bytes,
                run.max_batches,
                run.idle_seconds,
                self._left_over,
            )
            workflow.continue_as_new(next_run)

    @workflow.update(name=MUTATE_UPDATE)
    async def mutate(self, batches: RawValue) -> RawValue:
        """Commit a batch (see `agent_runtime.mutation`) and return its outcomes."""
        self._batches += 1
        return await self._commit(batches)

    @mutate.validator
    def _may_mutate(self, batches: RawValue) -> None:
        if self._is_closing:
            raise ApplicationError("the agent is moving to its next run", type=ROLLING_OVER)

    @workflow.signal(name=MUTATE_SIGNAL)
    async def mutate_one_way(self, batch_id: str, batches: RawValue) -> None:
        """Commit a batch of one agent and leave its outcomes in storage under `batch_id`."""
        self._batches += 1
        entry = [batch_id, batches.payload.data.decode()]
        if self._is_closing and self._may_carry(batches):
            self._left_over.append(entry)
            return
        self._one_way.append(entry)
        # All signals of this task have been put in line when it is this one's turn again.
        await asyncio.sleep(0)
        await self._commit_one_way()

    @workflow.query(name=READ_QUERY)
    def read(self, request: str) -> RawValue:
        """Return stored state or history, which is never kept in this workflow's own history."""
        return _raw_json(read_directly(self._run.agent, self._run.name, request))

    def _is_due(self) -> bool:
        info = workflow.info()
        return (
            info.get_current_history_length() >= self._run.max_events
            or info.get_current_history_size() >= self._run.max_bytes
            or self._batches >= self._run.max_batches
            or info.is_continue_as_new_suggested()
            or info.is_target_worker_deployment_version_changed()
        )

    def _may_carry(self, batches: RawValue) -> bool:
        carried = sum(len(text) for _, text in self._left_over)
        return carried + len(batches.payload.data) <= MAX_CARRIED_BYTES

    async def _commit_one_way(self) -> None:
        """Commit all one-way batches in line, many by one activity, unless that is going on."""
        if self._is_committing_one_way:
            return
        self._is_committing_one_way = True
        try:
            while self._one_way:
                entries = self._take_one_way()
                if not await self._commit_unanswered(entries) and len(entries) > 1:
                    # A batch that is refused as a whole must not take others with it.
                    for entry in entries:
                        await self._commit_unanswered([entry])
        finally:
            self._is_committing_one_way = False

    def _take_one_way(self) -> list[list[str]]:
        size = count = 0
        for _, text in self._one_way:
            size += len(text)
            if count and size > MAX_CARRIED_BYTES:
                break
            count += 1
        entries, self._one_way = self._one_way[:count], self._one_way[count:]
        return entries

    async def _commit_unanswered(self, entries: list[list[str]]) -> bool:
        text = entries[0][1]
        if len(entries) > 1:
            self._is_crowded = True
            text = f"[{','.join(text.strip()[1:-1] for _, text in entries)}]"
        try:
            await self._commit(_raw_json(text), *(batch_id for batch_id, _ in entries))
        except FailureError as error:
            # Nobody waits for it: raising would fail the agent's run.
            if len(entries) == 1:
                workflow.logger.error("one-way batch %s was refused: %s", entries[0][0], error)
            return False
        return True

    async def _commit(self, batches: RawValue, *answer_ids: str) -> RawValue:
        try:
            outcomes: RawValue = await workflow.execute_local_activity(
                COMMIT_ACTIVITY,
                args=[batches, answer_ids],
                result_type=RawValue,
                start_to_close_timeout=LOCAL_TIMEOUT,
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
            return outcomes
        except (ActivityError, ApplicationError) as error:
            failure = error.cause if isinstance(error, ActivityError) else error
            if isinstance(failure, ApplicationError) and _is_final(failure):
                raise failure from None
        return await self._commit_regularly(batches, answer_ids)

    async def _commit_regularly(self, batches: RawValue, answer_ids: Sequence[str]) -> RawValue:
        if len(batches.payload.data) > LARGE_BATCH_BYTES:
            await workflow.sleep(0.01)
        try:
            outcomes: RawValue = await workflow.execute_activity(
                COMMIT_ACTIVITY,
                args=[batches, answer_ids],
                result_type=RawValue,
                start_to_close_timeout=COMMIT_TIMEOUT,
                retry_policy=COMMIT_RETRIES,
                summary=f"commit {len(batches.payload.data)} bytes",
            )
            return outcomes
        except ActivityError as error:
            raise error.cause or error from None


def _is_final(failure: ApplicationError) -> bool:
    return failure.non_retryable and failure.type != DRAINING


def _raw_json(text: str) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text.encode()))
