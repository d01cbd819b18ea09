"""What passes between a session and its compaction function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agent_runtime.json_value import Json


@dataclass(frozen=True)
class TokenCountInput:
    """Everything a session's token counter may count (sessions 9.2).

    Attributes:
        messages: Of the visible history.
        system_prompt: Its text, `""` when only messages are to be counted.
        context_blocks: The loaded blocks as JSON objects.
    """

    messages: Sequence[Mapping[str, Json]]
    system_prompt: str = ""
    context_blocks: Sequence[Mapping[str, Json]] = ()


SessionTokenCounter: TypeAlias = Callable[[TokenCountInput], float | Awaitable[float]]
"""A session's own counter, given to `compact_after`."""

MessageTokenCounter: TypeAlias = Callable[[Sequence[Mapping[str, Json]]], float | Awaitable[float]]
"""A counter of messages alone, given to `create_compact_function`."""


@dataclass(frozen=True)
class CompactContext:
    """What a session tells its compaction function beside the history.

    Attributes:
        token_counter: The session's counter, None when it has none.
    """

    token_counter: SessionTokenCounter | None = None


@dataclass(frozen=True)
class CompactResult:
    """A summary and the range that it replaces, both ends included.

    Attributes:
        from_message_id: First message replaced.
        to_message_id: Last message replaced.
        summary: Replaces the range and every earlier summary that meets or adjoins it, so it has
            to hold what they say.
    """

    from_message_id: str
    to_message_id: str
    summary: str


class CompactFunction(Protocol):
    """Decides what of a history to summarize and does so; sync or async."""

    def __call__(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> Awaitable[CompactResult | None] | CompactResult | None:
        """Return the summary of a range of `messages`, the visible history, or None for nothing.

        The history holds earlier summaries as synthetic messages (`is_compaction_message`).
        """
        ...
