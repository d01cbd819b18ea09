"""One Update in flight per agent and process, carrying all that arrived meanwhile.

The server takes ten Updates in flight per workflow from all clients together, and one too many
ruins the agent for all; so a process sends one at a time, as a list. A process that meets the limit
goes over to signals with answers read from storage, which have none. One that can commit by itself
needs neither.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from temporalio.client import (
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime.call import ROLLING_OVER
from agent_runtime.client.deadlines import Deadlines
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    ConfigurationError,
    InternalError,
    TemporalUnreachableError,
    UnavailableError,
    from_failure,
)
from agent_runtime.mutation import Outcome

T = TypeVar("T")

MAX_MUTATIONS = 500
MAX_BYTES = 256 * 1024
RPC_TIMEOUT = timedelta(seconds=10)
_FIRST_PAUSE_SECONDS = 0.02
_MAX_PAUSE_SECONDS = 2.0
# Trying updates again costs all clients of a crowded agent a second or two, so seldom is better.
_FIRST_ONE_WAY_SECONDS = 60.0
_MAX_ONE_WAY_SECONDS = 900.0
_ANSWER_SECONDS = 3.0
_UNPROCESSED = "UnprocessedUpdate"
"""What the server calls an Update that a worker was given and did not answer, as when it dies."""

_PASSING = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.ABORTED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.NOT_FOUND,
    RPCStatusCode.RESOURCE_EXHAUSTED,
    RPCStatusCode.UNKNOWN,
}


class BatchSender(Protocol):
    """How batches reach the agent."""

    async def commit_here(self, mutations: list[bytes]) -> list[Outcome] | None:
        """Commit in this process; None if it cannot."""

    async def send(self, batch_id: str, mutations: list[bytes]) -> list[Outcome]:
        """Send an Update and return its outcomes."""

    async def send_one_way(self, batch_id: str, mutations: list[bytes]) -> None:
        """Send a signal."""

    async def read_answer(self, batch_id: str) -> list[Outcome] | None:
        """Return the outcomes of a signalled batch once they are stored."""

    @property
    def can_read_answers(self) -> bool:
        """This process reaches the storage."""


class _Rejected(Exception):
    """The batch as a whole was refused, for good."""

    def __init__(self, error: AgentRuntimeError) -> None:
        self.error = error


class _Contended(Exception):
    """Too many clients send Updates to the agent at once."""


class Contention:
    """Whether an agent's callers go by signal for now, and for how long."""

    def __init__(self) -> None:
        self._until = 0.0
        self._seconds = _FIRST_ONE_WAY_SECONDS

    @property
    def is_on(self) -> bool:
        """Send signals."""
        return time.monotonic() < self._until

    @property
    def is_over(self) -> bool:
        """It ended so long ago that it may be forgotten."""
        return time.monotonic() > self._until + self._seconds

    def note(self) -> None:
        """Go by signal, each time for longer; a little apart from the other clients."""
        self._until = time.monotonic() + self._seconds * (0.75 + random.random() / 2)
        self._seconds = min(self._seconds * 2, _MAX_ONE_WAY_SECONDS)


