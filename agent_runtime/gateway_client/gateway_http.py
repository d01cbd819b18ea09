"""Requests to a gateway's HTTP API that come through, whatever happens on the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

import httpx

from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    ConfigurationError,
    InvalidRequestError,
    NotSerializableError,
    ReadonlyConnectionError,
    StorageUnavailableError,
    UnavailableError,
    error_types,
    from_record,
)
from agent_runtime.idempotency_key import KeyMaker
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.mutation import check_key

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 5.0
_CONNECT_SECONDS = 5.0
_NOT_THERE = ("NoAgent", "NoContextBlock")
_LATER = (408, 425, 429, 502, 503, 504)

_KEYS = KeyMaker()

Query = Sequence[tuple[str, str]]


class GatewayHttp:
    """Sends requests, again under the same key if one was lost.

    Args:
        base: URL that every path is below.
        is_local: The gateway is on this machine, which no proxy reaches.
        timeout: For how long a request is repeated while none gets through.
    """

    def __init__(self, base: str, *, token: str | None, is_local: bool, timeout: timedelta) -> None:
        self._base = base
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._is_local = is_local
        self._timeout = timeout
        self._client: httpx.AsyncClient | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Close the connections; requests are refused afterwards."""
        self._is_closed = True
        if self._client is not None:
            await self._client.aclose()

    async def get(self, path: str, query: Query = (), *, timeout: timedelta | None = None) -> Json:
        """Return what is there.

        Raises:
            AgentRuntimeError: As `change`.
        """
        return await self._send("GET", path, query, None, {}, timeout)

    async def change(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: Query = (),
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> Json:
        """Make a change and return the answer, None if it has no content.

        Args:
            body: None for none.
            timeout: Give up waiting after this; without it an answer is waited for as long as it
                takes, and only what did not get through is given up.

        Raises:
            UnavailableError: Nothing got through in time.
            CallTimeoutError: `timeout` passed.
            ReadonlyConnectionError: The token may only read.
            ConfigurationError: The gateway does not let this client in, or has no such route.
            AgentRuntimeError: What the gateway answered.
        """
        key = _KEYS.next() if idempotency_key is None else idempotency_key
        headers = {"Idempotency-Key": _header_of(key)}
        content = None if body is None else to_json(body, what="the request")
        return await self._send(method, path, query, content, headers, timeout)

    async def lines(self, path: str) -> AsyncIterator[str]:
        """Give the lines of a long answer as they come.

        Raises:
            UnavailableError: Nothing got through, or the answer was cut off.
            AgentRuntimeError: What the gateway answered, see `change`.
        """
        rest = b""
        try:
            async with self._opened().stream("GET", self._base + path) as response:
                if not response.is_success:
                    await response.aread()
                    raise _error_of(response)
                # Not by `aiter_lines`, which takes characters within texts for ends of lines.
                async for chunk in response.aiter_bytes():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield line.decode()
        except httpx.TransportError as error:
            raise self._unreached(error) from None
        if rest:
            yield rest.decode()

    async def upload(
        self,
        path: str,
        content: AsyncIterator[bytes],
        *,
        media_type: str,
        query: Query = (),
        timeout: timedelta | None = None,
    ) -> Json:
        """Send a long body as it is made, once, and return the answer.

        Raises:
            CallTimeoutError: `timeout` passed.
            AgentRuntimeError: As `change`.
        """
        url = self._url(path, query)
        headers = {"Content-Type": media_type}
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                response = await self._opened().post(url, content=content, headers=headers)
        except TimeoutError:
            raise CallTimeoutError(
                f"no answer from the gateway within {seconds} seconds; a part may be stored, so "
                "repeat it"
            ) from None
        except httpx.TransportError as error:
            raise self._unreached(error) from None
        if not response.is_success:
            raise _error_of(response)
        return from_json(response.content)

    async def _send(
        self,
        method: str,
        path: str,
        query: Query,
        content: bytes | None,
        headers: Mapping[str, str],
        timeout: timedelta | None,
    ) -> Json:
        patience = (self._timeout if timeout is None else timeout).total_seconds()
        give_up = time.monotonic() + patience
        pause = FIRST_PAUSE_SECONDS
        if content is not None:
            headers = {**headers, "Content-Type": "application/json"}
        try:
            async with asyncio.timeout(None if timeout is None else patience):
                while True:
                    answer = await self._try(method, path, query, content, headers)
                    if not isinstance(answer, UnavailableError | StorageUnavailableError):
                        break
                    if time.monotonic() + pause > give_up:
                        raise answer
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LAST_PAUSE_SECONDS)
        except TimeoutError:
            raise CallTimeoutError(
                f"no answer from the gateway within {patience} seconds; it may still happen, so "
                "repeat with the same key"
            ) from None
        if isinstance(answer, AgentRuntimeError):
            raise answer
        return answer

    async def _try(
        self,
        method: str,
        path: str,
        query: Query,
        content: bytes | None,
        headers: Mapping[str, str],
    ) -> Json | AgentRuntimeError:
        """Return the answer's value, or the error that it is; unavailable if there is none."""
        url = self._url(path, query)
        try:
            response = await self._opened().request(method, url, content=content, headers=headers)
        except httpx.TransportError as error:
            return self._unreached(error)
        if response.is_success:
            return from_json(response.content) if response.content else None
        return _error_of(response)

    def _url(self, path: str, query: Query) -> httpx.URL:
        try:
            url = httpx.URL(self._base + path)
            return url.copy_merge_params(list(query)) if query else url
        except UnicodeEncodeError:
            raise NotSerializableError("half a character has no place in a URL") from None
        except httpx.InvalidURL:
            raise InvalidRequestError(
                "an id or a query is too long for a URL; nothing was sent"
            ) from None

    def _unreached(self, error: httpx.TransportError) -> UnavailableError:
        reason = str(error) or type(error).__name__
        return UnavailableError(f"the gateway at {self._base} does not answer: {reason}")

    def _opened(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise ConfigurationError("this client of a gateway is closed")
        if self._client is None:
            self._client = httpx.AsyncClient(
                headers=self._headers,
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
                trust_env=not self._is_local,
            )
        return self._client


def _error_of(response: httpx.Response) -> AgentRuntimeError:
    try:
        problem = response.json()
        kind = problem["type"].rpartition(":")[2]
        text, details = problem["detail"], problem.get("details", {})
    except (ValueError, KeyError, TypeError, AttributeError):
        kind, text, details = "", response.text[:200].strip(), {}
    if kind in error_types():
        return from_record({"type": kind, "message": text, "details": details})
    message = f"the gateway refuses ({response.status_code}): {text or response.reason_phrase}"
    if kind == "ReadonlyToken":
        return ReadonlyConnectionError(message)
    if response.status_code in _LATER:
        return UnavailableError(message, status=response.status_code)
    if response.status_code in (400, 413, 415, 422) or kind in _NOT_THERE:
        return InvalidRequestError(message, status=response.status_code)
    return ConfigurationError(message, status=response.status_code)


def _header_of(key: str) -> str:
    check_key(key)
    if not key.isascii():
        raise InvalidRequestError(
            f"the idempotency key {key!r:.80} has no place in a header; use ASCII characters"
        )
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
