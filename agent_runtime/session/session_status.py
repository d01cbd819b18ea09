"""How long a session is, when it is too long, and who is told of it (contract 7, 9, 10)."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from agent_runtime.compaction.compact_context import CompactFunction, SessionTokenCounter
from agent_runtime.compaction.token_estimate import (
    estimate_messages_tokens,
    estimate_string_tokens,
)
from agent_runtime.errors import HandlerError, describe, public_text
from agent_runtime.session.compaction_threshold import check_threshold
from agent_runtime.session.count_input import count_input
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.session_events import SessionEvents
from agent_runtime.session.session_setup import SessionParts
from agent_runtime.session.stored_session import StoredSessionProvider

logger = logging.getLogger("agent_runtime")

CompactionErrorHandler: TypeAlias = Callable[[Exception], Awaitable[None] | None]


class SessionStatus:
    """A session's length and the threshold that it is compared with.

    Args:
        parts: Gives the session's parts, made at its first use.
    """

    def __init__(self, parts: Callable[[], SessionParts], events: SessionEvents) -> None:
        self.function: CompactFunction | None = None
        self.threshold: int | None = None
        self.token_counter: SessionTokenCounter | None = None
        self.error_handler: CompactionErrorHandler | None = None
        self._parts = parts
        self._events = events
        self._has_warned = False

    def set_function(self, function: CompactFunction) -> None:
        """Register the compaction function.

        Raises:
            SessionSetupError: It keeps a tail that is not smaller than the threshold.
        """
        check_threshold(function, self.threshold)
        self.function = function

    def set_threshold(self, threshold: int, token_counter: SessionTokenCounter | None) -> None:
        """Set when to compact automatically; without a counter an earlier one stays.

        Raises:
            SessionSetupError: It is no number of tokens, or the function's tail is not smaller.
        """
        check_threshold(self.function, threshold)
        self.threshold = threshold
        self.token_counter = token_counter or self.token_counter

    @property
    def needs_estimate(self) -> bool:
        """Whether anybody wants to know how long the session is."""
        is_automatic = self.threshold is not None and self.function is not None
        return is_automatic or self._events.broadcast is not None

    async def estimate(self, leaf_id: str | None = None) -> int:
        """Return the token estimate of the visible history and the prompt (contract 7, 9.2)."""
        parts = self._parts()
        if self.token_counter is None:
            return await self._default_estimate(leaf_id)
        counted = await maybe_await(self.token_counter(await count_input(parts, leaf_id)))
        return max(0, math.ceil(counted)) if math.isfinite(counted) else 0

    async def show_status(
        self,
        phase: str = "idle",
        leaf_id: str | None = None,
        *,
        tokens_before: int | None = None,
    ) -> int | None:
        """Tell clients what the session does, and return its estimate; None if not needed.

        A counter that fails goes to the error handler; clients see the default estimate then, and
        the answer is None.
        """
        if not self.needs_estimate:
            return None
        estimate = None
        try:
            shown = estimate = await self.estimate(leaf_id)
        except Exception as error:
            await self._handle(error)
            try:
                shown = await self._default_estimate(leaf_id)
            except Exception:
                logger.exception("the session's length is unknown")
                return None
        await self._events.status(phase, shown, self.threshold, tokens_before=tokens_before)
        return estimate

    async def _sure_estimate(self) -> int:
        """Return the estimate, the default one if the session's own counter fails."""
        try:
            return await self.estimate()
        except Exception as error:
            await self._handle(error)
            return await self._default_estimate(None)

    async def _default_estimate(self, leaf_id: str | None) -> int:
        parts = self._parts()
        prompt = estimate_string_tokens(await parts.prompt.text_for_estimate())
        if isinstance(parts.provider, StoredSessionProvider):
            return await parts.provider.estimate_visible_tokens(leaf_id) + prompt
        history = await maybe_await(parts.provider.get_history(leaf_id))
        return estimate_messages_tokens(history) + prompt

    async def _handle(self, error: Exception) -> None:
        await self._tell_handler(error)
        await self._events.error(frame_text(error))

    async def _tell_handler(self, error: Exception) -> None:
        if self.error_handler is None:
            logger.warning("compaction failed: %s", describe(error))
            return
        try:
            await maybe_await(self.error_handler(error))
        except Exception:
            logger.exception("the handler of compaction errors raised")

    async def _warn_once(self, estimate: int) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        prompt = estimate_string_tokens(await self._parts().prompt.text_for_estimate())
        reason = (
            f"the system prompt alone has {prompt}"
            if self.threshold is not None and prompt > self.threshold
            else "a token counter that counts more than messages, or a tail that is kept too long, "
            "can be the reason"
        )
        logger.warning(
            "automatic compaction fired but history was not shortened: the session is estimated at "
            "%d tokens, and is to have at most %s; %s",
            estimate,
            self.threshold,
            reason,
        )


def frame_text(error: Exception) -> str:
    """Return what clients are told: what the function said, in whatever process it ran."""
    said = error.details_map.get("error") if isinstance(error, HandlerError) else None
    return str(said or public_text(error) or type(error).__name__)
