"""A bare client: frames as they are on the wire."""

from __future__ import annotations

import asyncio
import itertools
import json
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

PROTOCOL = ("cf_agent_identity", "cf_agent_state", "cf_agent_mcp_servers")
_WAIT_SECONDS = 60.0


class WireClient:
    """One WebSocket; collects what it gets, in order."""

    def __init__(self, host: str, path: str) -> None:
        self._url = f"ws://{host}{path}"
        self._ids = itertools.count(1)
        self._changed = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._socket: ClientConnection | None = None
        self.frames: list[Any] = []

    @property
    def socket(self) -> ClientConnection:
        """The open connection."""
        assert self._socket is not None
        return self._socket

    async def __aenter__(self) -> WireClient:
        """Connect."""
        self._socket = await connect(self._url, max_size=None, open_timeout=60)
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        await self.socket.close()
        if self._reading is not None:
            await self._reading

    async def ended(self) -> tuple[int | None, str | None]:
        """Wait until the server closes, and return code and reason."""
        await asyncio.wait_for(self.socket.wait_closed(), _WAIT_SECONDS)
        return self.socket.close_code, self.socket.close_reason

    async def first(self, count: int) -> list[Any]:
        """Return the first frames."""
        await self._until(lambda: len(self.frames) >= count)
        return self.frames[:count]

    async def greeted(self) -> WireClient:
        """Wait for the last frame of the greeting."""
        await self._until(lambda: bool(self.of("cf_agent_mcp_servers")))
        return self

    def of(self, kind: str) -> list[Any]:
        """Return the frames of a type so far."""
        return [one for one in self.frames if isinstance(one, dict) and one.get("type") == kind]

    @property
    def states(self) -> list[Any]:
        """The states it was told so far."""
        return [frame["state"] for frame in self.of("cf_agent_state")]

    @property
    def kinds(self) -> list[str]:
        """The types of protocol frames so far."""
        return [frame["type"] for frame in self.frames if frame.get("type") in PROTOCOL]

    async def told(self, state: Any) -> None:
        """Wait until it is told a state."""
        await self._until(lambda: state in self.states)

    async def got(self, kind: str, count: int = 1) -> Any:
        """Wait for so many frames of a type, and return the last of them."""
        await self._until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)[count - 1]

    async def send(self, frame: Any) -> None:
        """Send a value as JSON, or text and bytes as they are."""
        is_raw = isinstance(frame, str | bytes)
        await self.socket.send(frame if is_raw else json.dumps(frame))

    async def set_state(self, state: Any) -> None:
        """Send a state frame."""
        await self.send({"state": state, "type": "cf_agent_state"})

    async def call(self, method: str, *args: Any) -> dict[str, Any]:
        """Call a method and return the frame that ends the call."""
        return (await self.call_stream(method, *args))[-1]

    async def call_stream(self, method: str, *args: Any) -> list[dict[str, Any]]:
        """Call a method and return all frames of the answer."""
        call_id = f"call-{next(self._ids)}"
        await self.send({"args": list(args), "id": call_id, "method": method, "type": "rpc"})
        await self._until(lambda: any(one.get("done", True) for one in self._answers(call_id)))
        return self._answers(call_id)

    async def result(self, method: str, *args: Any) -> Any:
        """Call a method and return its result; None stands for none."""
        frame = await self.call(method, *args)
        assert frame["success"], frame
        return frame.get("result")

    def _answers(self, call_id: str) -> list[dict[str, Any]]:
        return [frame for frame in self.of("rpc") if frame.get("id") == call_id]

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(_WAIT_SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def _read(self) -> None:
        try:
            async for message in self.socket:
                self.frames.append(json.loads(message) if isinstance(message, str) else message)
                self._changed.set()
        except ConnectionClosed:
            return
