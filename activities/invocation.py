"""Handlers: the host of one agent's inbox, and calls that workflows make."""

from __future__ import annotations

import asyncio

from temporalio import activity

from agent_runtime.activities.final_failure import as_final
from agent_runtime.activities.staying_alive import staying_alive
from agent_runtime.call import CALL_ACTIVITY, HANDLERS_ACTIVITY, StepCall, StepResult
from agent_runtime.errors import AgentRuntimeError, from_record
from agent_runtime.handlers.runner import run_handlers
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import agent_ref
from agent_runtime.json_value import to_json
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, call_value


class InvocationActivities:
    """Activities that run the code of agents, or wait for it."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host

    @activity.defn(name=HANDLERS_ACTIVITY)
    async def handlers(self, agent: str, name: str) -> int:
        """Run an agent's handlers until its inbox has been empty for a moment.

        Idempotency: an entry stays in the inbox until its outcome is stored; a repeat runs what is
        left, and effects committed before the crash are found in each invocation's journal.
        """
        async with staying_alive():
            return await run_handlers(self._host, agent_ref(agent, name))

    @activity.defn(name=CALL_ACTIVITY)
    async def call(self, step: StepCall) -> StepResult:
        """Call an agent's handler for a workflow and return its result.

        Idempotency: the key is the run id and the activity id; a repeat waits for the same call.
        """
        info = activity.info()
        ref, key = agent_ref(step.agent, step.name), f"{info.workflow_run_id}/{info.activity_id}"
        to_json(step.args, what="the arguments")
        value = call_value(step.method, step.args, event=step.event)
        async with staying_alive():
            await self._submit(AgentBatch(ref, [Mutation(key, MutationKind.CALL, value)]))
            try:
                outcome = await self._host.outcomes.wait(ref, key)
            except asyncio.CancelledError:
                details = activity.cancellation_details()
                if details is not None and details.cancel_requested:
                    await self._submit(AgentBatch(ref, [Mutation(key, MutationKind.CANCEL)]))
                raise
        if "error" in outcome:
            raise as_final(from_record(outcome["error"]))
        return StepResult(outcome["result"])

    async def _submit(self, batch: AgentBatch) -> None:
        [outcome] = await self._host.commit_batch(batch)
        if isinstance(outcome, AgentRuntimeError):
            raise outcome
