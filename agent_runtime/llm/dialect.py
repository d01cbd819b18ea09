"""What differs between the APIs of providers."""

from __future__ import annotations

from typing import Protocol

from agent_runtime.errors import ModelResponseError, NotSerializableError
from agent_runtime.json_value import Json, from_json
from agent_runtime.llm.chat_model import ChatDelta, ChatRequest, ChatResponse


class StreamedAnswer(Protocol):
    """An answer that is put together from the events of a stream."""

    @property
    def has_ended(self) -> bool:
        """Whether nothing more is to come."""
        ...

    def feed(self, data: str) -> ChatDelta:
        """Take an event's data and return what it adds.

        Raises:
            ModelError: The event tells an error.
            ModelResponseError: It has another shape than documented.
        """
        ...

    def finish(self) -> ChatResponse | None:
        """Return the answer, or None if the stream ended before it was whole."""
        ...


class Dialect(Protocol):
    """One family of APIs: how requests are written and answers read."""

    @property
    def path(self) -> str:
        """Where requests go, below the configuration's address."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """Return what tells the key, and what else the API wants."""
        ...

    def body(self, request: ChatRequest, *, is_streamed: bool) -> dict[str, Json]:
        """Return a request as the API wants it."""
        ...

    def read(self, body: Json) -> ChatResponse:
        """Return the answer in a body that came whole.

        Raises:
            ModelError: The body tells an error.
            ModelResponseError: It has another shape than documented.
        """
        ...

    def streamed(self) -> StreamedAnswer:
        """Return an answer still to come."""
        ...


def read_json(text: str | bytes) -> Json:
    """Return the JSON of an answer or event.

    Raises:
        ModelResponseError: It is none.
    """
    try:
        return from_json(text)
    except NotSerializableError:
        raise ModelResponseError(
            "the model's provider answered what is no JSON; check base_url", reason="malformed"
        ) from None
