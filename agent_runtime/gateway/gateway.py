"""The gateway: live clients of all agents, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

from starlette.requests import HTTPConnection

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    ConfigurationError,
    StorageError,
)
from agent_runtime.gateway.admission import Admission, Before, Resolve
from agent_runtime.gateway.client_socket import DROPPED
from agent_runtime.gateway.feed import ChangeFeed
from agent_runtime.http_message import Request
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.protocol import ConnectionRow, Storage, Transaction

logger = logging.getLogger("agent_runtime")

DEFAULT_HEARTBEAT = timedelta(seconds=5)
_MISSED_HEARTBEATS = 4


class Gateway:
    """What all connections of a gateway share.

    Args:
        client: Must reach the storage, where the change feed is.
        registry: The agent classes; their hooks and methods are only looked at, but for
            `client_view`, which is run here.
        prefix: First path segments of agents' URLs.
        cors: Let pages of other origins send requests: True, or the headers that say so.
        resolve: Picks the agent of a request by a rule of your own, such as a session's user; where
            it returns None the URL decides. Clients then use `basePath`.
        before_connect: Sees each upgrade before its agent does; may answer or replace it.
        before_request: Sees each other request before its agent does; may answer or replace it.
        heartbeat: How often it notes that it lives. One that has not for four times as long is
            taken for dead by others, which tell its agents that its connections were dropped.

    Raises:
        ConfigurationError: The client has no storage.
    """

    def __init__(
        self,
        client: AgentClient,
        registry: AgentRegistry,
        *,
        prefix: str = "agents",
        cors: bool | Mapping[str, str] = False,
        resolve: Resolve | None = None,
        before_connect: Before | None = None,
        before_request: Before | None = None,
        heartbeat: timedelta = DEFAULT_HEARTBEAT,
    ) -> None:
        storage = client.channel.storage
        if storage is None:
            raise ConfigurationError("a gateway needs the storage: connect with data_dir")
        self.id = uuid.uuid4().hex
        self.client = client
        self.registry = registry
        self.storage: Storage = storage
        self.first_segment = prefix.strip("/").partition("/")[0]
        self.admission = Admission(
            registry,
            prefix=prefix,
            cors=cors,
            resolve=resolve,
            before_connect=before_connect,
            before_request=before_request,
        )
        self.feed = ChangeFeed(storage, registry)
        self._heartbeat_seconds = heartbeat.total_seconds()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Follow the change feed from now on."""
        await self.feed.start()
        await self._beat()
        self._tasks = [asyncio.create_task(self.feed.run()), asyncio.create_task(self._live())]

    async def stop(self) -> None:
        """Stop following, and forget the sockets of this process."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self.storage.write(lambda tx: tx.delete_gateway(self.id))

    async def agent_id(self, ref: AgentRef) -> int:
        """Return the agent's number in the storage, making the agent if it is new."""
        return await agent_number(self.storage, ref)

    def request_of(self, connection: HTTPConnection, body: bytes = b"") -> Request:
        """Return a request or upgrade as agents see it."""
        scope = connection.scope
        raw = scope.get("raw_path") or scope["path"].encode()
        query = scope["query_string"].decode("latin-1")
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        host = connection.headers.get("host", "localhost")
        url = f"{scheme}://{host}{raw.decode('latin-1')}{f'?{query}' if query else ''}"
        return Request(scope.get("method", "GET"), url, dict(connection.headers), body)

    async def tell_close(self, ref: AgentRef, row: ConnectionRow, code: int, reason: str) -> None:
        """Run an agent's close hook for a socket that is gone; what fails is logged."""
        definition = self.registry.definition(ref.class_name)
        if not definition.handles("close"):
            return
        args: list[Json] = [asdict(row), code, reason, code != DROPPED[0]]
        caller: dict[str, Json] = {"socket": row.socket}
        try:
            agent = self.client.agent(*ref)
            call = await agent.start_call("on_close", *args, event="close", caller=caller)
            await call.result()
        except AgentRuntimeError as error:
            logger.error("%s.on_close: %s", ref, error)

    async def _live(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            try:
                await self._beat()
            except (StorageError, AgentDestroyedError) as error:
                logger.warning("the gateway cannot note that it lives: %s", error)

    async def _beat(self) -> None:
        now = now_milliseconds()
        dead = now - int(_MISSED_HEARTBEATS * self._heartbeat_seconds * 1_000)

        async def unit(tx: Transaction) -> list[tuple[AgentRef, ConnectionRow]]:
            if not await tx.note_gateway(self.id, now):
                # New, or taken for dead while the machine slept: the sockets are here all the same.
                for socket in self.feed.sockets():
                    await tx.put_connection(socket.row)
            return await tx.delete_dead_gateways(dead)

        lost = await self.storage.write(unit)
        known = set(self.registry.class_names)
        told = [one for one in lost if one[0].class_name in known]
        await asyncio.gather(*(self.tell_close(ref, row, *DROPPED) for ref, row in told))
