"""The composition root: everything that one worker process runs, put together and taken apart."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any

from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from agent_runtime.activities.compaction import CompactionActivities
from agent_runtime.activities.invocation import InvocationActivities
from agent_runtime.activities.state import StateActivities
from agent_runtime.call import (
    DEFAULT_TASK_QUEUE,
    HANDLERS_WORKFLOW,
    EntityRun,
    handler_queue,
)
from agent_runtime.client.agent_client import DEFAULT_TIMEOUT, AgentClient
from agent_runtime.client.channel import TASK_TIMEOUT
from agent_runtime.clock import now_milliseconds
from agent_runtime.connection import connect_temporal
from agent_runtime.direct_read import install_reader
from agent_runtime.errors import ConfigurationError, StorageError
from agent_runtime.handlers.runner import watch_inboxes
from agent_runtime.hosting.destruction import finish_destroys
from agent_runtime.hosting.host import AgentHost
from agent_runtime.hosting.state_reader import answer_query
from agent_runtime.identity import AgentRef, handlers_workflow_id
from agent_runtime.llm.open_models import ModelChoice, process_models
from agent_runtime.registry import AgentClass, AgentRegistry
from agent_runtime.storage.opening import open_storage
from agent_runtime.storage.protocol import Retention, Storage, Transaction
from agent_runtime.workflows.agent import AgentEntity
from agent_runtime.workflows.compaction import Compaction
from agent_runtime.workflows.handlers import AgentHandlers

logger = logging.getLogger("agent_runtime")

DEFAULT_GRACE = timedelta(seconds=5)
STICKY_TIMEOUT = timedelta(seconds=1)
HEARTBEAT_THROTTLE = timedelta(seconds=1.5)
_READ_SECONDS = 1.5
_SWEEP_SECONDS = 10.0
_STALE_SECONDS = 5.0
_ABANDONED_SECONDS = 60.0
"""A destroy takes a few seconds at most: one that is older was cut short."""
_MAX_STALE = 1_000
_WAKE_PAUSES_SECONDS = (0.0, 0.5, 2.0)


class AgentRuntime:
    """A worker process: hosts entities, commits state, runs handlers and change hooks.

    While it runs, its `client` reaches the agents that it serves within this process, at once and
    with the same guarantees; all others through Temporal.

    Use `async with await AgentRuntime.start(...)`, or `start` and `stop`.
    """

    def __init__(
        self,
        client: AgentClient,
        storage: Storage,
        registry: AgentRegistry,
        *,
        retention: Retention | None = None,
        max_cached_agents: int = 2_000,
        max_handlers: int = 5_000,
        grace: timedelta = DEFAULT_GRACE,
    ) -> None:
        self.client = client
        self.storage = storage
        self.host = AgentHost(storage, registry, on_inbox=self._wake_soon, retention=retention)
        self.host.connect(client)
        self._retention = retention or Retention()
        self._state = StateActivities(self.host)
        invocation = InvocationActivities(self.host)
        compaction = CompactionActivities(self.host)
        queue = client.task_queue
        self._workers = [
            Worker(
                client.temporal,
                task_queue=queue,
                workflows=[AgentEntity],
                activities=[self._state.commit, self._state.step],
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_cached_workflows=max_cached_agents,
                sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
                graceful_shutdown_timeout=grace,
                # A stopping worker must not be handed what it has just passed on to others.
                disable_eager_activity_execution=True,
            ),
            Worker(
                client.temporal,
                task_queue=handler_queue(queue),
                workflows=[AgentHandlers, Compaction],
                activities=[
                    invocation.handlers,
                    invocation.call,
                    compaction.plan,
                    compaction.summarize,
                    compaction.commit,
                    compaction.abandon,
                ],
                workflow_runner=UnsandboxedWorkflowRunner(),
                max_concurrent_activities=max_handlers,
                sticky_queue_schedule_to_start_timeout=STICKY_TIMEOUT,
                max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
                graceful_shutdown_timeout=timedelta(0),
            ),
        ]
        self._owned_storage: Storage | None = None
        self._model: ModelChoice | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waking: set[AgentRef] = set()

    @classmethod
    async def start(
        cls,
        agents: Iterable[AgentClass],
        *,
        data_dir: str | os.PathLike[str] | None = None,
        database_url: str | None = None,
        storage: Storage | None = None,
        address: str | None = None,
        namespace: str | None = None,
        task_queue: str = DEFAULT_TASK_QUEUE,
        retention: Retention | None = None,
        max_cached_agents: int = 2_000,
        max_handlers: int = 5_000,
        entity: EntityRun | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        grace: timedelta = DEFAULT_GRACE,
        model: ModelChoice | None = None,
    ) -> AgentRuntime:
        """Connect, open the storage and serve the agents until `stop`.

        Args:
            data_dir: Of the SQLite database; made if missing.
            database_url: Of a PostgreSQL database, in place of `data_dir`.
            storage: An open one in place of both; closed by `stop`.
            max_cached_agents: Entities kept warm, about 60 KiB each.
            max_handlers: Agents whose handlers run at the same time in this process.
            entity: Limits of the entity runs that this process's handlers start.
            timeout: How long those handlers wait for other agents' state.
            grace: How long `stop` lets commits end.
            model: What this process's agents ask and who writes its summaries, unless they say
                otherwise; opened at its first use. One that you have open stays yours to close.

        Raises:
            ConfigurationError: An agent class cannot be served, or Temporal has no such namespace.
            TemporalUnreachableError: Nothing answers at the address.
            StorageError: The database cannot be used.
        """
        registry = AgentRegistry(agents)
        storage = storage or await open_storage(data_dir, database_url)
        try:
            client = AgentClient(
                await connect_temporal(address, namespace),
                await connect_temporal(address, namespace, retries_calls=False),
                storage=storage,
                task_queue=task_queue,
                timeout=timeout,
                entity=entity,
            )
            runtime = cls(
                client,
                storage,
                registry,
                retention=retention,
                max_cached_agents=max_cached_agents,
                max_handlers=max_handlers,
                grace=grace,
            )
            runtime._owned_storage = storage
            runtime._model = model
            runtime._begin()
            await runtime._until_running()
        except BaseException:
            await storage.close()
            raise
        return runtime

    async def __aenter__(self) -> AgentRuntime:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def run(self) -> None:
        """Serve until a worker fails; stop with `stop`."""
        self._begin()
        await asyncio.gather(*(task for task in self._tasks if task.get_name() == "worker"))

    async def stop(self) -> None:
        """Take no new work, let commits end, hand running handlers to others, close the storage.

        What its client is asked from now on goes through Temporal, to other workers.
        """
        self.client.channel.local_commit = None
        self._state.drain()
        await asyncio.gather(*(worker.shutdown() for worker in self._workers if worker.is_running))
        # The workers have ended, or had not begun: those would be waited for in vain.
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._model is not None and process_models.default is self._model:
            process_models.default = None
        await process_models.close()
        if self._owned_storage is not None:
            await self.client.close()
            await self._owned_storage.close()

    def _begin(self) -> None:
        if self._tasks:
            return
        if self._model is not None:
            process_models.default = self._model
        loop = asyncio.get_running_loop()

        def read(agent: str, name: str, request: str) -> str:
            answer = answer_query(self.storage, agent, name, request)
            return asyncio.run_coroutine_threadsafe(answer, loop).result(_READ_SECONDS)

        take_out = install_reader(read)

        async def work(worker: Worker) -> None:
            await worker.run()

        for worker in self._workers:
            self._spawn(work(worker), "worker")
        self._spawn(watch_inboxes(self.host), "watch")
        if self.client.channel.storage is not None:
            # Who reads through the entity must meet one that knows the agent.
            self.client.channel.local_commit = self.host.commit_batch
        self._spawn(self._sweep(), "sweep").add_done_callback(lambda _: take_out())

    async def _until_running(self) -> None:
        """Wait until both workers poll."""
        while not all(worker.is_running for worker in self._workers):
            failed = [task for task in self._tasks if task.get_name() == "worker" and task.done()]
            if failed:
                reason = str(failed[0].exception()).split("\n")[0][:300]
                await self.stop()
                raise ConfigurationError(
                    f"Temporal at {self.client.temporal.service_client.config.target_host} refuses "
                    f"a worker for namespace {self.client.temporal.namespace!r}: {reason}"
                )
            await asyncio.sleep(0.005)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        if name != "worker":
            task.add_done_callback(self._tasks.discard)
        return task

    def _wake_soon(self, ref: AgentRef) -> None:
        if ref not in self._waking:
            self._waking.add(ref)
            self._spawn(self._wake(ref), "wake")

    async def _wake(self, ref: AgentRef) -> None:
        """Start the agent's handlers, unless another process runs them and will look itself.

        One that is just ending will not: so ask again, a little later.
        """
        try:
            for pause in _WAKE_PAUSES_SECONDS:
                await asyncio.sleep(pause)
                if ref in self.host.runners or await self._start_handlers(ref):
                    return
        finally:
            self._waking.discard(ref)

    async def _start_handlers(self, ref: AgentRef) -> bool:
        try:
            await self.client.temporal.start_workflow(
                HANDLERS_WORKFLOW,
                args=[*ref],
                id=handlers_workflow_id(self.client.task_queue, ref),
                task_queue=handler_queue(self.client.task_queue),
                id_conflict_policy=WorkflowIDConflictPolicy.FAIL,
                task_timeout=TASK_TIMEOUT,
                request_eager_start=True,
            )
        except WorkflowAlreadyStartedError:
            return False
        except RPCError as error:
            logger.warning("%s: handlers wait, Temporal did not answer: %s", ref, error)
            return False
        return True

    async def _sweep(self) -> None:
        """Now and then: wake handlers that a crash left behind, and drop what is out of date.

        At once those that a crash of this worker's predecessor may have left behind.
        """
        stale_seconds = 0.0
        while True:
            now = now_milliseconds()
            try:
                stale = now - int(stale_seconds * 1000)
                for ref in await self.storage.read_waiting_agents(stale, _MAX_STALE):
                    if ref not in self.host.runners:
                        self._wake_soon(ref)
                await finish_destroys(self.storage, before=now - int(_ABANDONED_SECONDS * 1000))
                await self.storage.write(partial(_prune, self._retention, now))
            except StorageError as error:
                logger.warning("sweep: %s", error)
            stale_seconds = _STALE_SECONDS
            await asyncio.sleep(_SWEEP_SECONDS)


async def _prune(retention: Retention, now: int, tx: Transaction) -> None:
    await tx.prune_feed(now - int(retention.outbox_age.total_seconds() * 1000))
    await tx.prune_destroyed(now - int(retention.receipt_age.total_seconds() * 1000))