class AgentBatcher:
    """The queue of one agent's mutations in this process.

    Args:
        on_idle: Called when nothing is left to send.
        deadlines: How long callers wait.
    """

    def __init__(
        self,
        sender: BatchSender,
        contention: Contention,
        on_idle: Callable[[], None],
        deadlines: Deadlines,
    ) -> None:
        self._sender = sender
        self._contention = contention
        self._on_idle = on_idle
        self._deadlines = deadlines
        self._waiting: deque[tuple[bytes, asyncio.Future[Outcome]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, mutation: bytes) -> asyncio.Future[Outcome]:
        """Queue an encoded mutation; cancelling the future takes back only this caller."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((mutation, future))
        self._deadlines.watch(future)
        if self._runner is None:
            self._runner = asyncio.create_task(self._drain())
        return future

    async def close(self) -> None:
        """Send no more; those who wait are told that it may or may not have happened."""
        runner = self._runner
        self._is_closed = True
        if runner is not None:
            # The SDK may make an error of its own out of this: the flag ends the loop then.
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

    async def _drain(self) -> None:
        batch: list[tuple[bytes, asyncio.Future[Outcome]]] = []
        try:
            while not self._is_closed and (batch := self._take()):
                await self._deliver(batch)
                # Let those just answered go first: what they ask next comes along at once, in one
                # batch with what has waited, not in a batch of its own behind it.
                await asyncio.sleep(0)
        finally:
            for _, future in (*batch, *self._waiting):
                if not future.done():
                    future.set_exception(
                        CallTimeoutError(
                            "the client was closed before an answer came; the mutation may still "
                            "happen, so repeat it with the same key"
                        )
                    )
            self._waiting.clear()
            self._runner = None
            self._deadlines.close()
            self._on_idle()

    def _take(self) -> list[tuple[bytes, asyncio.Future[Outcome]]]:
        batch: list[tuple[bytes, asyncio.Future[Outcome]]] = []
        size = 0
        while self._waiting and len(batch) < MAX_MUTATIONS:
            mutation, future = self._waiting[0]
            if batch and size + len(mutation) > MAX_BYTES:
                break
            self._waiting.popleft()
            if not future.done():
                batch.append((mutation, future))
                size += len(mutation)
        return batch

    async def _deliver(self, batch: list[tuple[bytes, asyncio.Future[Outcome]]]) -> None:
        batch_id = secrets.token_urlsafe(12)
        mutations = [mutation for mutation, _ in batch]
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_closed and any(not future.done() for _, future in batch):
            try:
                outcomes = await self._send(batch_id, mutations)
                break
            except _Contended:
                self._contention.note()
                if self._sender.can_read_answers:
                    continue
            except _Rejected as rejected:
                outcomes = [rejected.error] * len(batch)
                break
            except UnavailableError:
                pass
            except Exception as error:
                failure = InternalError(f"sending to the agent failed: {type(error).__name__}")
                failure.__cause__ = error
                outcomes = [failure] * len(batch)
                break
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)
        else:
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if not future.done():
                future.set_result(outcome)

    async def _send(self, batch_id: str, mutations: list[bytes]) -> list[Outcome]:
        committed = await self._sender.commit_here(mutations)
        if committed is not None:
            return committed
        if self._contention.is_on and self._sender.can_read_answers:
            await classify(self._sender.send_one_way(batch_id, mutations))
            return await self._wait_for_answer(batch_id)
        return await classify(self._sender.send(batch_id, mutations))

    async def _wait_for_answer(self, batch_id: str) -> list[Outcome]:
        deadline = time.monotonic() + _ANSWER_SECONDS
        pause = 0.005
        while time.monotonic() < deadline:
            await asyncio.sleep(pause)
            answer = await self._sender.read_answer(batch_id)
            if answer is not None:
                return answer
            pause = min(pause * 1.3, 0.05)
        raise UnavailableError("no answer to a one-way batch yet")


async def classify(call: Awaitable[T]) -> T:
    """Await a call to Temporal and sort its failure: again, by signal, or never.

    Raises:
        UnavailableError: Repeat it with the same keys.
        _Contended: Too many Updates of all clients are in flight.
        _Rejected: Final.
    """
    try:
        return await call
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        if isinstance(cause, ApplicationError) and cause.type == ROLLING_OVER:
            raise UnavailableError("the agent is moving to its next run") from error
        if isinstance(cause, ApplicationError) and cause.type == _UNPROCESSED:
            raise UnavailableError("a worker ended before it looked at the update") from error
        found = from_failure(cause)
        if found is not None:
            raise _Rejected(found) from error
        if isinstance(cause, ApplicationError) and cause.non_retryable:
            raise _Rejected(AgentRuntimeError(f"{cause.type}: {cause.message}")) from error
        # The run ended under the accepted update, or was cancelled: its keys make repeating safe.
        raise UnavailableError(f"the update did not complete: {cause}") from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise UnavailableError("no worker has answered yet") from error
    except RPCError as error:
        raise _sorted(error) from error


def _sorted(error: RPCError) -> Exception:
    if error.status is RPCStatusCode.RESOURCE_EXHAUSTED and "concurrent" in error.message.lower():
        return _Contended()
    if error.status is RPCStatusCode.UNAVAILABLE and "aborted" in error.message.lower():
        # What the server does to the others' Updates when one client exceeds the limit.
        return _Contended()
    if error.status in _PASSING:
        return UnavailableError(error.message)
    if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
        return _Rejected(TemporalUnreachableError(f"Temporal refused the call: {error.message}"))
    return _Rejected(ConfigurationError(f"Temporal refused the call: {error.message}"))
