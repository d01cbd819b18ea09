"""The steps of a compaction job: three as entries of the agent's inbox, and the summarizer's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from temporalio import activity

from agent_runtime.activities.final_failure import as_final
from agent_runtime.activities.staying_alive import staying_alive
from agent_runtime.call import (
    ABANDON_COMPACTION_ACTIVITY,
    COMMIT_COMPACTION_ACTIVITY,
    PLAN_COMPACTION_ACTIVITY,
    SUMMARIZE_ACTIVITY,
    CompactionOutcome,
    CompactionPlan,
    CompactionRun,
    CompactionStage,
)
from agent_runtime.compaction.metered_summarizer import MeteredSummary
from agent_runtime.durable_compaction.compaction_job import COMPACTION_EVENT
from agent_runtime.durable_compaction.compaction_parts import JobRows
from agent_runtime.durable_compaction.compaction_summaries import CompactionSummaries
from agent_runtime.durable_compaction.compaction_wait import cannot_wait
from agent_runtime.errors import AgentRuntimeError, from_record
from agent_runtime.handlers.handler_journal import run_within
from agent_runtime.handlers.invocation import Invocation
from agent_runtime.hosting.destruction import destroyed_error
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import AgentRef, compaction_job_key
from agent_runtime.json_value import Json
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, call_value
from agent_runtime.storage.session_protocol import SessionRef


class CompactionActivities:
    """Activities of compaction jobs; the job is the workflow's run."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @activity.defn(name=PLAN_COMPACTION_ACTIVITY)
    async def plan(self, request: CompactionRun) -> CompactionPlan:
        """Decide what to summarize and keep it, in parts that the summarizer can read.

        Idempotency: an entry of the agent's inbox under the job's key; a repeat waits for it.
        """
        return CompactionPlan(**await self._step(request, "plan"))

    @activity.defn(name=SUMMARIZE_ACTIVITY)
    async def summarize(self, request: CompactionRun, stage: int) -> CompactionStage:
        """Summarize the parts of a stage and keep the summaries, with what they cost.

        Idempotency: each summary is stored under (job, stage, part) as soon as it is there; a
        repeat asks for those that are missing.
        """
        info = activity.info()
        ref, key = _ref(request), _job_key(request, info)
        limit = info.start_to_close_timeout
        deadline = None if limit is None else info.started_time + limit
        async with staying_alive():
            number = await self._number(ref)
            async with self._host.using(ref) as agent:

                async def within(
                    part: str, ask: Callable[[], Awaitable[MeteredSummary]]
                ) -> MeteredSummary:
                    recorded = [
                        *await self._host.storage.read_effects(ref, part),
                        *await self._host.storage.sql_effects(ref, number, part),
                    ]
                    invocation = Invocation(self._host, agent, number, part, recorded)
                    return await run_within(invocation, ask)

                async def run() -> CompactionStage:
                    summaries = CompactionSummaries(
                        JobRows(self._host.storage, ref, number, key),
                        SessionRef(ref, request.session_id),
                        agent.get_session(request.session_id),
                        within,
                        attempt=info.attempt,
                        deadline=deadline,
                        on_progress=activity.heartbeat,
                    )
                    return await summaries.summarize(stage)

                invocation = Invocation(self._host, agent, number, f"{key}/summarize")
                with cannot_wait("a compaction function"):
                    return await run_within(invocation, run)

    @activity.defn(name=COMMIT_COMPACTION_ACTIVITY)
    async def commit(self, request: CompactionRun, stage: int) -> CompactionOutcome:
        """Store the summary over its range, if that is still on one path.

        Idempotency: an entry of the agent's inbox; the overlay is its effect, recorded in the same
        transaction, so that a repeat finds it.
        """
        return CompactionOutcome(**await self._step(request, "commit", stage))

    @activity.defn(name=ABANDON_COMPACTION_ACTIVITY)
    async def abandon(self, request: CompactionRun, reason: str, kind: str) -> CompactionOutcome:
        """Tell clients and the session's error handler, and space out the next attempt.

        Idempotency: an entry of the agent's inbox; a repeat waits for it. Nothing is stored of the
        summary; if the agent's process dies meanwhile, clients and handler may be told again.
        """
        return CompactionOutcome(**await self._step(request, "abandon", reason, kind))

    async def _step(self, request: CompactionRun, step: str, *args: Json) -> dict[str, Any]:
        """Run a step in the agent's own process and return its result."""
        info = activity.info()
        ref, key = _ref(request), f"{_job_key(request, info)}/{step}"
        fields = [asdict(request), info.workflow_run_id, *args]
        value = call_value(step, fields, event=COMPACTION_EVENT)
        async with staying_alive():
            await self._number(ref)
            batch = AgentBatch(ref, [Mutation(key, MutationKind.CALL, value)])
            [refusal] = await self._host.commit_batch(batch)
            if isinstance(refusal, AgentRuntimeError):
                raise refusal
            outcome = await self._host.outcomes.wait(ref, key)
        if "error" in outcome:
            raise as_final(from_record(outcome["error"]))
        result: dict[str, Any] = outcome["result"]
        return result

    async def _number(self, ref: AgentRef) -> int:
        """Return the agent's number; an entry, or a row, would make a destroyed one anew."""
        stored = await self._host.storage.read_state(ref)
        if stored is None:
            raise destroyed_error(ref)
        return stored.agent_id


def _ref(request: CompactionRun) -> AgentRef:
    return AgentRef(request.agent, request.name)


def _job_key(request: CompactionRun, info: activity.Info) -> str:
    return compaction_job_key(request.session_id, request.leaf_id, info.workflow_run_id or "")
