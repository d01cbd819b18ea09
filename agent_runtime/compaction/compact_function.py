"""The reference compaction function: keep a head and a tail, summarize what is between."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import TypeIs

from agent_runtime.compaction.boundaries import (
    DEFAULT_MIN_TAIL_MESSAGES,
    DEFAULT_TAIL_TOKEN_BUDGET,
    TailWalk,
    align_forward,
)
from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactResult,
    MessageTokenCounter,
    TokenCountInput,
)
from agent_runtime.compaction.default_summarizer import default_summarizer
from agent_runtime.compaction.message_parts import is_compaction_message, text_of
from agent_runtime.compaction.summarizer import (
    PromptSummarizer,
    Summarize,
    Summarizer,
    summarize_request,
)
from agent_runtime.compaction.summary_request import (
    MIN_PROMPT_CHARS,
    SummaryRequest,
    summary_budget,
)
from agent_runtime.compaction.token_estimate import estimate_message_tokens
from agent_runtime.errors import ConfigurationError
from agent_runtime.json_value import Json

DEFAULT_PROTECT_HEAD = 3


@dataclass(frozen=True)
class CompactPlan:
    """A range to be replaced and what its summary has to hold.

    Attributes:
        from_message_id: First message of the range.
        to_message_id: Last message of the range.
        request: What to ask of a summarizer.
    """

    from_message_id: str
    to_message_id: str
    request: SummaryRequest


@dataclass(frozen=True)
class ReferenceCompactFunction:
    """A compaction function; made by `create_compact_function`, which explains the fields.

    A durable job may take its steps one by one: `plan`, then `split_request` and `merge_requests`
    with `max_prompt_chars`.
    """

    given_summarizer: Summarizer | None
    protect_head: int
    tail_token_budget: float
    min_tail_messages: int
    token_counter: MessageTokenCounter | None
    given_max_prompt_chars: int | None

    @property
    def summarizer(self) -> Summarizer:
        """Who writes the summaries; the process's default is looked up each time."""
        return self.given_summarizer or default_summarizer()

    @property
    def max_prompt_chars(self) -> int | None:
        """The longest prompt: as given, else what the summarizer reads."""
        return self.given_max_prompt_chars or self.summarizer.max_prompt_chars

    async def __call__(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        """Return the summary of the middle of a visible history, None when there is none to make.

        None, too, when the summarizer answers with blank text, for the whole or for a part.

        Raises:
            Exception: What the summarizer or the counter raised.
        """
        plan = await self.plan(messages, context)
        if plan is None:
            return None
        summary = await summarize_request(self.summarizer, plan.request, self.max_prompt_chars)
        if summary is None:
            return None
        return CompactResult(plan.from_message_id, plan.to_message_id, summary)

    async def plan(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactPlan | None:
        """Return what to summarize, None when the history is too short (sessions 8.1).

        Linear in the history; counters are asked for the messages of the tail alone, one by one.
        """
        start = align_forward(messages, self.protect_head)
        # The head may have grown by a call's results: they do not shorten the tail.
        if len(messages) <= start + self.min_tail_messages:
            return None
        walk = TailWalk(messages, start, self.tail_token_budget)
        for index in range(len(messages) - 1, start - 1, -1):
            if not walk.takes(index, await self._count(messages[index], context)):
                break
        end = walk.cut(self.min_tail_messages)
        middle = [message for message in messages[start:end] if not is_compaction_message(message)]
        if not middle:
            return None
        request = SummaryRequest(
            tuple(middle), _earlier_summaries(messages, start, end), summary_budget(middle)
        )
        return CompactPlan(middle[0]["id"], middle[-1]["id"], request)

    async def _count(self, message: Mapping[str, Json], context: CompactContext | None) -> float:
        if self.token_counter is not None:
            answer = self.token_counter([message])
        elif context is not None and context.token_counter is not None:
            answer = context.token_counter(TokenCountInput([message]))
        else:
            return estimate_message_tokens(message)
        count = await answer if inspect.isawaitable(answer) else answer
        is_sound = math.isfinite(count) and count >= 0
        return count if is_sound else estimate_message_tokens(message)


def create_compact_function(
    summarize: Summarize | Summarizer | None = None,
    *,
    protect_head: int = DEFAULT_PROTECT_HEAD,
    tail_token_budget: float = DEFAULT_TAIL_TOKEN_BUDGET,
    min_tail_messages: int = DEFAULT_MIN_TAIL_MESSAGES,
    token_counter: MessageTokenCounter | None = None,
    max_prompt_chars: int | None = None,
) -> ReferenceCompactFunction:
    """Return a compaction function for `Session.on_compaction` (sessions 8).

    Args:
        summarize: An async function from prompt to summary, or a `Summarizer`, which gets the
            messages too; without one the process's model, or extracts where none is configured.
        protect_head: How many first messages stay as they are; more when they hold a tool's call
            whose result comes later.
        tail_token_budget: How many tokens of newest messages stay as they are.
        min_tail_messages: How many newest messages stay, whatever their size.
        token_counter: Counts the tokens of messages, sync or async; without one the session's
            counter is asked, else the estimate. What is negative or no number is estimated.
        max_prompt_chars: Longest prompt; a longer conversation is summarized in chunks whose
            summaries are merged. By default what the summarizer says, 100,000 for a function.

    Raises:
        ConfigurationError: A number is negative, one of messages is not whole, or
            `max_prompt_chars` is below 6000.
    """
    for name, number in (
        ("protect_head", protect_head),
        ("tail_token_budget", tail_token_budget),
        ("min_tail_messages", min_tail_messages),
    ):
        if not number >= 0:
            raise ConfigurationError(f"{name} is {number}; write 0 or more")
        if name != "tail_token_budget" and not isinstance(number, int):
            raise ConfigurationError(f"{name} is {number}; messages are counted whole")
    summarizer = _summarizer_of(summarize)
    longest = max_prompt_chars
    if longest is None and summarizer is not None:
        longest = summarizer.max_prompt_chars
    if longest is not None and longest < MIN_PROMPT_CHARS:
        raise ConfigurationError(
            f"max_prompt_chars is {longest}; write at least {MIN_PROMPT_CHARS}"
        )
    return ReferenceCompactFunction(
        summarizer,
        protect_head,
        tail_token_budget,
        min_tail_messages,
        token_counter,
        max_prompt_chars,
    )


def _summarizer_of(summarize: Summarize | Summarizer | None) -> Summarizer | None:
    if summarize is None or _is_summarizer(summarize):
        return summarize
    return PromptSummarizer(summarize)


def _is_summarizer(summarize: Summarize | Summarizer) -> TypeIs[Summarizer]:
    return hasattr(summarize, "summarize")


def _earlier_summaries(messages: Sequence[Mapping[str, Json]], start: int, end: int) -> str | None:
    # A new overlay takes in those that adjoin its range, and those that adjoin them.
    while start > 0 and is_compaction_message(messages[start - 1]):
        start -= 1
    while end < len(messages) and is_compaction_message(messages[end]):
        end += 1
    summaries = [text_of(each) for each in messages[start:end] if is_compaction_message(each)]
    return "\n\n".join(summaries) or None
