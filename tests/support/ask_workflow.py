"""A user's workflow that asks an agent which asks a model."""

from __future__ import annotations

from temporalio import workflow

from agent_runtime import AgentStep
from agent_runtime.errors import AgentRuntimeError


@workflow.defn
class AskTalker:
    """Asks, and asks once more after an error."""

    @workflow.run
    async def run(self, queue: str, name: str) -> list[str]:
        """Return the error's type and the answer."""
        talker = AgentStep("Talker", name, task_queue=queue)
        try:
            await talker.call_agent("say", "Hello")
        except AgentRuntimeError as error:
            answer = await talker.call_agent("say", None)
            return [type(error).__name__, answer["text"]]
        return []
