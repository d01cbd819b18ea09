"""A real gateway on a real port, in this process, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
from websockets.asyncio.client import ClientConnection, connect

from agent_runtime.agent import Agent
from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.gateway.limits import Limits
from agent_runtime.gateway.server import GatewayServer, listen, url_of
from agent_runtime.gateway.service import build_service
from agent_runtime.registry import AgentRegistry
from tests.conftest import Serve, Served


@dataclass
class LiveGateway:
    """A gateway that listens."""

    url: str
    http: httpx.AsyncClient
    served: Served
    gateway: Gateway

    def connect(self, path: str, **options: Any) -> connect:
        """Open a WebSocket: `async with live.connect("/agents/counter/a") as socket:`."""
        url = self.url.replace("http", "ws", 1) + path
        return connect(url, proxy=None, open_timeout=60, **options)


@asynccontextmanager
async def live_gateway(
    serve: Serve,
    *agents: type[Agent[Any]],
    tokens: Tokens | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    static_folder: Path | None = None,
) -> AsyncIterator[LiveGateway]:
    """Serve agents and a gateway of them."""
    async with serve(*agents) as served:
        gateway = Gateway(served.client, AgentRegistry(agents))
        limits = limits or Limits()
        app = build_service(
            gateway, tokens=tokens, origins=origins, limits=limits, static_folder=static_folder
        )
        server = GatewayServer(app, max_frame_bytes=limits.max_frame_bytes)
        listener = listen("127.0.0.1", 0)
        url = url_of(listener)
        serving = asyncio.create_task(server.run(listener))
        try:
            await server.wait_until_ready(serving)
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
                yield LiveGateway(url, http, served, gateway)
        finally:
            server.stop()
            await serving


async def next_frame(socket: ClientConnection, kind: str, *, seconds: float = 60.0) -> Any:
    """Read on until a frame of a type comes, and return it."""
    async with asyncio.timeout(seconds):
        while True:
            frame = orjson.loads(await socket.recv())
            if frame.get("type") == kind:
                return frame
