"""One handler call as a workflow: durable, cancellable, and seen by name in the Temporal UI."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from agent_runtime.call import CALL_ACTIVITY, CALL_WORKFLOW, CallRequest, CallResult

# A handler's own timeout ends it; a worker that died is noticed by the missing heartbeat.
RUN_TIMEOUT = timedelta(days=30)
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=10),
)


@workflow.defn(name=CALL_WORKFLOW, sandboxed=False)
class Call:
    """Runs one activity; apart from the entity so that a slow handler never slows state down."""

    @workflow.run
    async def run(self, request: CallRequest) -> CallResult:
        """Return the handler's result; a failure carries its typed error."""
        try:
            result: CallResult = await workflow.execute_activity(
                CALL_ACTIVITY,
                request,
                result_type=CallResult,
                start_to_close_timeout=RUN_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRIES,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{request.agent}.{request.method}",
            )
            return result
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                raise error.cause from None
            raise
