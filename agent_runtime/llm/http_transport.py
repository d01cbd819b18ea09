"""HTTP to the providers of models: the only module that knows the HTTP library."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from weakref import WeakKeyDictionary

import httpx

from agent_runtime.errors import (
    ConfigurationError,
    ModelResponseError,
    ModelTimeoutError,
    ModelUnavailableError,
)

MAX_BODY_BYTES = 64 * 1024 * 1024
_MAX_KEPT_CONNECTIONS = 50
_KEEP_SECONDS = 60.0
_DRAIN_SECONDS = 0.2


class HttpAnswer:
    """An answer whose headers have arrived; its body is read once, as a whole or in pieces."""

    def __init__(self, response: httpx.Response) -> None:
        self._pieces = response.aiter_bytes()
        self.status = response.status_code
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            ModelResponseError: It is bigger than 64 MiB.
        """
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                raise ModelResponseError(
                    "the model's answer is bigger than 64 MiB; the provider is at fault",
                    reason="too_big",
                )
        return bytes(body)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        with _our_errors():
            async for piece in self._pieces:
                yield piece

    async def drain(self) -> None:
        """Read what is left, if it comes at once: only then can the connection serve again."""
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in self._pieces:
                    pass
        except (TimeoutError, httpx.HTTPError):
            return


class HttpTransport:
    """Connections to providers, kept and shared by all calls of an event loop.

    One for a worker is enough, whatever the number of models; a model opened without one brings
    its own.
    """

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def post(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes,
        connect_seconds: float,
        idle_seconds: float,
    ) -> AsyncIterator[HttpAnswer]:
        """Send a request, once, and give the answer; leaving the context ends it.

        Args:
            connect_seconds: Longest wait for a connection.
            idle_seconds: Longest wait for the next piece of the answer.

        Raises:
            ModelTimeoutError: Nothing came for so long.
            ModelUnavailableError: No connection, or it was lost; also while the answer is read.
        """
        timeout = httpx.Timeout(idle_seconds, connect=connect_seconds)
        client = self._client()
        with _our_errors():
            request = client.build_request(
                "POST", url, headers=dict(headers), content=body, timeout=timeout
            )
            response = await client.send(request, stream=True)
        try:
            yield HttpAnswer(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Close this loop's connections; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = httpx.AsyncClient(
                verify=_tls(),
                # How many calls run at a time is the worker's decision.
                limits=httpx.Limits(
                    max_connections=None,
                    max_keepalive_connections=_MAX_KEPT_CONNECTIONS,
                    keepalive_expiry=_KEEP_SECONDS,
                ),
            )
        return client


@cache
def _tls() -> ssl.SSLContext:
    # Reading the certificates takes tens of milliseconds, in which nothing else runs.
    return httpx.create_ssl_context()


@contextmanager
def _our_errors() -> Iterator[None]:
    # `from None` everywhere: the library's own texts quote headers, and with them keys.
    try:
        yield
    except (httpx.ConnectTimeout, httpx.ConnectError):
        raise ModelUnavailableError(
            "no connection to the model's provider; check base_url and the network",
            reason="connect",
        ) from None
    except httpx.TimeoutException:
        raise ModelTimeoutError(
            "the model's provider fell silent; try again later, or raise idle_timeout_seconds",
            reason="idle",
        ) from None
    except httpx.HTTPError:
        raise ModelUnavailableError(
            "the connection to the model's provider was lost before the answer was whole; "
            "try again",
            reason="connection_lost",
        ) from None
    except httpx.InvalidURL:
        raise ConfigurationError("base_url is no address; correct it") from None
