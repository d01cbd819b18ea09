"""Agent state and calls as durable steps of a user's own Temporal workflow.

Importable inside the workflow sandbox. Every step is an activity on the runtime's task queue; its
idempotency key is the run id and the activity id, so retries and replays of a step are the same
step, and steps of a run after a reset or continue-as-new are new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from agent_runtime.call import (
    CALL_ACTIVITY,
    DEFAULT_TASK_QUEUE,
    STEP_ACTIVITY,
    StepCall,
    StepMutation,
    StepReceipt,
    StepResult,
    handler_queue,
)
from agent_runtime.errors import (
    InvalidRequestError,
    NotSerializableError,
    StateTooLargeError,
    from_failure,
)
from agent_runtime.identity import agent_ref
from agent_runtime.session.parent import AUTO, Parent, parent_value

_COMMIT_TIMEOUT = timedelta(seconds=10)
_RUN_TIMEOUT = timedelta(days=30)
_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
_RETRIES = RetryPolicy(
    initial_interval=timedelta(milliseconds=200),
    backoff_coefficient=2,
    maximum_interval=timedelta(seconds=10),
)

MAX_STEP_BYTES = 2_090_000
"""The server takes 2 MiB; text beyond ASCII counts as its JSON escapes."""


@dataclass(frozen=True)
class CompactedRange:
    """The first and last message that a new summary stands for."""

    from_message_id: str
    to_message_id: str


class AgentStep:
    """Steps on one agent: `step = AgentStep("TaskAgent", "t-1")` inside a workflow.

    Any number of them may be made, for the same agent too. A refused step raises its typed error
    at once, as an `ApplicationError` that the workflow may catch by `type`; an agent that cannot be
    reached is waited for.

    Args:
        task_queue: The runtime's task queue.

    Raises:
        InvalidAgentError: One of the names cannot be an address.
        InvalidRequestError: The task queue is no text.
    """

    def __init__(self, class_name: str, name: str, *, task_queue: str = DEFAULT_TASK_QUEUE) -> None:
        self.ref = agent_ref(class_name, name)
        if not isinstance(task_queue, str):
            raise InvalidRequestError(f"task_queue must be a text, not {task_queue!r:.40}")
        self._task_queue = task_queue

    async def update_agent_state(
        self, state: Any, *, expected_version: int | None = None
    ) -> StepReceipt:
        """Replace the agent's state (state-and-sync 16.2).

        Raises:
            StateRejectedError: The type or validator refused; final, not retried.
            VersionConflictError: Another version is present.
            NotSerializableError: It is not JSON.
            InvalidRequestError: `expected_version` is no whole number.
        """
        return await self._mutate("set", state, expected_version)

    async def merge_agent_state(
        self, partial: dict[str, Any], *, expected_version: int | None = None
    ) -> StepReceipt:
        """Replace the named top-level keys; None is a value, nothing is removed.

        Raises:
            AgentRuntimeError: As `update_agent_state`.
        """
        return await self._mutate("merge", partial, expected_version)

    async def reset_agent_state(self) -> StepReceipt:
        """Put the class's `initial_state` back; `{}` where it has none."""
        return await self._mutate("reset", None, None)

    async def call_agent(self, method: str, *args: Any) -> Any:
        """Call a `@callable` method and return its result; cancelling the step cancels it.

        Raises:
            HandlerError: The method raised; not retried.
            InvalidRequestError: No such class or method, or not callable.
            NotSerializableError: An argument is not JSON.
        """
        return await self._call(method, list(args))

    async def append_message(
        self, message: dict[str, Any], *, session_id: str = "", parent_id: Parent = AUTO
    ) -> bool:
        """Append a message to one of the agent's conversations (sessions 4.1).

        Returns:
            False if a message of its id was there; nothing changed then.

        Raises:
            InvalidMessageError: It is no message, or has an id kept for summaries.
        """
        args = [session_id, [message], parent_value(parent_id)]
        [result] = await self._call("append_messages", args, "session")
        return bool(result["is_inserted"])

    async def compact_session(
        self, *, session_id: str = "", leaf_id: str | None = None
    ) -> CompactedRange | None:
        """Summarize a part of one of the agent's conversations now (sessions 9.1).

        Returns:
            The range that a summary now stands for; None if nothing was stored.

        Raises:
            SessionSetupError: The agent has no compaction function.
        """
        result = await self._call("compact", [session_id, leaf_id], "session")
        if result is None:
            return None
        return CompactedRange(result["from_message_id"], result["to_message_id"])

    async def _call(self, method: str, args: list[Any], event: str = "") -> Any:
        if not isinstance(method, str):
            raise InvalidRequestError(f"a method's name is a text, not {method!r:.40}")
        request = StepCall(self.ref.class_name, self.ref.name, method, args, event)
        size = _size(request, f"the arguments of {method}")
        if size > MAX_STEP_BYTES:
            raise InvalidRequestError(
                f"the arguments of {method} take {size} bytes, at most {MAX_STEP_BYTES} are "
                "allowed in a workflow; send where the data is instead",
                size=size,
                limit=MAX_STEP_BYTES,
            )
        try:
            result: StepResult = await workflow.execute_activity(
                CALL_ACTIVITY,
                request,
                result_type=StepResult,
                task_queue=handler_queue(self._task_queue),
                start_to_close_timeout=_RUN_TIMEOUT,
                heartbeat_timeout=_HEARTBEAT_TIMEOUT,
                retry_policy=_RETRIES,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"{self.ref}.{method}",
            )
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                raise (from_failure(error.cause) or error.cause) from error
            raise
        return result.result

    async def _mutate(self, kind: str, value: Any, expected_version: int | None) -> StepReceipt:
        if not isinstance(expected_version, int | None):
            raise InvalidRequestError(
                f"expected_version must be a whole number or None, not {expected_version!r:.40}"
            )
        step = StepMutation(self.ref.class_name, self.ref.name, kind, value, expected_version)
        size = _size(step, "the state")
        if size > MAX_STEP_BYTES:
            raise StateTooLargeError(
                f"the state of this step takes {size} bytes, at most {MAX_STEP_BYTES} are allowed "
                "in a workflow; keep bulk data in the agent's own tables or in a session",
                size=size,
                limit=MAX_STEP_BYTES,
            )
        try:
            receipt: StepReceipt = await workflow.execute_activity(
                STEP_ACTIVITY,
                step,
                result_type=StepReceipt,
                task_queue=self._task_queue,
                start_to_close_timeout=_COMMIT_TIMEOUT,
                retry_policy=_RETRIES,
                summary=f"{kind} {self.ref}",
            )
        except ActivityError as error:
            if isinstance(error.cause, ApplicationError):
                raise (from_failure(error.cause) or error.cause) from error
            raise
        return receipt


def _size(argument: object, what: str) -> int:
    # A workflow that schedules more than the server takes repeats its task for ever, and so does
    # one that raises an error of a converter.
    try:
        [payload] = workflow.payload_converter().to_payloads([argument])
    except Exception as error:
        raise NotSerializableError(f"{what} cannot be sent: {error}") from error
    return len(payload.data)
