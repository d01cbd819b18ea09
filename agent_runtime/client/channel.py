"""The way from this process to all agents: batches out, receipts back, within a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections import OrderedDict
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowQueryFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime.call import (
    ENTITY_WORKFLOW,
    MUTATE_SIGNAL,
    MUTATE_UPDATE,
    READ_QUERY,
    EntityRun,
)
from agent_runtime.client.batcher import RPC_TIMEOUT, AgentBatcher, BatchSender, Contention
from agent_runtime.client.change_watch import ChangeWatch, Waiter
from agent_runtime.client.deadlines import Deadlines
from agent_runtime.client.direct_commit import Commit, commit_directly
from agent_runtime.client.outcomes import CallKey, Outcomes
from agent_runtime.connection import unreachable
from agent_runtime.errors import AgentRuntimeError, CallTimeoutError, InvalidRequestError
from agent_runtime.hosting.state_reader import read_outcomes
from agent_runtime.idempotency_key import KeyMaker
from agent_runtime.identity import AgentRef, workflow_id
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.mutation import (
    Mutation,
    Outcome,
    Receipt,
    decode_outcomes,
    encode_batch,
    encode_mutation,
)
from agent_runtime.state import MAX_STATE_BYTES, check_size
from agent_runtime.storage.protocol import Storage

T = TypeVar("T")

TASK_TIMEOUT = timedelta(seconds=2)
MAX_RUNNING = 10_000


class Channel:
    """Carries mutations of all agents of this process, one batcher each.

    Args:
        temporal: For calls and reads; may retry by itself.
        updates: For batches; must not retry by itself, as the batcher does.
        storage: If this process reaches it.
        timeout: How long a mutation or read waits for a worker.
        entity: Limits of entity runs; its names are not used.
    """

    def __init__(
        self,
        temporal: Client,
        updates: Client,
        *,
        storage: Storage | None,
        task_queue: str,
        timeout: timedelta,
        entity: EntityRun,
    ) -> None:
        self.temporal = temporal
        self.updates = updates
        self.storage = storage
        self.task_queue = task_queue
        self.timeout = timeout
        self.entity = entity
        self.local_commit: Commit | None = None
        """Commits batches in this process, while a worker runs in it."""
        self._batchers: dict[AgentRef, AgentBatcher] = {}
        self._contention: dict[AgentRef, Contention] = {}
        self._keys = KeyMaker()
        look, pause_seconds = (
            (self._ask_for_outcomes, 0.01)
            if storage is None
            else (partial(read_outcomes, storage), 0.002)
        )
        self.outcomes = Outcomes(look, pause_seconds=pause_seconds)
        self.running = _RecentlyRunning()
        self._watch = None if storage is None else ChangeWatch(storage)
        self._waiters: weakref.WeakSet[Waiter] = weakref.WeakSet()

    async def close(self) -> None:
        """Send and look no more; what is under way at the server goes on."""
        await asyncio.gather(*(batcher.close() for batcher in list(self._batchers.values())))
        await self.outcomes.close()
        for waiter in list(self._waiters):
            waiter.close()
        if self._watch is not None:
            await self._watch.close()

    async def wait_for_changes(self, ref: AgentRef) -> Waiter:
        """Return a waiter for changes of an agent; without a storage nothing wakes it."""
        waiter = Waiter(ref) if self._watch is None else await self._watch.add(ref)
        self._waiters.add(waiter)
        return waiter

    def contention(self, ref: AgentRef) -> Contention:
        """Return whether, and for how long, the agent's batches go by signal."""
        return self._contention.setdefault(ref, Contention())

    async def submit(self, ref: AgentRef, mutation: Mutation) -> Receipt:
        """Send a mutation with the agent's next batch and return its receipt.

        Raises:
            CallTimeoutError: No worker answered in time; repeat with the same key.
            AgentRuntimeError: The mutation's own refusal.
        """
        encoded = encode_mutation(mutation)
        if len(encoded) > MAX_STATE_BYTES:
            check_size(len(to_json(mutation.value)))
        batcher = self._batchers.get(ref)
        if batcher is None:
            deadlines = Deadlines(
                self.timeout.total_seconds(), lambda: self._too_late(f"a mutation of {ref}")
            )
            batcher = AgentBatcher(
                _Sender(self, ref), self.contention(ref), lambda: self._forget(ref), deadlines
            )
            self._batchers[ref] = batcher
        outcome = await batcher.submit(encoded)
        if isinstance(outcome, AgentRuntimeError):
            raise type(outcome)(outcome.message, **outcome.details_map)
        return outcome

    async def query(self, ref: AgentRef, request: Json) -> Json:
        """Ask the agent's entity to read; None if there is no entity that could be asked.

        Raises:
            InvalidRequestError: The worker refused the request.
            CallTimeoutError: No worker answered in time.
        """
        handle = self.temporal.get_workflow_handle(workflow_id(self.task_queue, ref))
        text = to_json(request).decode()
        try:
            answer: RawValue = await self.in_time(
                handle.query(READ_QUERY, text, result_type=RawValue), f"a read of {ref}"
            )
        except WorkflowQueryFailedError as error:
            raise InvalidRequestError(str(error)) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise unreachable(error) from error
        return from_json(answer.payload.data)

    async def _ask_for_outcomes(self, keys: Sequence[CallKey]) -> dict[CallKey, Json]:
        found: dict[CallKey, Json] = {}
        for ref in {ref for ref, _ in keys}:
            wanted = [key for of, key in keys if of == ref]
            answer = await self.query(ref, {"read": "outcomes", "keys": wanted})
            found |= {(ref, key): outcome for key, outcome in (answer or {}).items()}
        return found

    def new_key(self) -> str:
        """Return an idempotency key that nobody else has."""
        return self._keys.next()

    async def in_time(self, call: Awaitable[T], what: str) -> T:
        """Await a call within the client's timeout.

        Raises:
            CallTimeoutError: Naming `what`.
        """
        seconds = self.timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds) as limit:
                return await call
        except TimeoutError:
            if not limit.expired():
                raise
            raise self._too_late(what) from None

    def _too_late(self, what: str) -> CallTimeoutError:
        seconds = self.timeout.total_seconds()
        return CallTimeoutError(
            f"no answer to {what} within {seconds:g} s; check that a worker runs on task queue "
            f"{self.task_queue!r}; it may still happen, so repeat it with the same key",
            seconds=seconds,
        )

    def _forget(self, ref: AgentRef) -> None:
        self._batchers.pop(ref, None)
        if self.contention(ref).is_over:
            del self._contention[ref]

    async def wake(self, ref: AgentRef) -> None:
        """Start the agent's entity if it does not run; nothing is stored.

        Raises:
            TemporalUnreachableError: Temporal did not answer.
        """
        try:
            await self.temporal.start_workflow(
                ENTITY_WORKFLOW,
                self.entity_run(ref),
                id=workflow_id(self.task_queue, ref),
                task_queue=self.task_queue,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                task_timeout=TASK_TIMEOUT,
            )
        except RPCError as error:
            raise unreachable(error) from error

    def start_operation(self, ref: AgentRef) -> WithStartWorkflowOperation[Any, Any]:
        """Return how to start the agent's entity if it does not run."""
        return WithStartWorkflowOperation(
            ENTITY_WORKFLOW,
            self.entity_run(ref),
            id=workflow_id(self.task_queue, ref),
            task_queue=self.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=TASK_TIMEOUT,
        )

    def entity_run(self, ref: AgentRef) -> EntityRun:
        """Return what a new run of an agent's entity is given."""
        limits = self.entity
        return EntityRun(
            ref.class_name,
            ref.name,
            limits.max_events,
            limits.max_bytes,
            limits.max_batches,
            limits.idle_seconds,
        )


