"""Handlers: calls and change hooks, run with heartbeats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime.call import CALL_ACTIVITY, HOOKS_ACTIVITY, CallRequest, CallResult
from agent_runtime.call_runner import CallCarrier, run_call
from agent_runtime.errors import InternalError
from agent_runtime.host import AgentHost
from agent_runtime.identity import agent_ref
from agent_runtime.mutation import check_key
from agent_runtime.state_hooks import run_state_hooks

logger = logging.getLogger("agent_runtime")

_HEARTBEAT_SECONDS = 2.5


class InvocationActivities:
    """Activities that run the code of agents."""

    def __init__(self, host: AgentHost, client: Client) -> None:
        self._host = host
        self._client = client

    @activity.defn(name=CALL_ACTIVITY)
    async def call(self, request: CallRequest) -> CallResult:
        """Run a handler call and return its result.

        Idempotency: the outcome is recorded under the call's key and returned to repeats; effects
        committed before a crash are found in the invocation's journal.
        """
        info = activity.info()
        agent_ref(request.agent, request.name)
        if not request.key:
            request = replace(request, key=f"{info.workflow_run_id}/{info.activity_id}")
        check_key(request.key)
        carrier = _Carrier(self._client, f"{info.workflow_id}\n{info.workflow_run_id}")
        async with _heartbeats():
            try:
                return await run_call(self._host, request, carrier)
            except ApplicationError:
                raise
            except asyncio.CancelledError:
                if activity.is_worker_shutdown():
                    raise ApplicationError(
                        "the worker is stopping", type="WorkerStopping"
                    ) from None
                raise
            except Exception as error:
                logger.exception("%s.%s failed", request.ref, request.method)
                raise InternalError(f"{request.method}: {type(error).__name__}") from error

    @activity.defn(name=HOOKS_ACTIVITY)
    async def state_hooks(self, agent: str, name: str) -> int:
        """Run an agent's pending change hooks and return how many ran.

        Idempotency: a hook is noted in the transaction of its change and dropped when it has
        ended; a repeat runs the rest, each with its journal.
        """
        async with _heartbeats():
            try:
                return await run_state_hooks(self._host, agent_ref(agent, name))
            except asyncio.CancelledError:
                if activity.is_worker_shutdown():
                    raise ApplicationError(
                        "the worker is stopping", type="WorkerStopping"
                    ) from None
                raise


class _Carrier(CallCarrier):
    """The activity, as the call runner sees it."""

    def __init__(self, client: Client, host_id: str) -> None:
        self._client = client
        self._host_id = host_id

    @property
    def host_id(self) -> str:
        return self._host_id

    async def is_gone(self, host_id: str) -> bool:
        workflow_id, _, run_id = host_id.partition("\n")
        handle = self._client.get_workflow_handle(workflow_id, run_id=run_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            return error.status is RPCStatusCode.NOT_FOUND
        return description.status is not WorkflowExecutionStatus.RUNNING

    def is_cancelled(self) -> bool:
        details = activity.cancellation_details()
        return details is not None and details.cancel_requested


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[None]:
    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    beating = asyncio.create_task(beat())
    try:
        yield
    finally:
        beating.cancel()
