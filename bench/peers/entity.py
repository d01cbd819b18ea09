"""Entities on Temporal as written by hand: the floor, the usual way, and the bare prototype.

Imported into the workflow sandbox, so it imports nothing but Temporal.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

APPLY = "bench.apply"
ENTITY = "bench.Entity"
_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2)
)


@workflow.defn(name=ENTITY)
class Entity:
    """One agent with every form of update, so that all are measured on the same thing."""

    def __init__(self) -> None:
        self._count = 0

    @workflow.run
    async def run(self) -> None:
        """Serve until terminated."""
        await workflow.wait_condition(lambda: False)

    @workflow.update
    async def pure(self, operation: dict[str, Any]) -> int:
        """Change memory only: the least that an update on Temporal costs."""
        self._count += operation["by"]
        return self._count

    @workflow.update
    async def regular(self, operation: dict[str, Any]) -> int:
        """One regular activity per operation: what one writes by hand."""
        [result] = await workflow.execute_activity(
            APPLY,
            args=[workflow.info().workflow_id, [operation]],
            result_type=list[int],
            start_to_close_timeout=timedelta(seconds=10),
            retry_policy=_RETRIES,
        )
        return int(result)

    @workflow.update
    async def batch(self, operations: list[dict[str, Any]]) -> list[int]:
        """A list by one local activity, a regular one behind it: the bare prototype."""
        arguments = [workflow.info().workflow_id, operations]
        try:
            results: list[int] = await workflow.execute_local_activity(
                APPLY,
                args=arguments,
                result_type=list[int],
                start_to_close_timeout=timedelta(seconds=1),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
            return results
        except (ActivityError, ApplicationError):
            results = await workflow.execute_activity(
                APPLY,
                args=arguments,
                result_type=list[int],
                start_to_close_timeout=timedelta(seconds=5),
                retry_policy=_RETRIES,
            )
            return results
