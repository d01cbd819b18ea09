"""What compaction jobs keep in the storage, on either engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.metered_summarizer import MeteredSummarizer, MeteredSummary
from agent_runtime.compaction.summary_request import SummaryRequest
from agent_runtime.durable_compaction.compaction_parts import JobFacts, JobPart, JobRows
from agent_runtime.errors import AgentDestroyedError
from agent_runtime.identity import AgentRef
from agent_runtime.session.message import text_message
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.session_protocol import AttemptsRow, SessionRef, UsageRow
from tests.support.immediate_jobs import JobOwner
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, open_stores

pytestmark = pytest.mark.parametrize("engine", ENGINES)


class Priced(MeteredSummarizer):
    """A summarizer whose answers cost something."""

    max_prompt_chars = 6_000

    async def summarize(self, request: SummaryRequest) -> str:
        """Return a summary with characters that not every engine stores."""
        return "a\0 \ud800 summary"

    async def summarize_metered(self, request: SummaryRequest, **options: object) -> MeteredSummary:
        """Return it with its cost."""
        return MeteredSummary(await self.summarize(request), "priced", 10, 5, 0.25)


async def test_a_job_leaves_its_summary_and_what_it_cost(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """Its parts are gone; one usage record a call."""
    async with open_stores(engine, tmp_path, postgres, "o") as [store]:
        owner = JobOwner(store._storage, "o")
        session = owner.session.on_compaction(
            create_compact_function(Priced(), tail_token_budget=20)
        )
        await session.append_messages(
            [text_message("user", "x" * 900, id=f"m{n}") for n in range(20)]
        )
        result = await session.compact()

        assert result is not None
        assert result.summary == "a ? summary"
        usage = await store.reads.usage(SessionRef(AgentRef("Sessions", "o"), ""))
        assert [(row.model, row.input_tokens, row.cost) for row in usage] == [
            ("priced", 10, 0.25)
        ] * 4
        agent = AgentRef("Sessions", "o")
        keys = {row.key.rpartition("/")[0].rpartition("/")[0] for row in usage}
        assert [await store.reads.count_chunks(agent, key, 0) for key in keys] == [0]


async def test_a_part_is_summarized_once(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """The first summary counts, and its cost alone; parts are kept as they were planned."""
    async with open_stores(engine, tmp_path, postgres, "o") as [store]:
        ref = AgentRef("Sessions", "o")
        session = SessionRef(ref, "")
        rows = JobRows(store._storage, ref, await agent_number(store._storage, ref), "job/1")
        facts = JobFacts("m1", None, ["overlay"], "m0", "m1")
        await rows.begin(facts, [JobPart(None), JobPart(None)])
        await rows.begin(JobFacts("other", 1, []), [JobPart(None, 7_000)])
        for number in range(2):
            usage = UsageRow("job/1/0/0", "compaction", "m", 1 + number, 0, 0.0, 1)
            await rows.put_summary(0, 0, f"summary {number}", session, usage)

        assert await rows.facts() == facts
        assert await rows.summaries(0) == ["summary 0", None]
        assert [part.max_prompt_chars for part in await rows.parts(0)] == [None, None]
        assert [row.input_tokens for row in await store.reads.usage(session)] == [1]
        await rows.forget()
        with pytest.raises(AgentDestroyedError, match="or its session was deleted"):
            await rows.facts()


async def test_jobs_leave_those_of_other_sessions_alone(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """Only what begins with the prefix goes, but for the job's own."""
    async with open_stores(engine, tmp_path, postgres, "o") as [store]:
        ref = AgentRef("Sessions", "o")
        number = await agent_number(store._storage, ref)
        jobs = [JobRows(store._storage, ref, number, key) for key in ("a/1", "a/2", "b/1")]
        for job in jobs:
            await job.begin(JobFacts("m", None, []), [JobPart(None)])
        await jobs[1].forget_others("a/")

        assert [await job.count(0) for job in jobs] == [0, 1, 1]


async def test_attempts_of_a_session_that_has_gone_make_none(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """A job that ends after its session was deleted leaves no trace of it."""
    async with open_stores(engine, tmp_path, postgres, "o") as [store]:
        ref = SessionRef(AgentRef("Sessions", "o"), "gone")
        await agent_number(store._storage, ref.agent)
        await store._storage.write(
            lambda tx: tx.sessions.jobs.put_attempts(ref, AttemptsRow(3, 500.0))
        )

        assert await store.reads.attempts(ref) == AttemptsRow(0, 0.0)
