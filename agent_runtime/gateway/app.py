"""The gateway as an ASGI application."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Scope
from starlette.websockets import WebSocket

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.gateway.client_session import ClientSession
from agent_runtime.gateway.gateway import Gateway

logger = logging.getLogger("agent_runtime")

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def build_app(gateway: Gateway, *, routes: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application that serves the gateway's agents.

    Args:
        routes: What else it serves; tried before the agents' own.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.start()
        try:
            yield
        finally:
            await gateway.stop()

    async def serve_socket(websocket: WebSocket) -> None:
        route = gateway.router.match(_raw_path(websocket.scope))
        if route is None:
            await websocket.send_denial_response(PlainTextResponse("Not found", 404))
        elif route.definition is None or route.ref is None:
            await websocket.send_denial_response(PlainTextResponse("Invalid request", 400))
        else:
            await ClientSession(gateway, websocket, route.ref, route.definition).serve()

    async def serve_request(request: HttpRequest) -> Response:
        route = gateway.router.match(_raw_path(request.scope))
        if route is None:
            return PlainTextResponse("Not found", 404)
        if route.definition is None or route.ref is None:
            return PlainTextResponse("Invalid request", 400)
        if not route.definition.handles("request"):
            return PlainTextResponse("Not implemented", 404)
        fields = gateway.request_of(request, await request.body()).to_value()
        try:
            agent = gateway.client.agent(*route.ref)
            call = await agent.start_call("on_request", fields, event="request")
            answer = await call.result()
        except AgentRuntimeError as error:
            logger.error("%s.on_request: %s", route.ref, error)
            return PlainTextResponse("Internal Server Error", 500)
        body = base64.b64decode(answer["body"])
        return Response(body, answer["status"], answer["headers"])

    return Starlette(
        routes=[
            *routes,
            WebSocketRoute("/{path:path}", serve_socket),
            Route("/{path:path}", serve_request, methods=_METHODS),
        ],
        lifespan=lifespan,
    )


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path") or str(scope["path"]).encode()
    return raw.decode("latin-1") if isinstance(raw, bytes) else str(raw)
