"""Whether a request may reach an agent, and which (state-and-sync 2.5 to 2.7)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from agent_runtime.gateway.routing import Router
from agent_runtime.http_message import Request, Response
from agent_runtime.identity import AgentRef
from agent_runtime.registry import AgentDefinition, AgentRegistry

Resolve = Callable[[Request], Awaitable[AgentRef | None] | AgentRef | None]
"""Picks the agent of a request by a rule of the application's own; None leaves it to the URL."""

Answer = Request | Response | None
Before = Callable[[Request, AgentRef], Awaitable[Answer] | Answer]
"""Sees a request first: None lets it go on, a `Response` answers it, a `Request` replaces it."""

CORS_HEADERS: Mapping[str, str] = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, HEAD, OPTIONS",
    "access-control-allow-headers": "*",
    "access-control-max-age": "86400",
}


@dataclass(frozen=True, slots=True)
class Admitted:
    """A request that may reach an agent.

    Args:
        headers: What its answer is given besides.
    """

    request: Request
    ref: AgentRef
    definition: AgentDefinition
    headers: Mapping[str, str] = field(default_factory=dict)


class Admission:
    """Finds the agents of requests.

    Args:
        prefix: First path segments of agents' URLs.
        cors: True, or the headers that let pages of other origins in.
        resolve: Asked before the URL is.
        before_connect: Asked before an upgrade reaches its agent.
        before_request: Asked before any other request does.
    """

    def __init__(
        self,
        registry: AgentRegistry,
        *,
        prefix: str = "agents",
        cors: bool | Mapping[str, str] = False,
        resolve: Resolve | None = None,
        before_connect: Before | None = None,
        before_request: Before | None = None,
    ) -> None:
        self._registry = registry
        self._router = Router(registry, prefix)
        self._cors = CORS_HEADERS if cors is True else dict(cors or {})
        self._resolve = resolve
        self._before_connect = before_connect
        self._before_request = before_request

    async def connect(self, request: Request) -> Admitted | Response:
        """Return the agent of an upgrade, or the answer that refuses it."""
        found = await self._find(request, {})
        return found if isinstance(found, Response) else await _ask(self._before_connect, found)

    async def request(self, request: Request) -> Admitted | Response:
        """Return the agent of a request, or its answer."""
        found = await self._find(request, self._cors)
        if isinstance(found, Response):
            return found
        if found.headers and request.method == "OPTIONS":
            return Response(b"", 200, found.headers)
        return await _ask(self._before_request, found)

    async def _find(self, request: Request, headers: Mapping[str, str]) -> Admitted | Response:
        if self._resolve is not None:
            answer = self._resolve(request)
            ref = await answer if isinstance(answer, Awaitable) else answer
            if ref is not None:
                return Admitted(request, ref, self._registry.definition(ref.class_name))
        route = self._router.match(request.path)
        if route is None:
            return Response("Not found", 404)
        if route.definition is None or route.ref is None:
            return Response("Invalid request", 400)
        return Admitted(request, route.ref, route.definition, headers)


async def _ask(before: Before | None, found: Admitted) -> Admitted | Response:
    if before is None:
        return found
    answer = before(found.request, found.ref)
    if inspect.isawaitable(answer):
        answer = await answer
    if answer is None:
        return found
    if isinstance(answer, Response):
        return Response(answer.body, answer.status, {**found.headers, **answer.headers})
    return Admitted(answer, found.ref, found.definition, found.headers)
