"""The gateway as an ASGI application."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response as HttpResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.gateway.extended_session import session_class
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.gateway.limits import agent_full, counted
from agent_runtime.http_message import Response
from agent_runtime.json_value import Json

logger = logging.getLogger("agent_runtime")


def build_app(gateway: Gateway) -> Starlette:
    """Return the application that serves the gateway's agents."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await gateway.start()
        try:
            yield
        finally:
            await gateway.stop()

    async def serve_socket(websocket: WebSocket) -> None:
        admitted = await gateway.admission.connect(gateway.request_of(websocket))
        if isinstance(admitted, Response):
            await websocket.send_denial_response(_http(admitted))
            return
        with counted(websocket.scope, admitted.ref) as has_room:
            if has_room:
                await session_class(websocket)(gateway, websocket, admitted).serve()
            else:
                await websocket.send_denial_response(agent_full())

    async def serve_request(request: HttpRequest) -> HttpResponse:
        asked = gateway.request_of(request, await request.body())
        admitted = await gateway.admission.request(asked)
        if isinstance(admitted, Response):
            return _http(admitted)
        if not admitted.definition.handles("request"):
            return _http(Response("Not implemented", 404), admitted.headers)
        try:
            agent = gateway.client.agent(*admitted.ref)
            fields = admitted.request.to_value()
            call = await agent.start_call("on_request", fields, event="request")
            answer = await call.result()
        except AgentRuntimeError as error:
            logger.error("%s.on_request: %s", admitted.ref, error)
            return _http(Response("Internal Server Error", 500), admitted.headers)
        return _answer(answer, admitted.headers)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await serve_socket(WebSocket(scope, receive, send))
        else:
            response = await serve_request(HttpRequest(scope, receive, send))
            await response(scope, receive, send)

    app = Starlette(lifespan=lifespan)
    # Not a route: its pattern would match no path with a line break in it.
    app.router.default = serve
    return app


def _http(response: Response, headers: Mapping[str, str] | None = None) -> HttpResponse:
    value = response.to_value()
    if not value["body"] and "content-type" not in {name.lower() for name in response.headers}:
        del value["headers"]["content-type"]
    return _answer(value, headers or {})


def _answer(value: dict[str, Json], others: Mapping[str, str]) -> HttpResponse:
    response = HttpResponse(base64.b64decode(value["body"]), value["status"])
    for name, given in {**value["headers"], **others}.items():
        # One that the response has by itself, such as its length, gives way.
        del response.headers[name]
        for each in [given] if isinstance(given, str) else given:
            response.headers.append(name, each)
    return response
