"""All reading of sessions, past the writer."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.identity import AgentRef
from agent_runtime.storage import context_statements as sql
from agent_runtime.storage import job_statements as jobs
from agent_runtime.storage.message_reads import MessageReads
from agent_runtime.storage.search_terms import query_phrases
from agent_runtime.storage.session_protocol import (
    MAX_DAY,
    AttemptsRow,
    ChunkRow,
    ContextRow,
    DayUsageRow,
    EntryRow,
    Namespace,
    PromptRow,
    RecordRow,
    SessionReads,
    SessionRef,
    UsageRow,
)


class SqlSessionReads(MessageReads, SessionReads):
    """`SessionReads` as named statements of either engine."""

    async def context(self, ref: SessionRef, label: str) -> ContextRow | None:
        """See `SessionReads.context`."""
        for row in await self._read(sql.READ_CONTEXT, (*ref.agent, ref.session_id, label)):
            return ContextRow(*row)
        return None

    async def context_labels(self, ref: SessionRef) -> list[str]:
        """See `SessionReads.context_labels`."""
        rows = await self._read(sql.READ_CONTEXT_LABELS, (*ref.agent, ref.session_id))
        return [label for (label,) in rows]

    async def prompt(self, ref: SessionRef) -> PromptRow | None:
        """See `SessionReads.prompt`."""
        for row in await self._read(sql.READ_PROMPT, (*ref.agent, ref.session_id)):
            return PromptRow(*row)
        return None

    async def count_entries(self, namespace: Namespace) -> int:
        """See `SessionReads.count_entries`."""
        number = await self._namespace(namespace)
        if number is None:
            return 0
        [(count,)] = await self._read(sql.COUNT_ENTRIES, (number,))
        return int(count)

    async def search_entries(
        self, namespace: Namespace, query: str, limit: int
    ) -> list[tuple[str, str]]:
        """See `SessionReads.search_entries`."""
        number = await self._namespace(namespace)
        phrases = query_phrases(query, number) if number is not None else []
        if not phrases:
            return []
        asked = self._dialect.search_query([phrases])
        rows = await self._read(self._dialect.search_entries, (asked, limit))
        return [(key, content) for key, content in rows]

    async def entries(self, agent: AgentRef, name: str) -> list[EntryRow]:
        """See `SessionReads.entries`."""
        return [EntryRow(*row) for row in await self._read(sql.LIST_ENTRIES, (*agent, name))]

    async def record(self, ref: SessionRef) -> RecordRow | None:
        """See `SessionReads.record`."""
        for row in await self._read(sql.READ_RECORD, (*ref.agent, ref.session_id)):
            return RecordRow(*row)
        return None

    async def records(self, agent: AgentRef, *, limit: int, offset: int = 0) -> list[RecordRow]:
        """See `SessionReads.records`."""
        rows = await self._read(sql.LIST_RECORDS, (*agent, limit, offset))
        return [RecordRow(*row) for row in rows]

    async def registered_ids(self, agent: AgentRef) -> list[str]:
        """See `SessionReads.registered_ids`."""
        return [each for (each,) in await self._read(sql.LIST_REGISTERED_IDS, agent)]

    async def session_ids(self, agent: AgentRef) -> list[str]:
        """See `SessionReads.session_ids`."""
        return [each for (each,) in await self._read(sql.LIST_SESSION_IDS, agent)]

    async def chunk(self, agent: AgentRef, job: str, stage: int, position: int) -> ChunkRow | None:
        """See `SessionReads.chunk`."""
        for row in await self._read(jobs.READ_CHUNK, (*agent, job, stage, position)):
            return ChunkRow(*row)
        return None

    async def count_chunks(self, agent: AgentRef, job: str, stage: int) -> int:
        """See `SessionReads.count_chunks`."""
        [(count,)] = await self._read(jobs.COUNT_CHUNKS, (*agent, job, stage))
        return int(count)

    async def summaries(self, agent: AgentRef, job: str, stage: int) -> list[str | None]:
        """See `SessionReads.summaries`."""
        rows = await self._read(jobs.READ_SUMMARIES, (*agent, job, stage))
        return [summary for (summary,) in rows]

    async def attempts(self, ref: SessionRef) -> AttemptsRow:
        """See `SessionReads.attempts`."""
        for row in await self._read(jobs.READ_ATTEMPTS, (*ref.agent, ref.session_id)):
            return AttemptsRow(*row)
        return AttemptsRow()

    async def usage(self, ref: SessionRef) -> list[UsageRow]:
        """See `SessionReads.usage`."""
        rows = await self._read(jobs.READ_USAGE, (*ref.agent, ref.session_id))
        return [UsageRow(*row) for row in rows]

    async def usage_of_days(
        self,
        agent: AgentRef,
        *,
        session_id: str | None = None,
        since: int = 0,
        until: int = MAX_DAY,
        limit: int,
        offset: int = 0,
    ) -> list[DayUsageRow]:
        """See `SessionReads.usage_of_days`."""
        wanted = {
            "class_name": agent.class_name,
            "name": agent.name,
            "since": since,
            "until": until,
            "limit": limit,
            "offset": offset,
        }
        if session_id is None:
            rows = await self._read(jobs.READ_USAGE_OF_DAYS, wanted)
        else:
            of_session = {**wanted, "session_id": session_id}
            rows = await self._read(jobs.READ_SESSION_USAGE_OF_DAYS, of_session)
        return [DayUsageRow(*row) for row in rows]

    async def _namespace(self, namespace: Namespace) -> int | None:
        at: Sequence[str] = (*namespace.agent, namespace.name, namespace.label)
        for (number,) in await self._read(sql.FIND_NAMESPACE, at):
            return int(number)
        return None
