"""A model behind HTTP: one request for each call, whatever the provider's API."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import aclosing
from datetime import UTC, datetime

from agent_runtime.errors import (
    ConfigurationError,
    ModelError,
    ModelTimeoutError,
    ModelUnavailableError,
    NotSerializableError,
)
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.llm.chat_model import ChatDelta, ChatRequest, ChatResponse, ProgressCallback
from agent_runtime.llm.dialect import Dialect, read_json
from agent_runtime.llm.event_stream import read_events
from agent_runtime.llm.http_transport import HttpAnswer, HttpTransport
from agent_runtime.llm.model_config import ModelConfig
from agent_runtime.llm.provider_errors import error_of_answer
from agent_runtime.llm.usable_response import usable_response

logger = logging.getLogger("agent_runtime.llm")

_SHOWN_BODY = 2_000


class HttpChatModel:
    """A `ChatModel` that speaks a provider's dialect over HTTP.

    Args:
        transport: Connections shared with others, who close them; its own if not given.
    """

    def __init__(
        self, config: ModelConfig, dialect: Dialect, transport: HttpTransport | None = None
    ) -> None:
        self._config = config
        self._dialect = dialect
        self._owns_transport = transport is None
        self._transport = transport or HttpTransport()

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        return self._config.model

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ChatResponse:
        """Send the request once; see `ChatModel.complete`.

        Raises:
            ModelTimeoutError: Also if too little time is left to begin at all.
            NotSerializableError: The request holds text that is none, such as a lone surrogate.
        """
        seconds = self._seconds_left(deadline)
        if seconds <= 0:
            raise ModelTimeoutError(
                f"no time is left to ask model {self.name}: the caller's deadline is too near",
                model=self.name,
                reason="deadline",
            )
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return usable_response(await self._ask(request, seconds, on_progress))
        except TimeoutError:
            if not limit.expired():
                raise
            raise ModelTimeoutError(
                f"model {self.name} gave no whole answer within {seconds:.1f} s; allow more time "
                "or ask for less",
                model=self.name,
                reason="deadline",
            ) from None

    async def close(self) -> None:
        """Close the connections, unless they are shared with others."""
        if self._owns_transport:
            await self._transport.close()

    def _seconds_left(self, deadline: datetime | None) -> float:
        config = self._config
        if deadline is None:
            return config.timeout_seconds
        if deadline.tzinfo is None:
            raise ConfigurationError(
                "the deadline of a model's call has no time zone; use datetime.now(UTC) + ..."
            )
        left = (deadline - datetime.now(UTC)).total_seconds() - config.deadline_margin_seconds
        return min(left, config.timeout_seconds)

    async def _ask(
        self, request: ChatRequest, seconds: float, on_progress: ProgressCallback | None
    ) -> ChatResponse:
        config, is_streamed = self._config, on_progress is not None
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream" if is_streamed else "application/json",
            **self._dialect.headers(config.read_key()),
            **config.read_headers(),
        }
        body = {**self._dialect.body(request, is_streamed=is_streamed), **config.extra_body}
        written = to_json(
            {name: value for name, value in body.items() if value is not None},
            what="the request to the model",
        )
        async with self._transport.post(
            config.url + self._dialect.path,
            headers=headers,
            body=written,
            connect_seconds=config.connect_timeout_seconds,
            # An answer that comes whole is silent for as long as the model writes.
            idle_seconds=config.idle_timeout_seconds if is_streamed else seconds,
        ) as answer:
            if not 200 <= answer.status < 300:
                raise await self._refusal(answer)
            if on_progress is None:
                return self._dialect.read(read_json(await answer.read()))
            if "application/json" in answer.headers.get("content-type", ""):
                response = self._dialect.read(read_json(await answer.read()))
                await _tell(on_progress, ChatDelta(response.text, response.reasoning))
                return response
            return await self._read_stream(answer, on_progress)

    async def _read_stream(self, answer: HttpAnswer, on_progress: ProgressCallback) -> ChatResponse:
        streamed = self._dialect.streamed()
        async with aclosing(read_events(answer.pieces())) as events:
            async for data in events:
                await _tell(on_progress, streamed.feed(data) if data else ChatDelta())
                if streamed.has_ended:
                    break
        response = streamed.finish()
        if response is None:
            raise ModelUnavailableError(
                f"the stream of model {self.name} ended before its answer was whole; try again",
                model=self.name,
                reason="connection_lost",
            )
        await answer.drain()
        return response

    async def _refusal(self, answer: HttpAnswer) -> ModelError:
        text = (await answer.read()).decode("utf-8", "replace")
        if logger.isEnabledFor(logging.DEBUG):
            shown = text[:_SHOWN_BODY]
            for secret in self._config.read_secrets():
                shown = shown.replace(secret, "***")
            logger.debug("model %s: status %d: %s", self.name, answer.status, shown)
        body: Json
        try:
            body = from_json(text)
        except NotSerializableError:
            body = text
        return error_of_answer(
            self.name, answer.status, answer.headers, body, key_env=self._config.key_env
        )


async def _tell(on_progress: ProgressCallback, delta: ChatDelta) -> None:
    told = on_progress(delta)
    if inspect.isawaitable(told):
        await told
