"""Runs an agent's pending change hooks; woken after each commit that left some."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

from agent_runtime.call import HOOKS_ACTIVITY, HOOKS_WORKFLOW, WAKE_SIGNAL
from agent_runtime.identity import AgentRef

RUN_TIMEOUT = timedelta(days=30)
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=30),
)
MAX_ROUNDS = 50


@workflow.defn(name=HOOKS_WORKFLOW, sandboxed=False)
class StateHooks:
    """One at a time per agent; each round runs all that is pending."""

    @workflow.init
    def __init__(self, agent: str, name: str) -> None:
        self._is_awake = True

    @workflow.run
    async def run(self, agent: str, name: str) -> None:
        """Run rounds until no commit has asked for another."""
        rounds = 0
        while self._is_awake:
            self._is_awake = False
            await workflow.execute_activity(
                HOOKS_ACTIVITY,
                args=[agent, name],
                start_to_close_timeout=RUN_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRIES,
                summary=f"{AgentRef(agent, name)} on_state_changed",
            )
            rounds += 1
            if self._is_awake and rounds >= MAX_ROUNDS:
                workflow.continue_as_new(args=[agent, name])

    @workflow.signal(name=WAKE_SIGNAL)
    def wake(self) -> None:
        """Ask for another round."""
        self._is_awake = True
