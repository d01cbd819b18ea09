"""The process that listens: uvicorn, started and stopped by us."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from agent_runtime.errors import ConfigurationError
from agent_runtime.gateway.bounded_head import BoundedHeadProtocol

STOP_SECONDS = 5
"""How long a stopping gateway waits for answers under way; sockets get 1012 at once."""

_READY_POLL_SECONDS = 0.005
_REFUSED_UPGRADE = "ASGI callable returned without completing handshake."


class _Server(uvicorn.Server):
    """A server that leaves signals to its process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class GatewayServer:
    """Serves an application until `stop`.

    Args:
        max_frame_bytes: Longer frames are not even read; they close with 1009.
    """

    def __init__(self, app: ASGIApp, *, max_frame_bytes: int) -> None:
        logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=BoundedHeadProtocol,
                ws="websockets-sansio",
                ws_max_size=max_frame_bytes,
                lifespan="on",
                # URLs may hold what is nobody's business; what fails is logged where it fails.
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )

    async def run(self, listener: socket.socket) -> None:
        """Serve on a socket until `stop`, which closes WebSockets with 1012."""
        await self._server.serve(sockets=[listener])

    async def wait_until_ready(self, serving: asyncio.Task[None]) -> None:
        """Wait until clients are accepted.

        Args:
            serving: The task of `run`.

        Raises:
            ConfigurationError: It has ended instead; the log says why.
        """
        while not self._server.started:
            if serving.done():
                serving.result()
                raise ConfigurationError("the gateway did not start; the log says why")
            await asyncio.sleep(_READY_POLL_SECONDS)

    def stop(self) -> None:
        """Accept nobody any more and end what is open."""
        self._server.should_exit = True


def _is_worth_logging(record: logging.LogRecord) -> bool:
    # uvicorn takes each upgrade that is answered with a response, such as 401, for a bug of ours;
    # anybody could fill the log with that.
    return record.msg != _REFUSED_UPGRADE


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Args:
        port: 0 takes a free one.

    Raises:
        ConfigurationError: The port is taken, or the host is none of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. asyncio sets it on sockets of its own making only; without, the
        # second of two small frames waits 40 ms for the client to acknowledge the first.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; choose another with "
            "--host and --port (0 takes a free one)",
            port=port,
        ) from None


def url_of(listener: socket.socket) -> str:
    """Return where a browser finds a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
