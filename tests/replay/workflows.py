"""A user's workflow with steps, as it is recorded and replayed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from agent_runtime import AgentStep


@workflow.defn
class Progress:
    """Uses every kind of step, in order and at the same time, and catches a refusal."""

    @workflow.run
    async def run(self, agent: str, task_queue: str) -> list[int]:
        """Return the versions that its steps made."""
        step = AgentStep("Task", agent, task_queue=task_queue)
        again = AgentStep("Task", agent, task_queue=task_queue)
        first = await step.update_agent_state({"progress": 0, "notes": []})
        parts = await asyncio.gather(
            *(again.merge_agent_state({f"part{number}": number}) for number in range(3))
        )
        try:
            await step.merge_agent_state({"progress": -1})
        except ApplicationError as error:
            if error.type != "StateRejectedError":
                raise
        await workflow.sleep(timedelta(milliseconds=10))
        called = await step.call_agent("advance", 10)
        last = await step.reset_agent_state()
        return [first.version, *sorted(part.version for part in parts), called, last.version]
