"""What Python services use: handles of agents, over one connection to Temporal."""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.common import RawValue, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime.batcher import RPC_TIMEOUT, AgentBatcher, BatchSender, Contention
from agent_runtime.call import (
    CALL_WORKFLOW,
    DEFAULT_TASK_QUEUE,
    ENTITY_WORKFLOW,
    MUTATE_SIGNAL,
    MUTATE_UPDATE,
    READ_QUERY,
    CallRequest,
    CallResult,
    EntityRun,
    handler_queue,
)
from agent_runtime.connection import connect_temporal
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    HandlerCancelledError,
    HandlerError,
    IdempotencyConflictError,
    InvalidRequestError,
    TemporalUnreachableError,
    from_failure,
)
from agent_runtime.identity import AgentRef, agent_ref, call_workflow_id, workflow_id
from agent_runtime.json_value import Json, fingerprint, from_json, to_json
from agent_runtime.mutation import (
    Mutation,
    MutationKind,
    Outcome,
    Receipt,
    check_key,
    decode_outcomes,
    encode_batch,
    encode_mutation,
)
from agent_runtime.state import MAX_STATE_BYTES, check_size
from agent_runtime.state_reader import (
    MAX_HISTORY,
    StateHistoryEntry,
    StateSnapshot,
    open_history,
    open_snapshot,
    read_history,
    read_snapshot,
    read_version,
)
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.sqlite import SqliteStorage

T = TypeVar("T")

DEFAULT_TIMEOUT = timedelta(seconds=60)
TASK_TIMEOUT = timedelta(seconds=2)


class AgentClient:
    """A connection to all agents of an installation; make one with `connect` and share it.

    Args:
        temporal: For calls; used as it is.
        updates: For Updates; must not retry by itself, see `connect`.
        storage: If this process reaches it: reads go there directly.
        timeout: How long mutations and reads wait for a worker before they give up.
    """

    def __init__(
        self,
        temporal: Client,
        updates: Client,
        *,
        storage: Storage | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        timeout: timedelta = DEFAULT_TIMEOUT,
        entity: EntityRun | None = None,
    ) -> None:
        self.temporal = temporal
        self.storage = storage
        self.task_queue = task_queue
        self.timeout = timeout
        self._updates = updates
        self._entity = entity or EntityRun("", "")
        self._owned: Storage | None = None
        self._batchers: dict[AgentRef, AgentBatcher] = {}
        self._contention: dict[AgentRef, Contention] = {}
        self._keys = _Keys()

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        namespace: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        storage: Storage | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        timeout: timedelta = DEFAULT_TIMEOUT,
        entity: EntityRun | None = None,
    ) -> AgentClient:
        """Connect to Temporal and, if it is on this host, to the agents' storage.

        Args:
            address: Temporal's host and port; by default what its environment configuration says,
                else 127.0.0.1:7233.
            data_dir: The workers' data directory, for direct reads; closed with the client.
            storage: An open storage in place of `data_dir`; stays open.
            timeout: How long mutations and reads wait before `CallTimeoutError`.

        Raises:
            TemporalUnreachableError: Nothing answers there.
            StorageError: The data directory cannot be used.
        """
        temporal = await connect_temporal(address, namespace)
        updates = await connect_temporal(address, namespace, retries_calls=False)
        owned = None
        if storage is None and data_dir is not None:
            storage = owned = await SqliteStorage.open(data_dir)
        client = cls(
            temporal,
            updates,
            storage=storage,
            task_queue=task_queue,
            timeout=timeout,
            entity=entity,
        )
        client._owned = owned
        return client

    async def __aenter__(self) -> AgentClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close what `connect` opened; calls under way go on at the server."""
        if self._owned is not None:
            await self._owned.close()

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return a handle; nothing is contacted yet, and the agent need not exist.

        Raises:
            InvalidAgentError: One of the names cannot be an address.
        """
        return AgentHandle(self, agent_ref(class_name, name))

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
            contention = self._contention.setdefault(ref, Contention())
            batcher = AgentBatcher(_Sender(self, ref), contention, lambda: self._forget(ref))
            self._batchers[ref] = batcher
        future = batcher.submit(encoded)
        outcome = await self.in_time(future, f"a mutation of {ref}")
        if isinstance(outcome, AgentRuntimeError):
            raise type(outcome)(outcome.message, **outcome.details_map)
        return outcome

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
            raise CallTimeoutError(
                f"no answer to {what} within {seconds:g} s; check that a worker runs on task queue "
                f"{self.task_queue!r}; it may still happen, so repeat it with the same key",
                seconds=seconds,
            ) from None

    def _forget(self, ref: AgentRef) -> None:
        self._batchers.pop(ref, None)
        if not self._contention[ref].is_on:
            del self._contention[ref]

    def _start_operation(self, ref: AgentRef) -> WithStartWorkflowOperation[Any, Any]:
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
        limits = self._entity
        return EntityRun(
            ref.class_name,
            ref.name,
            limits.max_events,
            limits.max_bytes,
            limits.max_batches,
            limits.idle_seconds,
        )


