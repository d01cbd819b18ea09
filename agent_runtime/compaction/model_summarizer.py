"""Summaries by a language model."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from agent_runtime.compaction.metered_summarizer import MeteredSummarizer, MeteredSummary
from agent_runtime.compaction.summary_request import MIN_PROMPT_CHARS, SummaryRequest
from agent_runtime.errors import ModelResponseError
from agent_runtime.llm.chat_model import ChatDelta, ChatMessage, ChatModel, ChatRequest, Usage
from agent_runtime.llm.model_config import ModelConfig, usage_cost
from agent_runtime.llm.usable_response import usage_of

logger = logging.getLogger("agent_runtime")

_BLANK = {"blank", "reasoning_only", "length"}
_PROMPT_SHARE = 0.8
_BUDGET_SHARE = 0.75


class ModelSummarizer(MeteredSummarizer):
    """A `Summarizer` that asks a model, without tools.

    Args:
        config: Tells the model's window, longest answer and prices.
    """

    def __init__(self, model: ChatModel, config: ModelConfig) -> None:
        self._model = model
        self._config = config

    @property
    def max_prompt_chars(self) -> int | None:
        """What fits the model's window beside its answer, whatever the script; at least 6000."""
        # A character is a token at the most; a fifth is left for what the estimate misses.
        room = self._config.context_window - self._config.max_output_tokens
        return max(MIN_PROMPT_CHARS, int(room * _PROMPT_SHARE))

    async def summarize(self, request: SummaryRequest) -> str:
        """Return the summary; see `summarize_metered`."""
        return (await self.summarize_metered(request)).text

    async def summarize_metered(
        self,
        request: SummaryRequest,
        *,
        deadline: datetime | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> MeteredSummary:
        """Return the summary with its cost.

        An answer that is blank or reasoning alone is a blank text that cost something. One that
        was cut off at the longest answer is returned as it is, with a warning.

        Raises:
            ModelError: See `ChatModel.complete`.
        """
        longest = int(self._config.max_output_tokens * _BUDGET_SHARE)
        fitting = replace(request, budget_tokens=max(1, min(request.budget_tokens, longest)))

        def told(delta: ChatDelta) -> None:
            if on_progress is not None:
                on_progress()

        try:
            response = await self._model.complete(
                ChatRequest((ChatMessage("user", fitting.prompt),)),
                deadline=deadline,
                on_progress=None if on_progress is None else told,
            )
        except ModelResponseError as error:
            if error.details_map.get("reason") not in _BLANK:
                raise
            return self._metered("", usage_of(error))
        if response.finish_reason == "length":
            logger.warning(
                "the summary of model %s was cut off; raise max_output_tokens", self._model.name
            )
        return self._metered(response.text.strip(), response.usage)

    def _metered(self, text: str, usage: Usage) -> MeteredSummary:
        cost = usage_cost(usage, self._config)
        return MeteredSummary(text, self._model.name, usage.input_tokens, usage.output_tokens, cost)
