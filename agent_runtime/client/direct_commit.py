"""Committing in this process what its own worker serves, in place of an Update to the entity.

Nobody may be told of a mutation before storage has it, and then nobody needs a durable request any
more: with the entity too, storage decides, and a batch that a crash cuts short is repeated with the
same keys by who sent it. Handlers run where they would run anyway: the commit puts a call into the
agent's inbox, and whoever hosts its one run takes it from there. A crash before that run is asked
for leaves the call in the inbox, where the next worker's sweep finds it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from agent_runtime.errors import AgentRuntimeError, InternalError, UnknownAgentClassError
from agent_runtime.identity import AgentRef
from agent_runtime.mutation import AgentBatch, Outcome, decode_batches, encode_batch

logger = logging.getLogger("agent_runtime")

Commit = Callable[[AgentBatch], Awaitable[list[Outcome]]]

_COMMIT_SECONDS = 10.0
"""How long an attempt may take, as an Update; what waits longer is kept by Temporal better."""


async def commit_directly(
    commit: Commit, ref: AgentRef, mutations: Sequence[bytes]
) -> list[Outcome] | None:
    """Commit a batch in this process; None if it has to go through Temporal.

    That is so for a class that is not served here, and while storage does not answer.

    Idempotency: each mutation's key is stored with its effect; an attempt that was given up, and
    has succeeded all the same, is found by the next one.

    Args:
        mutations: As `encode_mutation` writes them, at least one.
    """
    try:
        # Through the text that would travel: the same checks, and values that nobody else holds.
        [batch] = decode_batches(encode_batch(ref, mutations))
        async with asyncio.timeout(_COMMIT_SECONDS):
            outcomes = await commit(batch)
    except TimeoutError:
        return None
    except AgentRuntimeError as error:
        return None if error.is_retryable else [error] * len(mutations)
    except Exception as error:
        # A bug: said once and final, as the activity does.
        logger.exception("commit failed")
        return [InternalError(f"commit failed: {type(error).__name__}")] * len(mutations)
    return None if isinstance(outcomes[0], UnknownAgentClassError) else outcomes
