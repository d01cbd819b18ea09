"""A handler call under way, from its caller's side."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from agent_runtime.argument_check import check_timeout
from agent_runtime.client.channel import Channel
from agent_runtime.errors import CallTimeoutError, from_record
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.mutation import Mutation, MutationKind


class AgentCall:
    """A handler call under way; it survives this process.

    Args:
        key: Its idempotency key.
    """

    def __init__(self, channel: Channel, ref: AgentRef, key: str) -> None:
        self.ref = ref
        self.key = key
        self._channel = channel

    async def result(self, *, timeout: timedelta | None = None) -> Json:
        """Wait for the handler and return its result; may be asked again.

        Raises:
            AgentRuntimeError: As `AgentHandle.call`.
        """
        check_timeout(timeout)
        try:
            async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
                outcome = await self._channel.outcomes.wait(self.ref, self.key)
        except TimeoutError:
            raise CallTimeoutError(
                f"the call {self.key} of {self.ref} still runs; ask again with the same key"
            ) from None
        if "error" in outcome:
            raise from_record(outcome["error"])
        return outcome["result"]

    async def cancel(self) -> None:
        """Ask the handler to stop; `result` then raises `HandlerCancelledError`."""
        await self._channel.submit(self.ref, Mutation(self.key, MutationKind.CANCEL))
