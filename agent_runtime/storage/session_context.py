"""Writing what surrounds a session's messages: context blocks, prompts, searchable entries."""

from __future__ import annotations

from agent_runtime.clock import now_milliseconds
from agent_runtime.storage import context_statements as sql
from agent_runtime.storage.search_terms import index_terms
from agent_runtime.storage.session_protocol import (
    ContextWrites,
    Namespace,
    PromptRow,
    SessionRef,
)
from agent_runtime.storage.session_rows import SessionRows


class SessionContext(ContextWrites):
    """`ContextWrites` as named statements."""

    def __init__(self, rows: SessionRows) -> None:
        self._rows = rows
        self._run = rows.run

    async def put_context(
        self, ref: SessionRef, label: str, content: str, *, expected_version: int | None = None
    ) -> bool:
        """See `ContextWrites.put_context`."""
        session = await self._rows.open(ref)
        if expected_version is not None:
            rows = await self._run(sql.CONTEXT_VERSION, (session.number, label))
            if (rows[0][0] if rows else 0) != expected_version:
                return False
        await self._run(sql.PUT_CONTEXT, (session.number, label, now_milliseconds(), content))
        return True

    async def put_prompt(self, ref: SessionRef, prompt: PromptRow) -> None:
        """See `ContextWrites.put_prompt`."""
        session = await self._rows.open(ref)
        await self._run(
            sql.PUT_PROMPT, (session.number, prompt.fingerprint, now_milliseconds(), prompt.prompt)
        )

    async def put_entry(self, namespace: Namespace, key: str, content: str) -> None:
        """See `ContextWrites.put_entry`."""
        agent_id = await self._rows.make_agent(namespace.agent)
        await self._run(sql.ADD_NAMESPACE, (agent_id, namespace.name, namespace.label))
        at = (*namespace.agent, namespace.name, namespace.label)
        [(number,)] = await self._run(sql.FIND_NAMESPACE, at)
        now = now_milliseconds()
        await self._run(sql.PUT_ENTRY, (number, key, now, now, content))
        [(entry,)] = await self._run(sql.FIND_ENTRY, (number, key))
        await self._run(self._rows.dialect.delete_entry_terms, (entry,))
        terms = index_terms(content, number)
        if terms:
            await self._run(self._rows.dialect.put_entry_terms, (entry, terms))
