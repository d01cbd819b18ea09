"""What Python services use: handles of agents, over one connection to Temporal."""

from __future__ import annotations

import os
from datetime import timedelta
from types import TracebackType

from temporalio.client import Client

from agent_runtime.call import DEFAULT_TASK_QUEUE, EntityRun
from agent_runtime.client.channel import Channel
from agent_runtime.client.handle import AgentHandle
from agent_runtime.connection import connect_temporal
from agent_runtime.identity import agent_ref
from agent_runtime.storage.opening import open_storage
from agent_runtime.storage.protocol import Storage

DEFAULT_TIMEOUT = timedelta(seconds=60)


class AgentClient:
    """A connection to all agents of an installation; make one with `connect` and share it.

    Programs that reach neither Temporal nor the data directory use `GatewayClient`, through a
    gateway.

    Args:
        temporal: For calls and reads.
        updates: For batches of mutations; must not retry by itself, see `connect`.
        storage: If this process reaches it: reads go there directly.
        timeout: How long mutations and reads wait for a worker before they give up.
        entity: Limits of entity runs that this client starts; its names are not used.
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
        self.task_queue = task_queue
        self.channel = Channel(
            temporal,
            updates,
            storage=storage,
            task_queue=task_queue,
            timeout=timeout,
            entity=entity or EntityRun("", ""),
        )
        self._owned: Storage | None = None

    @classmethod
    async def connect(
        cls,
        address: str | None = None,
        namespace: str | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        database_url: str | None = None,
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
            database_url: The workers' PostgreSQL database, in place of `data_dir`.
            storage: An open storage in place of both; stays open.
            timeout: How long mutations and reads wait before `CallTimeoutError`.

        Raises:
            TemporalUnreachableError: Nothing answers there.
            StorageError: The database cannot be used.
        """
        temporal = await connect_temporal(address, namespace)
        updates = await connect_temporal(address, namespace, retries_calls=False)
        owned = None
        if storage is None and (data_dir is not None or database_url is not None):
            storage = owned = await open_storage(data_dir, database_url)
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
        """End what waits here, and close what `connect` opened; at the server calls go on."""
        await self.channel.close()
        if self._owned is not None:
            await self._owned.close()

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return a handle; nothing is contacted yet, and the agent need not exist.

        Raises:
            InvalidAgentError: One of the names cannot be an address.
        """
        return AgentHandle(self.channel, agent_ref(class_name, name))
