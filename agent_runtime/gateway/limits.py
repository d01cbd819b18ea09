"""How much one client may send and hold: nobody can use up a gateway for the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_runtime.gateway.access import OPEN_PATHS
from agent_runtime.gateway.problems import RETRY_AFTER_SECONDS, problem
from agent_runtime.gateway.request_rate import RequestRate
from agent_runtime.gateway.token_bucket import TokenBucket
from agent_runtime.identity import AgentRef

TOO_BIG = 1009
"""The code that a client is closed with whose frame is too long."""

TOO_FAST = 1008
"""The code that a client is closed with which sends too many frames; stock clients stay away."""


_LATER = {"Retry-After": str(RETRY_AFTER_SECONDS)}
_GUARD = "agent_runtime.limit_guard"
_IMPORT = re.compile(rb"/api/agents/[^/]+/[^/]+/session-import")
_IMPORT_LIMIT = "agent_runtime.max_import_bytes"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed; the fields are settings, see docs/settings.md."""

    max_frame_bytes: int = 2_200_000
    max_body_bytes: int = 2_200_000
    frames_per_second: float = 200.0
    max_connections_per_agent: int = 1_000
    max_connections: int = 10_000
    requests_per_second: float = 200.0
    max_import_bytes: int = 2**30


class LimitGuard:
    """Keeps clients within limits."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits
        self._requests = RequestRate(limits.requests_per_second)
        self._per_agent: Counter[AgentRef] = Counter()
        self.connections = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection."""
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
        elif scope["type"] == "http":
            # Probes come from whoever watches the process, often many from one address.
            pause = 0 if scope["path"] in OPEN_PATHS else self._requests.pause(scope)
            if pause:
                refusal = problem(
                    429,
                    "TooManyRequests",
                    f"this client sends more requests than it may; go on in {pause} seconds",
                    headers={"Retry-After": str(pause)},
                )
                await refusal(scope, receive, send)
            else:
                await self._serve_request(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    @contextmanager
    def count(self, ref: AgentRef) -> Iterator[bool]:
        """Count a connection of an agent; gives False if the agent has as many as it may."""
        if self._per_agent[ref] >= self._limits.max_connections_per_agent:
            yield False
            return
        self._per_agent[ref] += 1
        try:
            yield True
        finally:
            self._per_agent[ref] -= 1
            if not self._per_agent[ref]:
                del self._per_agent[ref]

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.connections >= self._limits.max_connections:
            text = "this gateway has as many connections as it may"
            await problem(503, "GatewayFull", text, headers=_LATER)(scope, receive, send)
            return
        self.connections += 1
        try:
            socket = _MeteredSocket(self._limits, receive, send)
            await self._app({**scope, _GUARD: self}, socket.receive, socket.send)
        finally:
            self.connections -= 1

    async def _serve_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and _IMPORT.fullmatch(scope.get("raw_path") or b""):
            # Whoever serves it takes it in parts, and none of them is kept in memory.
            noted = {**scope, _IMPORT_LIMIT: self._limits.max_import_bytes}
            await self._app(noted, receive, send)
            return
        limit = self._limits.max_body_bytes
        parts: list[bytes] = []
        size, is_whole = 0, False
        while max(size, _announced(scope)) <= limit and not is_whole:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            is_whole = not message.get("more_body", False)
        if not is_whole or size > limit:
            text = f"the body is longer than {limit} bytes"
            refusal = problem(413, "BodyTooLarge", text, headers={"Connection": "close"})
            await refusal(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": b"".join(parts)}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)


def counted(scope: Scope, ref: AgentRef) -> AbstractContextManager[bool]:
    """Count a connection of an agent while it is entered; there is room where nobody guards."""
    guard: LimitGuard | None = scope.get(_GUARD)
    return nullcontext(True) if guard is None else guard.count(ref)


def max_import_bytes(scope: Scope) -> int | None:
    """Return how long an imported conversation may be; any length where nobody guards."""
    limit: int | None = scope.get(_IMPORT_LIMIT)
    return limit


def agent_full() -> Response:
    """Return the refusal of an agent that has as many connections as it may."""
    text = "this agent has as many connections as it may"
    return problem(429, "AgentFull", text, headers=_LATER)


class _MeteredSocket:
    """Ends a WebSocket that sends too much; what is inside sees a client that has left."""

    def __init__(self, limits: Limits, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._receive = receive
        self._send = send
        self._bucket = TokenBucket(limits.frames_per_second)
        self._end: Message | None = None

    async def receive(self) -> Message:
        if self._end is not None:
            return self._end
        message = await self._receive()
        if message["type"] != "websocket.receive":
            return message
        if _size(message) > self._limits.max_frame_bytes:
            return await self._close(TOO_BIG, "frame too long")
        if not self._bucket.take():
            return await self._close(TOO_FAST, "too many frames")
        return message

    async def send(self, message: Message) -> None:
        if self._end is None:  # what is still said to a closed client is for nobody
            await self._send(message)

    async def _close(self, code: int, reason: str) -> Message:
        self._end = {"type": "websocket.disconnect", "code": code, "reason": reason}
        await self._send({"type": "websocket.close", "code": code, "reason": reason})
        return self._end


def _size(message: Message) -> int:
    text = message.get("text")
    return len(message.get("bytes") or b"") if text is None else len(text.encode())


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0
