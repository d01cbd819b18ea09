"""The floor of the gateway: a bare ASGI server that passes the same frames on and keeps nothing."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from bench.support.gateway_port import serve_until_term

_rooms: dict[str, dict[WebSocket, asyncio.Queue[str]]] = {}


async def serve(websocket: WebSocket) -> None:
    """Greet as the gateway does, answer calls, pass states on to the others."""
    await websocket.accept()
    room = _rooms.setdefault(websocket.url.path, {})
    queue: asyncio.Queue[str] = asyncio.Queue()
    room[websocket] = queue
    for frame in ('{"type":"cf_agent_identity"}', '{"type":"cf_agent_mcp_servers"}'):
        queue.put_nowait(frame)
    writing = asyncio.create_task(_write(websocket, queue))
    try:
        while True:
            frame: dict[str, Any] = orjson.loads(await websocket.receive_text())
            if frame["type"] == "rpc":
                answer = {"type": "rpc", "id": frame["id"], "success": True, "done": True}
                queue.put_nowait(orjson.dumps(answer).decode())
                continue
            text = orjson.dumps({"state": frame["state"], "type": frame["type"]}).decode()
            for other, waiting in room.items():
                if other is not websocket:
                    waiting.put_nowait(text)
    except WebSocketDisconnect:
        del room[websocket]
        writing.cancel()


async def _write(websocket: WebSocket, queue: asyncio.Queue[str]) -> None:
    while True:
        await websocket.send_text(await queue.get())


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    app = Starlette(routes=[WebSocketRoute("/{path:path}", serve)])
    await serve_until_term(uvicorn.Config(app, port=options.port))


if __name__ == "__main__":
    asyncio.run(main())
