"""The gateway: live clients of all agents, in one process."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping

from starlette.requests import HTTPConnection

from agent_runtime.client import AgentClient
from agent_runtime.errors import ConfigurationError
from agent_runtime.gateway.admission import Admission, Before, Resolve
from agent_runtime.gateway.feed import ChangeFeed
from agent_runtime.http_message import Request
from agent_runtime.identity import AgentRef
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.protocol import Storage


class Gateway:
    """What all connections of a gateway share.

    Args:
        client: Must reach the storage, where the change feed is.
        registry: The agent classes; only their hooks and methods are looked at, none is run here.
        prefix: First path segments of agents' URLs.
        cors: Let pages of other origins send requests: True, or the headers that say so.
        resolve: Picks the agent of a request by a rule of your own, such as a session's user; where
            it returns None the URL decides. Clients then use `basePath`.
        before_connect: Sees each upgrade before its agent does; may answer or replace it.
        before_request: Sees each other request before its agent does; may answer or replace it.

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
        self.feed = ChangeFeed(storage)
        self._following: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Follow the change feed from now on."""
        await self.feed.start()
        self._following = asyncio.create_task(self.feed.run())

    async def stop(self) -> None:
        """Stop following, and forget the sockets of this process."""
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
        await self.storage.write(lambda tx: tx.delete_gateway(self.id))

    async def agent_id(self, ref: AgentRef) -> int:
        """Return the agent's number in the storage, making the agent if it is new."""
        stored = await self.storage.read_state(ref)
        if stored is None:
            stored = (await self.storage.write(lambda tx: tx.load_states([ref])))[ref]
        return stored.agent_id

    def request_of(self, connection: HTTPConnection, body: bytes = b"") -> Request:
        """Return a request or upgrade as agents see it."""
        scope = connection.scope
        raw = scope.get("raw_path") or scope["path"].encode()
        query = scope["query_string"].decode("latin-1")
        scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
        host = connection.headers.get("host", "localhost")
        url = f"{scheme}://{host}{raw.decode('latin-1')}{f'?{query}' if query else ''}"
        return Request(scope.get("method", "GET"), url, dict(connection.headers), body)
