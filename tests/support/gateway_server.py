"""A gateway that serves clients on a port of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import uvicorn
from starlette.routing import BaseRoute

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.gateway.http_api import HttpApi
from agent_runtime.local.temporal_server import free_port
from agent_runtime.registry import AgentClass, AgentRegistry
from tests.support.eventually import assert_eventually


class GatewayServer:
    """Serves agents' clients while it is entered.

    Args:
        port: To come back to the same address; a free one if not given.
        routes: What it serves besides.
        has_api: It serves the HTTP API too.
        options: Of `Gateway`.
    """

    def __init__(
        self,
        client: AgentClient,
        agents: Iterable[AgentClass],
        *,
        port: int = 0,
        routes: Sequence[BaseRoute] = (),
        has_api: bool = False,
        **options: Any,
    ) -> None:
        self.gateway = Gateway(client, AgentRegistry(agents), **options)
        self.port = port or free_port()
        app = build_app(self.gateway)
        app.router.routes[:0] = routes
        config = uvicorn.Config(
            HttpApi(app, self.gateway) if has_api else app,
            host="127.0.0.1",
            port=self.port,
            ws="websockets-sansio",
            log_level="warning",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._serving: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> GatewayServer:
        """Start, and wait until clients are let in."""
        self._serving = asyncio.create_task(self._server.serve())

        async def started() -> None:
            assert self._server.started

        await assert_eventually(started)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and send away the clients that are there."""
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
