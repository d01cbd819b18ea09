"""The steps of a compaction job that belong to the agent (design 9, sessions 9).

They are entries of the agent's inbox: they run in the agent's own process, one after the other, as
its handlers do, so that its prompt, its observers and its error handler are the ones that are told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

from agent_runtime.agent import Agent
from agent_runtime.call import CompactionOutcome, CompactionPlan, CompactionRun
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.compaction.compact_function import ReferenceCompactFunction
from agent_runtime.compaction.summary_request import split_request
from agent_runtime.compaction.token_estimate import estimate_string_tokens
from agent_runtime.durable_compaction.compaction_parts import JobFacts, JobPart, JobRows
from agent_runtime.durable_compaction.compaction_wait import cannot_wait
from agent_runtime.errors import (
    AgentRuntimeError,
    HandlerCancelledError,
    HandlerError,
    error_types,
)
from agent_runtime.identity import AgentRef, compaction_job_key, compaction_job_prefix
from agent_runtime.json_value import Json, from_json
from agent_runtime.session.compaction_range import InvalidRange
from agent_runtime.session.session import Session
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.session_protocol import OverlayRow, SessionRef

COMPACTION_EVENT = "compaction"
CANCELLED = "Cancelled"

_REMOVED = CompactionOutcome("skipped", "the summary was removed again")


class CompactionJob:
    """One job's steps in its agent's process.

    Args:
        agent_id: The agent's number; nothing is written to another one of its name.
        run_id: Of the job's workflow.
    """

    def __init__(
        self,
        storage: Storage,
        agent: Agent[Any],
        agent_id: int,
        request: CompactionRun,
        run_id: str,
    ) -> None:
        self._storage = storage
        self._session_ref = SessionRef(AgentRef(request.agent, request.name), request.session_id)
        self._request = request
        key = compaction_job_key(request.session_id, request.leaf_id, run_id)
        self._rows = JobRows(storage, self._session_ref.agent, agent_id, key)
        self._session: Session = agent.get_session(request.session_id)
        self._compactor = self._session.compactor

    async def plan(self) -> CompactionPlan:
        """Decide what to summarize and keep it, in parts that the summarizer can read."""
        if parts := await self._rows.count(0):
            return CompactionPlan(parts)
        prefix = compaction_job_prefix(self._request.session_id, self._request.leaf_id)
        await self._rows.forget_others(prefix)
        basis = await self._compactor.begin_job(self._request.leaf_id or None)
        if basis is None:
            return CompactionPlan(reason="the session is empty")
        function = basis.function
        facts = JobFacts(basis.leaf_id, basis.tokens_before, basis.overlay_ids)
        planned = [JobPart(None)]
        if isinstance(function, ReferenceCompactFunction):
            context = CompactContext(token_counter=self._compactor.token_counter)
            plan = await function.plan(basis.history, context)
            if plan is None:
                await self._compactor.end_job(is_automatic=self._request.is_automatic)
                return CompactionPlan(reason="there is nothing to summarize")
            limit = function.max_prompt_chars
            planned = [JobPart(each, limit) for each in split_request(plan.request, limit)]
            facts = JobFacts(
                basis.leaf_id,
                basis.tokens_before,
                basis.overlay_ids,
                plan.from_message_id,
                plan.to_message_id,
                plan.request.previous,
                plan.request.budget_tokens,
            )
        await self._rows.begin(facts, planned)
        return CompactionPlan(len(planned))

    async def commit(self, stage: int) -> CompactionOutcome:
        """Store the summary that the last stage has led to."""

        async def run() -> CompactionOutcome:
            facts = await self._rows.facts()
            [summary] = await self._rows.summaries(stage)
            result = _result(facts, summary or "")
            if result is None:
                await self._compactor.end_job(is_automatic=self._request.is_automatic)
                return CompactionOutcome("skipped", "the compaction function returned nothing")
            stored = await self._compactor.commit_job(result, facts.leaf_id, facts.overlay_ids)
            if isinstance(stored, InvalidRange):
                await self._compactor.end_job(
                    refusal=stored.reason, is_automatic=self._request.is_automatic
                )
                return CompactionOutcome("skipped", stored.reason)
            await self._compactor.finish_job(facts.tokens_before)
            # Who was told of the summary may have deleted an end of its range, or all of it.
            rows = [row for row in await self._overlays() if row.summary == stored.summary]
            return _applied(rows[-1]) if rows else _REMOVED

        async def recall(recorded: Json) -> CompactionOutcome:
            # The process ended after the summary was stored: tell those who were not told.
            await self._compactor.finish_job(None)
            for row in await self._overlays():
                if row.id == recorded[0]:
                    return _applied(row)
            return _REMOVED

        outcome = await self._session.parts.once("commit compaction", None, run, recall)
        await self._rows.forget()
        return outcome

    async def abandon(self, reason: str, kind: str) -> CompactionOutcome:
        """End a job that stored nothing."""
        is_cancelled = kind == CANCELLED
        await self._compactor.end_job(
            error=_error(reason, kind),
            is_automatic=self._request.is_automatic,
            is_cancelled=is_cancelled,
        )
        await self._rows.forget()
        return CompactionOutcome("cancelled" if is_cancelled else "failed", reason)

    async def _overlays(self) -> list[OverlayRow]:
        return await self._storage.sessions.overlays(self._session_ref)


async def _plan(job: CompactionJob, args: list[Json]) -> CompactionPlan:
    return await job.plan()


async def _commit(job: CompactionJob, args: list[Json]) -> CompactionOutcome:
    [stage] = args
    return await job.commit(stage)


async def _abandon(job: CompactionJob, args: list[Json]) -> CompactionOutcome:
    reason, kind = args
    return await job.abandon(reason, kind)


COMPACTION_STEPS: dict[
    str, Callable[[CompactionJob, list[Json]], Awaitable[CompactionPlan | CompactionOutcome]]
] = {"plan": _plan, "commit": _commit, "abandon": _abandon}
"""The steps by the name of their entries."""


async def run_compaction_step(
    storage: Storage, agent: Agent[Any], agent_id: int, step: str, args: list[Json]
) -> Json:
    """Run a step of a job and return its result as JSON."""
    request, run_id, *rest = args
    job = CompactionJob(storage, agent, agent_id, CompactionRun(**request), run_id)
    with cannot_wait("an observer or error handler of a compaction"):
        return asdict(await COMPACTION_STEPS[step](job, rest))


def _result(facts: JobFacts, summary: str) -> CompactResult | None:
    if facts.from_message_id:
        return CompactResult(facts.from_message_id, facts.to_message_id, summary)
    fields = from_json(summary)
    return None if fields is None else CompactResult(**fields)


def _applied(row: OverlayRow) -> CompactionOutcome:
    tokens = estimate_string_tokens(row.summary)
    return CompactionOutcome("applied", "", row.from_id, row.to_id, row.id, tokens)


def _error(reason: str, kind: str) -> AgentRuntimeError:
    """Return the error that ended a job, of its own type if it is one of this library's."""
    if kind == CANCELLED:
        return HandlerCancelledError("the compaction was cancelled; nothing was stored")
    if kind in error_types():
        return error_types()[kind](reason)
    return HandlerError(f"the session was not compacted: {reason}", error_type=kind, error=reason)
