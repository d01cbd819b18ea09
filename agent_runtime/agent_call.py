"""A handler call under way, from its caller's side."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError
from temporalio.service import RPCError

from agent_runtime.call import CallResult
from agent_runtime.connection import unreachable
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    HandlerCancelledError,
    HandlerError,
    IdempotencyConflictError,
    from_failure,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json


class AgentCall:
    """A handler call under way; survives this process."""

    def __init__(
        self,
        ref: AgentRef,
        key: str,
        handle: WorkflowHandle[Any, CallResult],
        asked: str,
    ) -> None:
        self.ref = ref
        self.key = key
        self._handle = handle
        self._asked = asked

    async def result(self, *, timeout: timedelta | None = None) -> Json:
        """Wait for the handler and return its result; may be asked again.

        Raises:
            AgentRuntimeError: As `AgentHandle.call`.
        """
        try:
            async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
                result = await self._handle.result()
        except TimeoutError:
            raise CallTimeoutError(
                f"the call {self.key} of {self.ref} still runs; ask again with the same key"
            ) from None
        except WorkflowFailureError as error:
            raise _call_failure(self.ref, error) from error
        except RPCError as error:
            raise unreachable(error) from error
        if result.fingerprint != self._asked:
            raise IdempotencyConflictError(
                f"idempotency key {self.key!r} was used for another call of {self.ref}; "
                "use a new key for a new call",
                key=self.key,
            )
        return result.result

    async def cancel(self) -> None:
        """Ask the handler to stop; `result` then raises `HandlerCancelledError`."""
        await self._handle.cancel()


def _call_failure(ref: AgentRef, error: WorkflowFailureError) -> AgentRuntimeError:
    cause: BaseException | None = error.cause
    found = from_failure(cause)
    if found is not None:
        return found
    if isinstance(cause, (CancelledError, TerminatedError)):
        return HandlerCancelledError(f"the call of {ref} was cancelled")
    return HandlerError(f"the call of {ref} failed: {cause}")
