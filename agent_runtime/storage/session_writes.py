"""All writing to sessions within a unit of work."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_runtime.identity import AgentRef
from agent_runtime.storage.compaction_jobs import CompactionJobs
from agent_runtime.storage.message_tree import MessageTree
from agent_runtime.storage.session_context import SessionContext
from agent_runtime.storage.session_dialect import SessionDialect
from agent_runtime.storage.session_protocol import SessionWrites
from agent_runtime.storage.session_reads import SqlSessionReads
from agent_runtime.storage.session_registry import SessionRegistry
from agent_runtime.storage.session_rows import Run, RunMany, SessionRows


class SqlSessionWrites(SessionWrites):
    """`SessionWrites` as named statements of either engine."""

    def __init__(
        self,
        run: Run,
        run_many: RunMany,
        dialect: SessionDialect,
        make_agent: Callable[[AgentRef], Awaitable[int]],
    ) -> None:
        rows = SessionRows(run, run_many, dialect, make_agent)
        self._messages = MessageTree(rows)
        self._context = SessionContext(rows)
        self._registry = SessionRegistry(rows)
        self._jobs = CompactionJobs(rows, self._registry)
        self._reads = SqlSessionReads(run, dialect)

    @property
    def messages(self) -> MessageTree:
        """See `SessionWrites.messages`."""
        return self._messages

    @property
    def context(self) -> SessionContext:
        """See `SessionWrites.context`."""
        return self._context

    @property
    def registry(self) -> SessionRegistry:
        """See `SessionWrites.registry`."""
        return self._registry

    @property
    def jobs(self) -> CompactionJobs:
        """See `SessionWrites.jobs`."""
        return self._jobs

    @property
    def reads(self) -> SqlSessionReads:
        """See `SessionWrites.reads`."""
        return self._reads