class AgentHandle:
    """One agent, from outside: change and read its state, call its methods."""

    def __init__(self, client: AgentClient, ref: AgentRef) -> None:
        self._client = client
        self.ref = ref

    async def set_state(
        self,
        state: Json,
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Receipt:
        """Replace the state; when this returns it is on disk.

        Args:
            idempotency_key: Give one to repeat safely after an error; a second use returns the
                first receipt.
            expected_version: Refuse unless the state has this version.

        Raises:
            StateRejectedError: The state type or validator refused.
            VersionConflictError: Another version is present.
            IdempotencyConflictError: The key was used with another payload.
            NotSerializableError: The value is not JSON.
            StateTooLargeError: More than 2,000,000 bytes of JSON.
            CallTimeoutError: No worker answered in time.
        """
        return await self._mutate(MutationKind.SET, state, idempotency_key, expected_version)

    async def merge_state(
        self,
        partial: dict[str, Json],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Receipt:
        """Replace the named top-level keys; None is a value, nothing is removed.

        Raises:
            AgentRuntimeError: As `set_state`.
        """
        return await self._mutate(MutationKind.MERGE, partial, idempotency_key, expected_version)

    async def reset_state(
        self, *, idempotency_key: str | None = None, expected_version: int | None = None
    ) -> Receipt:
        """Put the class's `initial_state` back; `{}` where it has none.

        Raises:
            AgentRuntimeError: As `set_state`.
        """
        return await self._mutate(MutationKind.RESET, None, idempotency_key, expected_version)

    async def get_state(self, *, version: int | None = None) -> StateSnapshot:
        """Return the present state, at least as new as every mutation that has returned.

        Reading an agent whose state was never set stores its `initial_state`.

        Args:
            version: Return this earlier state instead.

        Raises:
            InvalidRequestError: That version does not exist or is kept no longer.
            CallTimeoutError: No worker answered in time.
        """
        if version is not None:
            return await self._read_version(version)
        snapshot = await self._read_snapshot()
        if snapshot is not None and snapshot.is_set:
            return snapshot
        await self._mutate(MutationKind.INIT, None, None, None)
        return await self._read_snapshot() or StateSnapshot(None, 0, is_set=False)

    async def state_history(
        self, *, newest: int | None = None, limit: int = 100
    ) -> list[StateHistoryEntry]:
        """Return the state's versions, newest first; the newest 1,000 keep their values.

        Args:
            newest: Start at this version, to read on.
            limit: At most so many, 1 to 1,000.
        """
        if not 0 < limit <= MAX_HISTORY:
            raise InvalidRequestError(f"limit must be 1 to {MAX_HISTORY}, not {limit}")
        if self._client.storage is not None:
            return await read_history(self._client.storage, self.ref, newest=newest, limit=limit)
        answer = await self._query({"read": "history", "newest": newest, "limit": limit})
        return open_history(answer or [])

    async def call(
        self,
        method: str,
        *args: Json,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> Json:
        """Call a `@callable` method and return its result.

        The call is durable: it runs to its end even if this process dies or the caller is
        cancelled. With the same key it is not run again; its recorded outcome is returned.

        Args:
            timeout: Give up waiting after this; None waits as long as the handler runs.

        Raises:
            HandlerError: The method raised; `details_map` has `error_type` and `error`.
            InvalidRequestError: No such class or method, not callable, or wrong arguments.
            IdempotencyConflictError: The key was used for another call.
            CallTimeoutError: `timeout` passed; the handler goes on.
        """
        call = await self.start_call(method, *args, idempotency_key=idempotency_key)
        return await call.result(timeout=timeout)

    async def start_call(
        self,
        method: str,
        *args: Json,
        idempotency_key: str | None = None,
        chain: Sequence[str] = (),
        hook_depth: int = 0,
    ) -> AgentCall:
        """Start a call as `call` does, and return without waiting for its result.

        Args:
            chain: Keys of exclusive handlers that wait for this call, to find deadlocks.
            hook_depth: How many change hooks, one through the other, led here.
        """
        plain = from_json(to_json(list(args), what="the arguments"))
        key = self._client.new_key() if idempotency_key is None else idempotency_key
        check_key(key)
        request = CallRequest(
            self.ref.class_name, self.ref.name, method, plain, key, list(chain), hook_depth
        )
        temporal = self._client.temporal
        identity = call_workflow_id(self._client.task_queue, self.ref, key)
        try:
            handle = await temporal.start_workflow(
                CALL_WORKFLOW,
                request,
                id=identity,
                task_queue=handler_queue(self._client.task_queue),
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                result_type=CallResult,
                task_timeout=TASK_TIMEOUT,
                static_summary=f"{self.ref.class_name}.{method}",
                request_eager_start=True,
            )
        except WorkflowAlreadyStartedError:
            handle = temporal.get_workflow_handle(identity, result_type=CallResult)
        except RPCError as error:
            raise _unreachable(error) from error
        return AgentCall(self.ref, key, handle, fingerprint([method, plain]))

    async def _mutate(
        self,
        kind: MutationKind,
        value: Json,
        idempotency_key: str | None,
        expected_version: int | None,
    ) -> Receipt:
        key = self._client.new_key() if idempotency_key is None else idempotency_key
        return await self._client.submit(self.ref, Mutation(key, kind, value, expected_version))

    async def _read_snapshot(self) -> StateSnapshot | None:
        if self._client.storage is not None:
            return await read_snapshot(self._client.storage, self.ref)
        answer = await self._query({"read": "state"})
        return None if answer is None else open_snapshot(answer)

    async def _read_version(self, version: int) -> StateSnapshot:
        if self._client.storage is not None:
            return await read_version(self._client.storage, self.ref, version)
        answer = await self._query({"read": "version", "version": version})
        if answer is None:
            raise InvalidRequestError(f"{self.ref} has no state at version {version}")
        return open_snapshot(answer)

    async def _query(self, request: Json) -> Json:
        """Ask the entity's worker; None if the agent has no entity that could be asked."""
        handle = self._client.temporal.get_workflow_handle(
            workflow_id(self._client.task_queue, self.ref)
        )
        text = to_json(request).decode()
        try:
            answer: RawValue = await self._client.in_time(
                handle.query(READ_QUERY, text, result_type=RawValue), f"a read of {self.ref}"
            )
        except WorkflowQueryFailedError as error:
            raise InvalidRequestError(str(error)) from error
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise _unreachable(error) from error
        return from_json(answer.payload.data)


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
            raise _unreachable(error) from error
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


class _Sender(BatchSender):
    """Batches of one agent, over Temporal."""

    def __init__(self, client: AgentClient, ref: AgentRef) -> None:
        self._client = client
        self._ref = ref

    @property
    def can_read_answers(self) -> bool:
        return self._client.storage is not None

    async def send(self, batch_id: str, mutations: list[bytes]) -> list[Outcome]:
        outcomes: RawValue = await self._client._updates.execute_update_with_start_workflow(
            MUTATE_UPDATE,
            _json_value(encode_batch(self._ref, mutations)),
            start_workflow_operation=self._client._start_operation(self._ref),
            id=batch_id,
            result_type=RawValue,
            rpc_timeout=RPC_TIMEOUT,
        )
        return decode_outcomes(outcomes.payload.data)[0]

    async def send_one_way(self, batch_id: str, mutations: list[bytes]) -> None:
        await self._client._updates.start_workflow(
            ENTITY_WORKFLOW,
            self._client.entity_run(self._ref),
            id=workflow_id(self._client.task_queue, self._ref),
            task_queue=self._client.task_queue,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            task_timeout=TASK_TIMEOUT,
            start_signal=MUTATE_SIGNAL,
            start_signal_args=[batch_id, _json_value(encode_batch(self._ref, mutations))],
            rpc_timeout=RPC_TIMEOUT,
        )

    async def read_answer(self, batch_id: str) -> list[Outcome] | None:
        if self._client.storage is None:
            return None
        answer = await self._client.storage.read_answer(batch_id)
        return None if answer is None else decode_outcomes(answer.encode())[0]


class _Keys:
    """Idempotency keys: a random prefix per process and a counter, so they sort by age."""

    def __init__(self) -> None:
        self._pid = 0
        self._prefix = ""
        self._count = itertools.count()

    def next(self) -> str:
        if self._pid != os.getpid():  # also after a fork, whose copy must not repeat our keys
            self._pid, self._prefix = os.getpid(), secrets.token_urlsafe(12)
        return f"{self._prefix}-{next(self._count)}"


def _json_value(text: bytes) -> RawValue:
    return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))


def _call_failure(ref: AgentRef, error: WorkflowFailureError) -> AgentRuntimeError:
    cause: BaseException | None = error.cause
    found = from_failure(cause)
    if found is not None:
        return found
    if isinstance(cause, (CancelledError, TerminatedError)):
        return HandlerCancelledError(f"the call of {ref} was cancelled")
    return HandlerError(f"the call of {ref} failed: {cause}")


def _unreachable(error: RPCError) -> AgentRuntimeError:
    return TemporalUnreachableError(f"Temporal did not answer: {error.message}")
