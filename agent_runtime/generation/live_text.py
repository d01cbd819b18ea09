"""An answer's text, shown to connected clients while it arrives."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable

from agent_runtime.errors import AgentRuntimeError
from agent_runtime.json_value import Json, to_json
from agent_runtime.llm.chat_model import ChatDelta

logger = logging.getLogger("agent_runtime")

TEXT_FRAME = "agent_runtime_text"
"""The `type` of frames with text that arrives."""

_MIN_INTERVAL_SECONDS = 0.1


class LiveText:
    """Sends what arrives of one answer, a frame at most every tenth of a second.

    A frame is `{"type": "agent_runtime_text", "sessionId", "messageId", "offset", "text"}`. The
    offset counts the characters before it; one that is smaller than what a client has says that the
    answer was begun again. Nothing here is kept: the message itself is stored when it is whole.

    Args:
        send: Sends a frame to whoever is connected; what it raises is logged.
    """

    def __init__(
        self, send: Callable[[str], Awaitable[None]], session_id: str, message_id: str
    ) -> None:
        self._send = send
        self._fields = {"type": TEXT_FRAME, "sessionId": session_id, "messageId": message_id}
        self._waiting: list[str] = []
        self._offset = 0
        self._sent_at = 0.0

    def begin(self) -> None:
        """Begin an answer, the first or one after an error."""
        self._waiting.clear()
        self._offset = 0

    async def show(self, delta: ChatDelta) -> None:
        """Take a piece of the answer, and send what has gathered if it is time."""
        if delta.text:
            self._waiting.append(delta.text)
        if time.monotonic() - self._sent_at >= _MIN_INTERVAL_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        """Send what has gathered."""
        if not self._waiting:
            return
        text = "".join(self._waiting)
        self._waiting.clear()
        frame: dict[str, Json] = {**self._fields, "offset": self._offset, "text": text}
        self._offset += len(text)
        self._sent_at = time.monotonic()
        try:
            await self._send(to_json(frame, what="the text").decode())
        except AgentRuntimeError as error:
            logger.warning("text could not be shown to clients: %s", error.message)
