"""The way from a handler to other agents: committed at once where this worker serves them.

A handler runs in an activity already, which is repeated if anything fails; so what it asks of other
agents needs no durable request of its own. Storage decides, as always. What cannot be committed
here goes the ordinary way.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agent_runtime.channel import Channel
from agent_runtime.errors import AgentRuntimeError, UnknownAgentClassError
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import (
    AgentBatch,
    Mutation,
    Outcome,
    Receipt,
    decode_batches,
    encode_batch,
    encode_mutation,
)

Commit = Callable[[AgentBatch], Awaitable[list[Outcome]]]


class DirectChannel(Channel):
    """A channel beside another one, for the handlers of a worker.

    Args:
        channel: The ordinary way.
        commit: Commits a batch in this process.
    """

    def __init__(self, channel: Channel, commit: Commit) -> None:
        super().__init__(
            channel.temporal,
            channel.updates,
            storage=channel.storage,
            task_queue=channel.task_queue,
            timeout=channel.timeout,
            entity=channel.entity,
        )
        self.outcomes = channel.outcomes
        self._channel = channel
        self._commit = commit

    async def submit(self, ref: AgentRef, mutation: Mutation) -> Receipt:
        """See `Channel.submit`."""
        # Through the text that would travel: the same checks, and a value that nobody else holds.
        [batch] = decode_batches(encode_batch(ref, [encode_mutation(mutation)]))
        try:
            [outcome] = await self._commit(batch)
        except AgentRuntimeError as error:
            if not error.is_retryable:
                raise
            return await self._channel.submit(ref, mutation)
        if isinstance(outcome, UnknownAgentClassError):
            return await self._channel.submit(ref, mutation)
        if isinstance(outcome, AgentRuntimeError):
            raise outcome
        return outcome
