"""What a scripted model server is to do, one step for each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agent_runtime.llm.chat_model import ChatResponse, Usage

RefusalKind = Literal[
    "rate_limited", "out_of_order", "overloaded", "context_too_long", "wrong_key", "invalid"
]

SCRIPTED_USAGE = Usage(input_tokens=100, output_tokens=20)
"""What an answer costs that is given as a text."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, whole or streamed, as the request asks.

    Args:
        response: Also a blank one, reasoning only, or with `finish_reason="length"`; a text alone
            costs 100 tokens in and 20 out.
        piece_chars: How much text each event of a stream holds.
        pause_seconds: Wait before each event of a stream, or before a whole answer.
        lost_after: The connection is lost after so many events with text; 0 is before any.
        error_after: The stream tells that the provider is overloaded after so many.
    """

    response: ChatResponse | str
    piece_chars: int = 8
    pause_seconds: float = 0.0
    lost_after: int | None = None
    error_after: int | None = None

    def whole(self) -> ChatResponse:
        """Return the response, also if a text stands for it."""
        if isinstance(self.response, str):
            return ChatResponse(self.response, usage=SCRIPTED_USAGE)
        return self.response


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer with an error status, in the words of the API that was asked.

    Args:
        status: The usual one of the kind if not given.
        headers: Such as `{"retry-after": "7"}`.
    """

    kind: RefusalKind
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer with any body at all, such as malformed JSON or a proxy's page.

    Args:
        is_lost: The connection is closed in the midst of the body.
    """

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer at all, until the client hangs up or the server is closed."""


ScriptStep: TypeAlias = Answer | Refusal | RawAnswer | Silence | ChatResponse | str