class _RecentlyRunning:
    """Agents whose entities ran when last heard of; a bounded memory that may be wrong."""

    def __init__(self) -> None:
        self._refs: OrderedDict[AgentRef, None] = OrderedDict()

    def __contains__(self, ref: AgentRef) -> bool:
        return ref in self._refs

    def add(self, ref: AgentRef) -> None:
        """Remember an agent, forgetting the one remembered longest if there are many."""
        self._refs[ref] = None
        if len(self._refs) > MAX_RUNNING:
            self._refs.popitem(last=False)

    def discard(self, ref: AgentRef) -> None:
        """Forget an agent."""
        self._refs.pop(ref, None)


class _Sender(BatchSender):
    """Batches of one agent, over Temporal."""

    def __init__(self, channel: Channel, ref: AgentRef) -> None:
        self._channel = channel
        self._ref = ref

    @property
    def can_read_answers(self) -> bool:
        return self._channel.storage is not None

    async def commit_here(self, mutations: list[bytes]) -> list[Outcome] | None:
        commit = self._channel.local_commit
        return None if commit is None else await commit_directly(commit, self._ref, mutations)

    async def send(self, batch_id: str, mutations: list[bytes]) -> list[Outcome]:
        batches = _json_value(encode_batch(self._ref, mutations))
        outcomes = await self._update_running(batch_id, batches)
        if outcomes is None:
            outcomes = await self._update_or_start(batch_id, batches)
            self._channel.running.add(self._ref)
        return decode_outcomes(outcomes.payload.data)[0]

    async def _update_or_start(self, batch_id: str, batches: RawValue) -> RawValue:
        operation = self._channel.start_operation(self._ref)
        try:
            outcomes: RawValue = await self._channel.updates.execute_update_with_start_workflow(
                MUTATE_UPDATE,
                batches,
                start_workflow_operation=operation,
                id=batch_id,
                result_type=RawValue,
                rpc_timeout=RPC_TIMEOUT,
            )
            return outcomes
        except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError):
            # The operation holds the error too, and logs it unless somebody looks at it there.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await operation.workflow_handle()
            raise

    async def _update_running(self, batch_id: str, batches: RawValue) -> RawValue | None:
        """Update an entity that ran a moment ago; None if it must be started.

        The server spends about a tenth less on it than on an update that could start the entity.
        """
        channel, ref = self._channel, self._ref
        if ref not in channel.running:
            return None
        handle = channel.updates.get_workflow_handle(workflow_id(channel.task_queue, ref))
        try:
            outcomes: RawValue = await handle.execute_update(
                MUTATE_UPDATE,
                batches,
                id=batch_id,
                result_type=RawValue,
                rpc_timeout=RPC_TIMEOUT,
            )
            return outcomes
        except RPCError as error:
            channel.running.discard(ref)
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None

    async def send_one_way(self, batch_id: str, mutations: list[bytes]) -> None:
        await self._channel.updates.start_workflow(
            ENTITY_WORKFLOW,
            self._channel.entity_run(self._ref),
            id=workflow_id(self._channel.task_queue, self._ref),
            task_queue=self._channel.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=TASK_TIMEOUT,
            start_signal=MUTATE_SIGNAL,
            start_signal_args=[batch_id, _json_value(encode_batch(self._ref, mutations))],
            rpc_timeout=RPC_TIMEOUT,
        )

    async def read_answer(self, batch_id: str) -> list[Outcome] | None:
        if self._channel.storage is None:
            return None
        answer = await self._channel.storage.read_answer(batch_id)
        return None if answer is None else decode_outcomes(answer.encode())[0]


def _json_value(text: bytes) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))
