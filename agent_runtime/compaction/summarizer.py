"""Who writes summaries, and how one is had of a conversation that is longer than they can read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agent_runtime.blank_text import is_blank
from agent_runtime.compaction.summary_request import (
    DEFAULT_MAX_PROMPT_CHARS,
    SummaryRequest,
    merge_requests,
    split_request,
)

Summarize: TypeAlias = Callable[[str], Awaitable[str]]
"""Writes the summary that a prompt asks for."""


class Summarizer(Protocol):
    """Writes summaries: a model's adapter, or `ExtractiveSummarizer`."""

    @property
    def max_prompt_chars(self) -> int | None:
        """The longest prompt that it reads, None when any length will do."""
        ...

    async def summarize(self, request: SummaryRequest) -> str:
        """Return the summary; blank text counts as none.

        Raises:
            Exception: Whatever keeps it from writing one; the caller of the compaction gets it.
        """
        ...


@dataclass(frozen=True)
class PromptSummarizer:
    """A plain async function from prompt to summary, as a `Summarizer`."""

    function: Summarize
    max_prompt_chars: int | None = DEFAULT_MAX_PROMPT_CHARS

    async def summarize(self, request: SummaryRequest) -> str:
        """Return what the function answers to the request's prompt."""
        return await self.function(request.prompt)


async def summarize_request(
    summarizer: Summarizer, request: SummaryRequest, max_prompt_chars: int | None
) -> str | None:
    """Return the summary, None when the summarizer answers with blank text.

    A request with too long a prompt is answered in chunks, one after the other, and their
    summaries are merged, in several rounds if need be. A blank answer for one chunk is none for
    all: what that chunk said would be lost.

    Raises:
        Exception: What the summarizer raised.
    """
    requests = split_request(request, max_prompt_chars)
    while True:
        summaries: list[str] = []
        for each in requests:
            summary = await summarizer.summarize(each)
            if is_blank(summary):
                return None
            summaries.append(summary)
        if max_prompt_chars is None or not requests[0].is_part:
            return summaries[0]
        requests = merge_requests(request, summaries, max_prompt_chars)
