"""Asking a model until it answers, as long as that makes sense."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

from agent_runtime.errors import ModelError
from agent_runtime.generation.live_text import LiveText
from agent_runtime.generation.model_answer import ModelAnswer
from agent_runtime.llm.chat_model import ChatRequest, ChatResponse, Usage
from agent_runtime.llm.model_config import usage_cost
from agent_runtime.llm.open_models import OpenModel
from agent_runtime.llm.usable_response import usage_of

logger = logging.getLogger("agent_runtime")

MAX_ATTEMPTS = 5
"""Blank answers and timeouts may cost something each."""

_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 30.0


async def ask_patiently(
    opened: OpenModel, request: ChatRequest, timeout: timedelta, live: LiveText
) -> ModelAnswer:
    """Ask, and ask again after errors that can pass, at most five times.

    The pause doubles from half a second, and is as long as the provider asks. What cannot be had in
    time is not waited for. Cancelling ends the request.

    Args:
        timeout: Of all attempts together.
        live: Shown the text while it arrives.

    Returns:
        The answer, or the last error: one that cannot pass, or came when there was no time left.
    """
    ends_at = time.monotonic() + timeout.total_seconds()
    pause, usage, attempt = _FIRST_PAUSE_SECONDS, Usage(), 0
    while True:
        attempt += 1
        live.begin()
        left = timedelta(seconds=max(0.0, ends_at - time.monotonic()))
        outcome: ChatResponse | ModelError
        try:
            outcome = await opened.model.complete(
                request, deadline=datetime.now(UTC) + left, on_progress=live.show
            )
            await live.flush()
            usage += outcome.usage
        except ModelError as error:
            outcome = error
            usage += usage_of(error)
        if isinstance(outcome, ChatResponse) or not outcome.is_retryable:
            break
        asked = outcome.next_retry_delay
        wait = pause if asked is None else max(pause, asked.total_seconds())
        if attempt == MAX_ATTEMPTS or time.monotonic() + wait >= ends_at:
            break
        logger.info("%s; asking again in %.1f s", outcome.message, wait)
        await asyncio.sleep(wait)
        pause = min(2 * pause, _MAX_PAUSE_SECONDS)
    return ModelAnswer(outcome, usage, usage_cost(usage, opened.config))
