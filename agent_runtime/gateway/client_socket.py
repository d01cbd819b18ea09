"""One client's socket: what waits to be sent to it, and how much of that is too much."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_runtime.agent_connection import Message
from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import ConnectionRow

MAX_WAITING = 1_000
MAX_WAITING_BYTES = 8 * 1024 * 1024
COALESCE_FROM = 16
DROPPED = (1006, "WebSocket disconnected without sending Close frame.")
"""What the close hook is told when nothing was said."""

CROSSING_SECONDS = 10.0
"""How long a state frame may be on its way to a client that still writes."""

TOO_SLOW = 1013
"""The code that a client is closed with which does not read what it is sent."""


@dataclass(slots=True)
class _Waiting:
    message: Message
    is_state: bool


@dataclass(slots=True)
class ClientSocket:
    """Frames for one client, in order.

    A client that reads slowly gets the newest state in place of all that it has missed; one that
    does not read is closed. It never holds up others.

    Args:
        version: The newest version of the state that it was told, or made itself.
        sent_version: The newest version that it was sent.
        echo: Sends the state to it after a write of its own (state-and-sync 19.1.4).
        has_ended: The agent it belongs to is destroyed; `on_end` is called when that happens.
    """

    hears_every_version: ClassVar[bool] = False
    """Whether it is told a version in which its view of the state stayed the same."""

    websocket: WebSocket
    ref: AgentRef
    row: ConnectionRow
    version: int = 0
    sent_version: int = 0
    echo: asyncio.TimerHandle | None = None
    open_streams: set[str] = field(default_factory=set)
    has_ended: bool = False
    on_end: Callable[[], None] | None = None
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _bytes: int = 0
    _closing: tuple[int, str] | None = None
    _may_cross_until: float = 0.0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def send(self, message: Message, *, is_state: bool = False) -> None:
        """Queue a frame."""
        if self._closing is not None:
            return
        if is_state and len(self._waiting) >= COALESCE_FROM:
            kept = [one for one in self._waiting if not one.is_state]
            self._bytes -= sum(len(one.message) for one in self._waiting if one.is_state)
            self._waiting = deque(kept)
        self._waiting.append(_Waiting(message, is_state))
        self._bytes += len(message)
        if len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
            self._waiting.clear()
            self.close(TOO_SLOW, "too slow")
        self._changed.set()

    def send_state(self, text: str, version: int) -> None:
        """Queue a state frame."""
        self.sent_version = version
        self.expect_crossing(CROSSING_SECONDS)
        self.send(text, is_state=True)

    def expect_crossing(self, seconds: float) -> None:
        """For so long, a write of the client may be older than the state it was sent."""
        self._may_cross_until = time.monotonic() + seconds

    def may_have_crossed(self) -> bool:
        """Tell whether a write that has just come may be older than the state it was sent."""
        return time.monotonic() < self._may_cross_until

    def end(self) -> None:
        """Note that the agent is destroyed, and tell whoever serves the socket."""
        if not self.has_ended:
            self.has_ended = True
            if self.on_end is not None:
                self.on_end()

    def drop(self) -> None:
        """Go without a word once what is queued has been sent."""
        self.close(*DROPPED)

    def close(self, code: int, reason: str) -> None:
        """Close the socket once what is queued has been sent."""
        if self._closing is None:
            self._closing = (code, reason)
            self._changed.set()

    async def write(self) -> None:
        """Send what is queued until the socket is closed."""
        try:
            while True:
                while self._waiting:
                    waiting = self._waiting.popleft()
                    self._bytes -= len(waiting.message)
                    if isinstance(waiting.message, bytes):
                        await self.websocket.send_bytes(waiting.message)
                    else:
                        await self.websocket.send_text(waiting.message)
                if self._closing is not None:
                    if self._closing != DROPPED:
                        await self.websocket.close(*self._closing)
                    return
                self._changed.clear()
                await self._changed.wait()
        except (WebSocketDisconnect, RuntimeError):
            return  # the client has gone; the reader of its frames sees that too
