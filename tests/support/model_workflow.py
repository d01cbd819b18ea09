"""A workflow that asks a model in an activity."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy


@workflow.defn
class AskModel:
    """Runs the activity `ask_model`; left to itself, Temporal would wait long between attempts."""

    @workflow.run
    async def run(self, question: str) -> str:
        """Return the model's answer."""
        answer: str = await workflow.execute_activity(
            "ask_model",
            question,
            start_to_close_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(initial_interval=timedelta(minutes=10), maximum_attempts=4),
            result_type=str,
        )
        return answer
