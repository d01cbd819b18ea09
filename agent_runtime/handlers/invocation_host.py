"""What an invocation needs of the process it runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.mutation import Mutation
from agent_runtime.storage.protocol import Storage

if TYPE_CHECKING:
    from agent_runtime.agent import Agent
    from agent_runtime.client.handle import AgentHandle
    from agent_runtime.identity import AgentRef
    from agent_runtime.mutation import Outcome


class InvocationHost(Protocol):
    """A process that agents live in, as their handlers' effects see it."""

    @property
    def storage(self) -> Storage:
        """Where effects are noted."""

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return another agent, as handlers reach it."""

    async def commit(
        self,
        agent: Agent[Any],
        mutations: list[Mutation],
        update: Callable[[Any], Any] | None,
        hook_depth: int,
        agent_id: int | None = None,
    ) -> list[Outcome]:
        """Commit mutations of an agent that lives in this process."""

    async def start_compaction(self, run: CompactionRun) -> bool:
        """Begin a compaction job; False if one runs for the session and branch already."""

    async def run_compaction(self, run: CompactionRun, key: str) -> CompactionOutcome:
        """Run a compaction job, or join the one that runs, and wait for its end."""

    async def destroy(self, ref: AgentRef, mutation: Mutation, agent_id: int, call: str) -> None:
        """Destroy an agent from within a call of it."""
