"""A client's connection, as the code of its agent sees it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.storage.protocol import ConnectionRow

if TYPE_CHECKING:
    from agent_runtime.handlers.effects import Effects

Message = str | bytes

SEND = "send"
CLOSE = "close"
BROADCAST = "broadcast"
FLAGS = "flags"
STREAM = "stream"


class Connection:
    """One open WebSocket (state-and-sync 14).

    It may be held by another process: what is sent goes through the change feed, in order with the
    agent's state.
    """

    def __init__(self, row: ConnectionRow, effects: Callable[[], Effects]) -> None:
        self._row = row
        self._effects = effects

    @property
    def id(self) -> str:
        """The client's connection id; the same after it reconnects."""
        return self._row.connection_id

    @property
    def uri(self) -> str:
        """The URL of the upgrade."""
        return self._row.uri

    @property
    def tags(self) -> list[str]:
        """The tags given at connect, the id first."""
        tags: list[str] = from_json(self._row.tags)
        return tags

    @property
    def state(self) -> Json:
        """What the author attached, None at first."""
        return None if self._row.state is None else from_json(self._row.state)

    @property
    def is_readonly(self) -> bool:
        """The client may not change the state."""
        return self._row.is_readonly

    @property
    def is_protocol_enabled(self) -> bool:
        """The client gets identity and state frames."""
        return self._row.has_protocol

    @property
    def socket(self) -> str:
        """Names this very socket."""
        return self._row.socket

    async def set_state(self, state: Json | Callable[[Json], Json]) -> None:
        """Attach a value to the connection, or what a function makes of the present one."""
        value = state(self.state) if callable(state) else state
        text = to_json(value, what="the connection's state").decode()
        await self._change(replace(self._row, state=None if value is None else text))

    async def set_readonly(self, is_readonly: bool = True) -> None:
        """Let the client change the state, or not.

        A client that came with a read-only token is never let.
        """
        kept = is_readonly or self._row.has_readonly_token
        await self._change(replace(self._row, is_readonly=kept))

    async def send(self, message: Message | Json) -> None:
        """Send a text, bytes, or a JSON value as text."""
        await self._effects().emit(SEND, {"socket": self.socket, **frame_payload(message)})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the socket."""
        if not (code == 1000 or 3000 <= code <= 4999 or 1001 <= code <= 1014):
            raise InvalidRequestError(f"{code} is no code to close a WebSocket with", code=code)
        payload = {"socket": self.socket, "code": code, "reason": reason}
        await self._effects().emit(CLOSE, payload)

    async def _change(self, row: ConnectionRow) -> None:
        payload = {"socket": row.socket, "is_readonly": row.is_readonly}
        await self._effects().emit(FLAGS, payload, connection=row)
        self._row = row


class ResponseStream:
    """The answer of a streaming method (state-and-sync 11)."""

    def __init__(self, effects: Callable[[], Effects], socket: str, call_id: str) -> None:
        self._effects = effects
        self._socket = socket
        self._call_id = call_id
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """The answer has ended."""
        return self._is_closed

    async def send(self, chunk: Json) -> bool:
        """Send a part; False once the stream is closed."""
        frame = {"done": False, "success": True, "result": chunk}
        return await self._emit(frame, closes=False)

    async def end(self, final: Json = None) -> bool:
        """Send the last part and close; without one the client gets none."""
        frame: dict[str, Json] = {"done": True, "success": True}
        if final is not None:
            frame["result"] = final
        return await self._emit(frame, closes=True)

    async def error(self, message: str) -> bool:
        """Send an error and close."""
        return await self._emit({"success": False, "error": message}, closes=True)

    async def _emit(self, frame: dict[str, Json], *, closes: bool) -> bool:
        if self._is_closed:
            return False
        self._is_closed = closes
        frame = {"type": "rpc", "id": self._call_id, **frame}
        await self._effects().emit(STREAM, {"socket": self._socket, "frame": frame})
        return True


def frame_payload(message: Message | Json) -> dict[str, Json]:
    """Return a message as it is stored: `{"text"}` or `{"base64"}`."""
    if isinstance(message, bytes):
        return {"base64": base64.b64encode(message).decode()}
    if isinstance(message, str):
        return {"text": message}
    return {"text": to_json(message, what="the message").decode()}


def open_payload(payload: dict[str, Json]) -> Message:
    """Read what `frame_payload` returned."""
    if "base64" in payload:
        return base64.b64decode(payload["base64"])
    text: str = payload["text"]
    return text
