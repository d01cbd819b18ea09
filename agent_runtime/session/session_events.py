"""What a session tells others: frames for connected clients, events for one observer (10)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import Message
from agent_runtime.session.session_provider import AUTO, Parent

logger = logging.getLogger("agent_runtime")


@dataclass(frozen=True, slots=True)
class MessageAppended:
    """A message was given to the session; `is_inserted` is False if its id was there already.

    Args:
        parent_id: As the caller gave it; `AUTO` if not.
    """

    message: Message
    is_inserted: bool
    parent_id: Parent = AUTO


@dataclass(frozen=True, slots=True)
class MessageUpdated:
    """A message was replaced; one of an unknown id was not, and must not be added to caches."""

    message: Message


@dataclass(frozen=True, slots=True)
class MessagesDeleted:
    """Messages were deleted, as far as they existed."""

    message_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessagesCleared:
    """All messages of the session were removed."""


@dataclass(frozen=True, slots=True)
class HistoryCompacted:
    """A summary now stands for a part of the history."""


SessionEvent: TypeAlias = (
    MessageAppended | MessageUpdated | MessagesDeleted | MessagesCleared | HistoryCompacted
)
SessionListener: TypeAlias = Callable[[SessionEvent], Awaitable[None] | None]
Broadcast: TypeAlias = Callable[[str], Awaitable[object] | object]
"""Sends a frame, JSON text, to whoever is connected."""


class SessionEvents:
    """Sends frames and events; neither can make a write that is stored look failed."""

    def __init__(self) -> None:
        self.broadcast: Broadcast | None = None
        self.listener: SessionListener | None = None

    async def status(
        self,
        phase: str,
        token_estimate: int,
        token_threshold: int | None,
        *,
        tokens_before: int | None = None,
    ) -> None:
        """Tell clients what the session does and how long it is."""
        frame: dict[str, object] = {
            "type": "cf_agent_session",
            "phase": phase,
            "tokenEstimate": token_estimate,
            "tokenThreshold": token_threshold,
        }
        if tokens_before is not None:
            frame["compacted"] = {"tokensBefore": tokens_before}
        await self._send(frame)

    async def error(self, text: str) -> None:
        """Tell clients that something failed."""
        await self._send({"type": "cf_agent_session_error", "error": text})

    async def emit(self, event: SessionEvent) -> None:
        """Tell the observer; what it raises is logged."""
        if self.listener is None:
            return
        try:
            await maybe_await(self.listener(event))
        except Exception:
            logger.exception("the session's listener raised; the write it was told of stands")

    async def _send(self, frame: dict[str, object]) -> None:
        if self.broadcast is None:
            return
        try:
            await maybe_await(self.broadcast(orjson.dumps(frame).decode()))
        except Exception:
            logger.exception("a session's frame could not be sent; the write it tells of stands")
