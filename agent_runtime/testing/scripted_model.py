"""A model without a provider, for tests of what asks it."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeAlias

from agent_runtime.llm.chat_model import (
    ChatDelta,
    ChatRequest,
    ChatResponse,
    ProgressCallback,
    Usage,
)
from agent_runtime.llm.usable_response import usable_response

ScriptedResult: TypeAlias = str | ChatResponse | BaseException
ScriptedAnswer: TypeAlias = (
    ScriptedResult | Callable[[ChatRequest], ScriptedResult | Awaitable[ScriptedResult]]
)

_CHARS_PER_TOKEN = 4
_WORDS = re.compile(r"\s*\S+\s*")


class ScriptedModel:
    """A `ChatModel` that gives answers from a list, in order.

    An answer is a text, a response, an error to be raised, or a function of the request that
    returns one of these and may be async, so that a test can hold it back. Blank answers and
    reasoning alone raise `ModelResponseError`, as real models do. A text costs a token for every
    four characters, at least one.

    Args:
        answers: When they are used up, calls raise AssertionError.
        otherwise: Answer to all calls after the list.
        name: The model's name.
    """

    def __init__(
        self,
        *answers: ScriptedAnswer,
        otherwise: ScriptedAnswer | None = None,
        name: str = "scripted",
    ) -> None:
        self.requests: list[ChatRequest] = []
        """What was asked, in order."""
        self.is_closed = False
        self._answers = deque(answers)
        self._otherwise = otherwise
        self._name = name

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def play(self, *answers: ScriptedAnswer) -> None:
        """Add answers to the list."""
        self._answers.extend(answers)

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ChatResponse:
        """Give the next answer; progress is told word by word.

        The deadline is not watched: nothing here takes time but what the script waits for.

        Raises:
            AssertionError: The list is used up.
            ModelResponseError: The answer is blank or reasoning only.
        """
        self.requests.append(request)
        answer = self._answers.popleft() if self._answers else self._otherwise
        if answer is None:
            raise AssertionError(
                f"the scripted model was asked {len(self.requests)} times, but has no answer left"
            )
        result = answer(request) if callable(answer) else answer
        if inspect.isawaitable(result):
            result = await result
        if isinstance(result, BaseException):
            raise result
        response = self._priced(request, result) if isinstance(result, str) else result
        if on_progress is not None:
            for word in _WORDS.findall(response.text):
                told = on_progress(ChatDelta(word))
                if inspect.isawaitable(told):
                    await told
        return usable_response(response)

    async def close(self) -> None:
        """Note that it was closed."""
        self.is_closed = True

    def _priced(self, request: ChatRequest, text: str) -> ChatResponse:
        asked = sum(len(message.text) for message in request.messages)
        usage = Usage(_tokens(asked), _tokens(len(text)))
        return ChatResponse(text, usage=usage, model=self.name)


def _tokens(chars: int) -> int:
    return max(1, -(-chars // _CHARS_PER_TOKEN))
