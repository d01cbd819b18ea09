"""Writing what compaction jobs keep on their way, and what language models have cost."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.clock import now_milliseconds
from agent_runtime.identity import AgentRef
from agent_runtime.storage import job_statements as sql
from agent_runtime.storage.session_protocol import (
    DAY_MILLISECONDS,
    AttemptsRow,
    JobWrites,
    SessionRef,
    UsageRow,
)
from agent_runtime.storage.session_registry import SessionRegistry
from agent_runtime.storage.session_rows import SessionRows


class CompactionJobs(JobWrites):
    """`JobWrites` as named statements."""

    def __init__(self, rows: SessionRows, registry: SessionRegistry) -> None:
        self._rows = rows
        self._run = rows.run
        self._run_many = rows.run_many
        self._registry = registry

    async def put_chunks(
        self, agent: AgentRef, job: str, stage: int, requests: Sequence[str]
    ) -> None:
        """See `JobWrites.put_chunks`."""
        agent_id = await self._rows.make_agent(agent)
        now = now_milliseconds()
        await self._run_many(
            sql.ADD_CHUNK,
            [
                (agent_id, job, stage, position, now, request)
                for position, request in enumerate(requests)
            ],
        )

    async def put_summary(
        self, agent: AgentRef, job: str, stage: int, position: int, summary: str
    ) -> bool:
        """See `JobWrites.put_summary`."""
        agent_id = await self._rows.make_agent(agent)
        return bool(await self._run(sql.PUT_SUMMARY, (summary, agent_id, job, stage, position)))

    async def delete_job(self, agent: AgentRef, job: str) -> None:
        """See `JobWrites.delete_job`."""
        agent_id = await self._rows.make_agent(agent)
        await self._run(sql.DELETE_JOB, (agent_id, job))
        # Those of its parts: keys go on with the stage's number.
        await self._run(sql.DELETE_JOB_EFFECTS, (agent_id, f"{job}/0", f"{job}/:"))

    async def delete_jobs(self, agent: AgentRef, prefix: str, *, keep: str) -> None:
        """See `JobWrites.delete_jobs`."""
        agent_id = await self._rows.make_agent(agent)
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        await self._run(sql.DELETE_JOBS, (agent_id, prefix, end, keep))
        kept = (f"{keep}/", f"{keep}0")
        await self._run(sql.DELETE_JOBS_EFFECTS, (agent_id, prefix, end, *kept))

    async def put_attempts(self, ref: SessionRef, attempts: AttemptsRow) -> None:
        """See `JobWrites.put_attempts`."""
        session = await self._rows.find(ref)
        if session is None:
            return  # deleted while its compaction ended
        await self._run(
            sql.PUT_ATTEMPTS, (session.number, attempts.failures, attempts.next_estimate)
        )

    async def add_usage(self, ref: SessionRef, usage: UsageRow) -> None:
        """See `JobWrites.add_usage`."""
        agent_id = await self._rows.make_agent(ref.agent)
        added = await self._run(
            sql.ADD_USAGE,
            (
                agent_id,
                usage.key,
                ref.session_id,
                usage.purpose,
                usage.model,
                usage.input_tokens,
                usage.output_tokens,
                usage.cost,
                usage.created_at,
            ),
        )
        if not added:
            return
        day = usage.created_at // DAY_MILLISECONDS
        spent = (usage.input_tokens, usage.output_tokens, usage.cost)
        await self._run(
            sql.ADD_USAGE_OF_DAY,
            (agent_id, ref.session_id, day, usage.model, usage.purpose, *spent),
        )
        await self._registry.update_record(
            ref.agent,
            ref.session_id,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cost=usage.cost,
        )
