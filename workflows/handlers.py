"""Hosts one agent's handlers while there are any: calls and change hooks, on one worker."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from agent_runtime.call import HANDLERS_ACTIVITY, HANDLERS_WORKFLOW
from agent_runtime.identity import AgentRef

# A worker that died is noticed by the missing heartbeat; handlers have timeouts of their own.
RUN_TIMEOUT = timedelta(days=365)
HEARTBEAT_TIMEOUT = timedelta(seconds=5)
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=100),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=10),
)


@workflow.defn(name=HANDLERS_WORKFLOW, sandboxed=False)
class AgentHandlers:
    """At most one run per agent, so that an agent's code lives in one process at a time.

    The inbox in storage says what is to run: a new attempt goes on where the last one ended.
    """

    @workflow.run
    async def run(self, agent: str, name: str) -> None:
        """Run handlers until the agent's inbox has been empty for a moment."""
        await workflow.execute_activity(
            HANDLERS_ACTIVITY,
            args=[agent, name],
            start_to_close_timeout=RUN_TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRIES,
            summary=f"handlers of {AgentRef(agent, name)}",
        )
