"""Summaries that cost something: what a summarizer with a model behind it tells of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from agent_runtime.compaction.summarizer import Summarizer
from agent_runtime.compaction.summary_request import SummaryRequest


@dataclass(frozen=True)
class MeteredSummary:
    """A summary and what it cost.

    Args:
        text: Blank if the model wrote nothing usable; what it cost counts all the same.
        model: The model's name.
        input_tokens: All that was read.
        output_tokens: All that was written.
        cost: In the currency of the model's configuration.
    """

    text: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


@runtime_checkable
class MeteredSummarizer(Summarizer, Protocol):
    """A summarizer whose calls take long and cost something."""

    async def summarize_metered(
        self,
        request: SummaryRequest,
        *,
        deadline: datetime | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> MeteredSummary:
        """Return the summary with its cost.

        Args:
            deadline: When the caller gives up; with a time zone.
            on_progress: Called whenever a piece of the answer has arrived.

        Raises:
            ModelError: See `ChatModel.complete`; a blank answer is returned as a blank text.
        """
        ...
