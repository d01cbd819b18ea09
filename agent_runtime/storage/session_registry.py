"""Writing the registry of an agent's sessions, and results of operations by key (contract 19)."""

from __future__ import annotations

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import IdempotencyConflictError
from agent_runtime.identity import AgentRef, compaction_job_prefix
from agent_runtime.storage import context_statements as sql
from agent_runtime.storage import job_statements as jobs
from agent_runtime.storage.session_protocol import RecordRow, RegistryWrites, SessionRef
from agent_runtime.storage.session_rows import SessionRows


def session_namespace(session_id: str) -> str:
    """Return the name that a session's own searchable entries are kept under."""
    return f"session:{session_id}"


def shared_namespace(name: str) -> str:
    """Return the name for entries that sessions of an agent share on purpose."""
    return f"shared:{name}"


class SessionRegistry(RegistryWrites):
    """`RegistryWrites` as named statements."""

    def __init__(self, rows: SessionRows) -> None:
        self._rows = rows
        self._run = rows.run
        self._run_many = rows.run_many

    async def create_record(self, agent: AgentRef, record: RecordRow) -> RecordRow:
        """See `RegistryWrites.create_record`."""
        agent_id = await self._rows.make_agent(agent)
        counter = await self._next_update(agent_id)
        await self._run(
            sql.ADD_RECORD,
            (
                agent_id,
                record.id,
                record.name,
                record.parent_session_id,
                record.model,
                record.source,
                record.input_tokens,
                record.output_tokens,
                record.estimated_cost,
                record.end_reason,
                record.created_at,
                record.updated_at,
                counter,
            ),
        )
        [row] = await self._run(sql.FIND_RECORD, (agent_id, record.id))
        return RecordRow(*row)

    async def update_record(
        self,
        agent: AgentRef,
        session_id: str,
        *,
        name: str | None = None,
        end_reason: str | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost: float = 0.0,
    ) -> bool:
        """See `RegistryWrites.update_record`."""
        for (agent_id,) in await self._run(sql.FIND_AGENT, agent):
            if not await self._run(sql.FIND_RECORD, (agent_id, session_id)):
                return False
            counter = await self._next_update(agent_id)
            now = now_milliseconds()
            await self._run(
                sql.UPDATE_RECORD,
                (
                    name,
                    end_reason,
                    input_tokens,
                    output_tokens,
                    cost,
                    now,
                    counter,
                    agent_id,
                    session_id,
                ),
            )
            return True
        return False

    async def touch_record(self, ref: SessionRef) -> None:
        """See `RegistryWrites.touch_record`."""
        now = now_milliseconds()
        await self._run(sql.TOUCH_RECORD, (now, *ref.agent, ref.session_id))

    async def delete_session(self, ref: SessionRef) -> None:
        """See `RegistryWrites.delete_session`."""
        # The session before its record, the order in which appends take them.
        session = await self._rows.find(ref)
        for (agent_id,) in await self._run(sql.FIND_AGENT, ref.agent):
            await self._run(sql.DELETE_RECORD, (agent_id, ref.session_id))
            await self._run(jobs.DELETE_SESSION_USAGE, (agent_id, ref.session_id))
            await self._run(jobs.DELETE_SESSION_USAGE_OF_DAYS, (agent_id, ref.session_id))
            # What a dead job of its active path has left; one that runs finds its plan missing.
            prefix = compaction_job_prefix(ref.session_id, "")
            await self._run(jobs.DELETE_JOBS, (agent_id, prefix, f"{prefix[:-1]}0", ""))
        namespace = session_namespace(ref.session_id)
        for (number,) in await self._run(sql.FIND_NAMESPACES, (*ref.agent, namespace)):
            entries = await self._run(sql.READ_ENTRY_NUMBERS, (number,))
            await self._run_many(self._rows.dialect.delete_entry_terms, entries)
            await self._run(sql.DELETE_ENTRIES, (number,))
            await self._run(sql.DELETE_NAMESPACE, (number,))
        if session is not None:
            await self._rows.clear(session.number)
            for statement in (
                sql.DELETE_CONTEXTS,
                sql.DELETE_PROMPT,
                jobs.DELETE_ATTEMPTS,
                sql.DELETE_SESSION,
            ):
                await self._run(statement, (session.number,))

    async def recall_operation(self, agent: AgentRef, key: str, fingerprint: str) -> str | None:
        """See `RegistryWrites.recall_operation`."""
        agent_id = await self._rows.make_agent(agent)
        now = now_milliseconds()
        # Taking the key waits for another transaction that has it, and then shows its result.
        await self._run(sql.TAKE_OPERATION, (agent_id, key, fingerprint, now))
        [(found, result)] = await self._run(sql.RECALL_OPERATION, (agent_id, key))
        if found != fingerprint:
            raise IdempotencyConflictError(
                f"the operation key {key!r} was used before for something else; use a new one",
                key=key,
            )
        return str(result) or None

    async def record_operation(self, agent: AgentRef, key: str, result: str) -> None:
        """See `RegistryWrites.record_operation`."""
        agent_id = await self._rows.make_agent(agent)
        await self._run(sql.RECORD_OPERATION, (result, agent_id, key))

    async def _next_update(self, agent_id: int) -> int:
        for (counter,) in await self._run(sql.NEXT_UPDATE, (agent_id,)):
            return int(counter)
        return 1
