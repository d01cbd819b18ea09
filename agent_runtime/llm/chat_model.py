"""What agents ask of a language model, whoever provides it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from agent_runtime.json_value import Json

ChatRole = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that the model may ask for.

    Args:
        parameters: JSON schema of its arguments, an object.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Json] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asks for.

    Args:
        call_id: Names the call; the message with its result carries the same.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SignedReasoning:
    """A piece of reasoning that its provider wants to have back, unchanged.

    Args:
        text: What the model thought, `""` if the provider hides it.
        signature: The provider's, of the text.
        hidden: What stands for the text if that is hidden.
    """

    text: str = ""
    signature: str = ""
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class ChatImage:
    """An image that a user sent.

    Args:
        url: A `data:` URL in base64, or an address that the provider can read.
        media_type: `image/png` and the like.
    """

    url: str
    media_type: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation.

    Args:
        text: For an image too there is a line in it, for models that look at none.
        tool_calls: What an assistant's message asks for.
        tool_call_id: The call whose result a tool's message holds; needed there, else unused.
        signed_reasoning: What an assistant thought before, as its response told; sent to Anthropic
            if the configuration asks for thinking, as it is refused to go on from a tool without.
        images: Of a user; sent if the configuration says that the model looks at them.
        is_error: Whether a tool's message tells that the tool failed.
    """

    role: ChatRole
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    signed_reasoning: tuple[SignedReasoning, ...] = ()
    images: tuple[ChatImage, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to be continued by the model.

    Args:
        max_tokens: Longest answer; the model's configuration has the default.
        temperature: Left to the provider if not given, as some models refuse any.
        stop: Texts before which the answer ends.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that an answer cost; all 0 if the provider did not say.

    Args:
        input_tokens: All that was read, the two kinds below included.
        output_tokens: All that was written, reasoning included.
        cached_tokens: Part of the input that came from the provider's cache.
        cache_write_tokens: Part of the input that was put into the provider's cache.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return what both cost together."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A usable answer: it has text or tool calls.

    Args:
        text: Without reasoning.
        finish_reason: Anything but "stop" and "tool_calls" means that the answer is not whole.
        model: As the provider calls it.
        reasoning: What the model thought on its way, if the provider tells.
        signed_reasoning: The same in pieces, for those who send the answer back; empty unless the
            provider signs it.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = ""
    reasoning: str = ""
    signed_reasoning: tuple[SignedReasoning, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """What has just arrived of an answer; with nothing in it, a sign that the model is at work.

    Args:
        is_tool_call: A piece of a tool call arrived; calls are told whole, in the response.
    """

    text: str = ""
    reasoning: str = ""
    is_tool_call: bool = False


ProgressCallback: TypeAlias = Callable[[ChatDelta], Awaitable[None] | None]
"""Told each piece of an answer as it arrives; what it raises ends the call."""


class ChatModel(Protocol):
    """A language model that continues conversations.

    Implementations take any number of calls at the same time, and never repeat a request
    themselves: Temporal, or the caller, does.
    """

    @property
    def name(self) -> str:
        """The model's name at its provider."""
        ...

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ChatResponse:
        """Ask the model for the next message of a conversation.

        Cancelling the call closes the connection, on which providers stop writing.

        Args:
            deadline: When the caller gives up, with a time zone; the call ends a little before.
            on_progress: If given, the answer is streamed and each piece of it told, such as
                `lambda delta: activity.heartbeat()`.

        Raises:
            ModelUnavailableError: Try again later: rate limit, timeout, lost connection, 5xx.
            ModelRequestError: The request is refused; `ContextTooLongError` if it is too long,
                `ModelAuthenticationError` if the key is missing or wrong.
            ModelRefusedError: The answer was withheld.
            ModelResponseError: The answer is blank, reasoning only or malformed.
        """
        ...

    async def close(self) -> None:
        """Close the connections; closing twice is harmless."""
        ...
