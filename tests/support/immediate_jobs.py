"""Compaction jobs without a worker: the same steps, one after the other, in the code that asks."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

from agent_runtime.agent import Agent
from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.compaction.metered_summarizer import MeteredSummary
from agent_runtime.durable_compaction.compaction_job import CompactionJob
from agent_runtime.durable_compaction.compaction_parts import JobRows
from agent_runtime.durable_compaction.compaction_summaries import CompactionSummaries
from agent_runtime.identity import AgentRef, compaction_job_key
from agent_runtime.session.compaction_jobs import CompactionJobs
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import SessionStore
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.session_protocol import SessionRef


async def _at_once(key: str, ask: Callable[[], Awaitable[MeteredSummary]]) -> MeteredSummary:
    return await ask()


class JobOwner(CompactionJobs):
    """Has one session in a storage, whose compactions are jobs that run at once."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._ref = AgentRef("Sessions", name)
        self._numbers = itertools.count()
        self.outcomes: list[CompactionOutcome] = []
        self.session = Session.create(self)

    @property
    def session_store(self) -> SessionStore:
        """See `SessionOwner.session_store`."""
        return DirectSessionStore(self._storage, self._ref)

    @property
    def session_compaction_jobs(self) -> CompactionJobs:
        """See `SessionOwner`."""
        return self

    async def start(self, session_id: str) -> bool:
        """See `CompactionJobs.start`."""
        await self._run(CompactionRun(*self._ref, session_id, is_automatic=True))
        return True

    async def run(self, session_id: str, leaf_id: str | None) -> CompactResult | None:
        """See `CompactionJobs.run`."""
        outcome = await self._run(CompactionRun(*self._ref, session_id, leaf_id or ""))
        for each in await self.session.get_compactions():
            if each.id == outcome.overlay_id:
                return CompactResult(each.from_message_id, each.to_message_id, each.summary)
        return None

    async def _run(self, run: CompactionRun) -> CompactionOutcome:
        run_id = str(next(self._numbers))
        agent = cast(Agent[Any], SimpleNamespace(get_session=lambda session_id: self.session))
        number = await agent_number(self._storage, self._ref)
        job = CompactionJob(self._storage, agent, number, run, run_id)
        key = compaction_job_key(run.session_id, run.leaf_id, run_id)
        summaries = CompactionSummaries(
            JobRows(self._storage, self._ref, number, key),
            SessionRef(self._ref, run.session_id),
            self.session,
            _at_once,
        )
        outcome = await self._carry_out(job, summaries)
        self.outcomes.append(outcome)
        return outcome

    async def _carry_out(
        self, job: CompactionJob, summaries: CompactionSummaries
    ) -> CompactionOutcome:
        plan = await job.plan()
        stage, parts = 0, plan.chunks
        if not parts:
            return CompactionOutcome("skipped", plan.reason)
        while parts:
            try:
                done = await summaries.summarize(stage)
            except Exception as error:
                return await job.abandon(str(error), type(error).__name__)
            if done.reason:
                return await job.abandon(done.reason, "BlankSummary")
            stage, parts = stage + 1, done.next_chunks
        return await job.commit(stage - 1)
