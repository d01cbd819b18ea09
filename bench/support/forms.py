"""The forms in which the same job is done: by the product, by hand, by the floor, ..."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowHandle

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.identity import agent_ref, workflow_id
from bench.peers.entity import ENTITY
from bench.peers.prototype_batcher import PrototypeBatcher
from bench.peers.prototype_store import Operation
from bench.support.load import Submit

MAX_IN_FLIGHT = 10
"""The server refuses the eleventh update of a workflow; a careful client keeps below."""

_PREFIX = secrets.token_urlsafe(8)
_numbers = itertools.count()


def operation() -> Operation:
    """Return an increment with a key of its own."""
    return {"id": f"{_PREFIX}-{next(_numbers)}", "by": 1}


@dataclass(frozen=True)
class HistorySize:
    """How long an agent's workflow history is."""

    events: int
    size: int
    run_id: str


class Form(ABC):
    """A way to do the job.

    Args:
        temporal: For histories and the end of agents.
    """

    name: str

    def __init__(self, temporal: Client) -> None:
        self.temporal = temporal

    @abstractmethod
    async def open(self, agent: str) -> Submit:
        """Make an agent, warm it by one call, and return what does the job on it."""

    @abstractmethod
    def handle(self, agent: str) -> WorkflowHandle[Any, Any]:
        """Return the agent's workflow."""

    async def close(self, agent: str) -> None:
        """End the agent's workflow, so that it does not weigh on others."""
        await self.handle(agent).terminate()

    async def history(self, agent: str) -> HistorySize:
        """Return how long the agent's history is."""
        description = await self.handle(agent).describe()
        info = description.raw_description.workflow_execution_info
        return HistorySize(info.history_length, info.history_size_bytes, description.run_id)


class Product(Form):
    """The product: `merge_state` of a typed state by an `AgentClient`."""

    name = "product"

    def __init__(self, client: AgentClient) -> None:
        super().__init__(client.temporal)
        self._client = client

    async def open(self, agent: str) -> Submit:
        """See `Form.open`."""
        handle = self._client.agent("Counter", agent)
        numbers = itertools.count(1)
        await handle.merge_state({"count": 0})
        return lambda: handle.merge_state({"count": next(numbers)})

    def handle(self, agent: str) -> WorkflowHandle[Any, Any]:
        """See `Form.handle`."""
        ref = agent_ref("Counter", agent)
        return self.temporal.get_workflow_handle(workflow_id(self._client.task_queue, ref))


class _Entity(Form):
    """A hand-written entity."""

    def __init__(self, temporal: Client, queue: str) -> None:
        super().__init__(temporal)
        self._queue = queue

    def handle(self, agent: str) -> WorkflowHandle[Any, Any]:
        """See `Form.handle`."""
        return self.temporal.get_workflow_handle(f"{self._queue}/{self.name}/{agent}")

    async def _start(self, agent: str) -> WorkflowHandle[Any, Any]:
        await self.temporal.start_workflow(ENTITY, id=self.handle(agent).id, task_queue=self._queue)
        return self.handle(agent)


class Gated(_Entity):
    """One update per operation, at most ten in flight per agent."""

    update: str

    async def open(self, agent: str) -> Submit:
        """See `Form.open`."""
        handle = await self._start(agent)
        gate = asyncio.Semaphore(MAX_IN_FLIGHT)

        async def submit() -> object:
            async with gate:
                return await handle.execute_update(self.update, operation())

        await submit()
        return submit


class ByHand(Gated):
    """One update, one regular activity: what one writes by hand."""

    name = "by hand"
    update = "regular"


class PureFloor(Gated):
    """An update that changes memory only: Temporal's floor."""

    name = "pure update"
    update = "pure"

    def __init__(self, temporal: Client, queue: str) -> None:
        super().__init__(temporal, f"{queue}-lean")


class Prototype(_Entity):
    """The bare prototype: batcher, handler and store, and nothing else."""

    name = "prototype"

    def __init__(self, temporal: Client, queue: str) -> None:
        super().__init__(temporal, f"{queue}-lean")

    async def open(self, agent: str) -> Submit:
        """See `Form.open`."""
        batcher = PrototypeBatcher(await self._start(agent))
        await batcher.submit(operation())
        return lambda: batcher.submit(operation())
