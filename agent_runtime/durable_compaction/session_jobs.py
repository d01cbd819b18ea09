"""An agent's compactions as durable jobs."""

from __future__ import annotations

from collections.abc import Callable

from agent_runtime.call import CompactionRun
from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.durable_compaction.compaction_wait import check_may_wait
from agent_runtime.handlers.effects import Effects
from agent_runtime.identity import AgentRef
from agent_runtime.session.compaction_jobs import CompactionJobs
from agent_runtime.storage.session_protocol import SessionRef


class AgentCompactionJobs(CompactionJobs):
    """The `CompactionJobs` of an agent, usable in its handlers."""

    def __init__(self, agent: AgentRef, effects: Callable[[], Effects]) -> None:
        self._agent = agent
        self._effects = effects

    async def start(self, session_id: str) -> bool:
        """See `CompactionJobs.start`."""
        run = CompactionRun(*self._agent, session_id, is_automatic=True)
        return await self._effects().start_compaction(run)

    async def run(self, session_id: str, leaf_id: str | None) -> CompactResult | None:
        """See `CompactionJobs.run`."""
        check_may_wait()
        effects = self._effects()
        outcome = await effects.run_compaction(
            CompactionRun(*self._agent, session_id, leaf_id or "")
        )
        for row in await effects.sessions.overlays(SessionRef(self._agent, session_id)):
            if row.id == outcome.overlay_id:
                return CompactResult(row.from_id, row.to_id, row.summary)
        return None
