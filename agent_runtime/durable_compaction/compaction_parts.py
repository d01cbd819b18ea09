"""What a compaction job keeps on its way: what it was to do, and its parts, as rows of text.

Stage -1 holds what the whole job is about, stage 0 the parts of the conversation, and each further
stage what came of the one before: its summaries to be merged, or shorter parts of what was too long
for the summarizer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass

from agent_runtime.compaction.summary_request import SummaryRequest
from agent_runtime.errors import AgentDestroyedError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.storage.protocol import Storage, Transaction
from agent_runtime.storage.session_protocol import SessionRef, UsageRow

_FACTS = -1


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What a job is about.

    Args:
        leaf_id: The end of the path that is summarized.
        tokens_before: The session's estimate, None if nobody wants to know.
        overlay_ids: Of the summaries that the history held when the range was chosen.
        from_message_id, to_message_id: The range; empty if the function is to choose it.
        previous: What earlier summaries within the range say.
        budget_tokens: About how long the summary is to be.
    """

    leaf_id: str
    tokens_before: int | None
    overlay_ids: Sequence[str]
    from_message_id: str = ""
    to_message_id: str = ""
    previous: str | None = None
    budget_tokens: int = 0


@dataclass(frozen=True, slots=True)
class JobPart:
    """One summary of a stage.

    Args:
        request: None if the session's own compaction function does it all.
        max_prompt_chars: What the stage was cut for; None if any length will do.
    """

    request: SummaryRequest | None
    max_prompt_chars: int | None = None
    summary: str | None = None

    @property
    def is_last(self) -> bool:
        """Whether its summary is the job's."""
        return self.request is None or not self.request.is_part


class JobRows:
    """The rows of one job.

    Args:
        agent_id: The agent's number; nothing is written to another one of its name.
        key: The job's name.
    """

    def __init__(self, storage: Storage, agent: AgentRef, agent_id: int, key: str) -> None:
        self.key = key
        self._storage = storage
        self._agent = agent
        self._agent_id = agent_id

    async def begin(self, facts: JobFacts, parts: Sequence[JobPart]) -> None:
        """Keep what the job is about with its first parts, unless that was done."""

        async def unit(tx: Transaction) -> None:
            await tx.sessions.jobs.put_chunks(self._agent, self.key, _FACTS, [_text(asdict(facts))])
            await self._put(tx, 0, parts)

        await self._write(unit)

    async def facts(self) -> JobFacts:
        """Return what the job is about.

        Raises:
            AgentDestroyedError: The job has gone, and with it the session or the agent.
        """
        row = await self._storage.sessions.chunk(self._agent, self.key, _FACTS, 0)
        if row is None:
            raise _gone_error(self._agent)
        return JobFacts(**from_json(row.request))

    async def count(self, stage: int) -> int:
        """Return how many parts a stage has, 0 if it was not begun."""
        return await self._storage.sessions.count_chunks(self._agent, self.key, stage)

    async def part(self, stage: int, position: int) -> JobPart:
        """Return a part.

        Raises:
            AgentDestroyedError: The job has gone, and with it the session or the agent.
        """
        row = await self._storage.sessions.chunk(self._agent, self.key, stage, position)
        if row is None:
            raise _gone_error(self._agent)
        fields = from_json(row.request)
        request = None if fields["request"] is None else _request(fields["request"])
        return JobPart(request, fields["max_prompt_chars"], row.summary)

    async def parts(self, stage: int) -> list[JobPart]:
        """Return a stage's parts in order."""
        return [await self.part(stage, position) for position in range(await self.count(stage))]

    async def summaries(self, stage: int) -> list[str | None]:
        """Return a stage's summaries in order, None for what is not summarized yet."""
        return await self._storage.sessions.summaries(self._agent, self.key, stage)

    async def add_stage(self, stage: int, parts: Sequence[JobPart]) -> None:
        """Keep the parts of a further stage, all or none."""

        async def unit(tx: Transaction) -> None:
            await self._put(tx, stage, parts)

        await self._write(unit)

    async def put_summary(
        self, stage: int, position: int, summary: str, session: SessionRef, usage: UsageRow | None
    ) -> None:
        """Keep a part's summary with what it cost; one that is kept already counts."""

        async def unit(tx: Transaction) -> None:
            jobs = tx.sessions.jobs
            is_first = await jobs.put_summary(self._agent, self.key, stage, position, summary)
            if is_first and usage is not None:
                await jobs.add_usage(session, usage)

        await self._write(unit)

    async def add_usage(self, session: SessionRef, usage: UsageRow) -> None:
        """Note what a call of a model has cost."""

        async def unit(tx: Transaction) -> None:
            await tx.sessions.jobs.add_usage(session, usage)

        await self._write(unit)

    async def forget(self) -> None:
        """Drop all that the job has kept."""

        async def unit(tx: Transaction) -> None:
            await tx.sessions.jobs.delete_job(self._agent, self.key)

        await self._write(unit)

    async def forget_others(self, prefix: str) -> None:
        """Drop what jobs before this one have left, those whose workflow was terminated."""

        async def unit(tx: Transaction) -> None:
            await tx.sessions.jobs.delete_jobs(self._agent, prefix, keep=self.key)

        await self._write(unit)

    async def _write(self, unit: Callable[[Transaction], Awaitable[None]]) -> None:
        async def held(tx: Transaction) -> None:
            await tx.hold_agent(self._agent_id)
            await unit(tx)

        await self._storage.write(held)

    async def _put(self, tx: Transaction, stage: int, parts: Sequence[JobPart]) -> None:
        jobs = tx.sessions.jobs
        await jobs.put_chunks(self._agent, self.key, stage, [_row(part) for part in parts])
        for position, part in enumerate(parts):
            if part.summary is not None:
                await jobs.put_summary(self._agent, self.key, stage, position, part.summary)


def _row(part: JobPart) -> str:
    return _text(
        {
            "request": None if part.request is None else _fields(part.request),
            "max_prompt_chars": part.max_prompt_chars,
        }
    )


def _fields(request: SummaryRequest) -> dict[str, Json]:
    return {
        "messages": list(request.messages),
        "previous": request.previous,
        "budget_tokens": request.budget_tokens,
        "partial_summaries": list(request.partial_summaries),
        "is_part": request.is_part,
    }


def _request(fields: dict[str, Json]) -> SummaryRequest:
    return SummaryRequest(
        tuple(fields["messages"]),
        fields["previous"],
        fields["budget_tokens"],
        tuple(fields["partial_summaries"]),
        fields["is_part"],
    )


def _text(value: Json) -> str:
    return pack(value).decode()


def _gone_error(agent: AgentRef) -> AgentDestroyedError:
    return AgentDestroyedError(
        f"{agent} or its session was deleted meanwhile; the compaction ends and stores nothing"
    )
