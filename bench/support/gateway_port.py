"""Serving an ASGI application on a port until SIGTERM, as the product and its floor both do."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import uvicorn

from bench.support.processes import READY


async def serve_until_term(config: uvicorn.Config) -> None:
    """Serve on the loopback address; say READY when connections are taken."""
    config.host = "127.0.0.1"
    config.log_level = "warning"
    config.ws = "websockets-sansio"
    server = _SayingServer(config)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve()


class _SayingServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        print(READY, flush=True)
