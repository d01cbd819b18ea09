"""Compaction without input or output: token counting, boundaries, prompts and summaries.

Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOME = {
    "CHARS_PER_TOKEN": "token_estimate",
    "COMPACTION_PREFIX": "message_parts",
    "ESTIMATORS": "token_estimate",
    "TOKENS_PER_MESSAGE": "token_estimate",
    "WORDS_TOKEN_MULTIPLIER": "token_estimate",
    "CompactContext": "compact_context",
    "CompactFunction": "compact_context",
    "CompactResult": "compact_context",
    "ExtractiveSummarizer": "extractive",
    "MeteredSummarizer": "metered_summarizer",
    "MeteredSummary": "metered_summarizer",
    "ReferenceCompactFunction": "compact_function",
    "Summarizer": "summarizer",
    "SummaryRequest": "summary_request",
    "TokenCountInput": "compact_context",
    "TokenCounter": "token_counter",
    "align_backward": "boundaries",
    "align_forward": "boundaries",
    "create_compact_function": "compact_function",
    "estimate_message_tokens": "token_estimate",
    "estimate_messages_tokens": "token_estimate",
    "estimate_string_tokens": "token_estimate",
    "find_tail_cut_by_tokens": "boundaries",
    "is_compaction_message": "message_parts",
    "sanitize_tool_pairs": "sanitize",
}

__all__ = [
    "CHARS_PER_TOKEN",
    "COMPACTION_PREFIX",
    "ESTIMATORS",
    "TOKENS_PER_MESSAGE",
    "WORDS_TOKEN_MULTIPLIER",
    "CompactContext",
    "CompactFunction",
    "CompactResult",
    "ExtractiveSummarizer",
    "MeteredSummarizer",
    "MeteredSummary",
    "ReferenceCompactFunction",
    "Summarizer",
    "SummaryRequest",
    "TokenCountInput",
    "TokenCounter",
    "align_backward",
    "align_forward",
    "create_compact_function",
    "estimate_message_tokens",
    "estimate_messages_tokens",
    "estimate_string_tokens",
    "find_tail_cut_by_tokens",
    "is_compaction_message",
    "sanitize_tool_pairs",
]

if TYPE_CHECKING:
    from agent_runtime.compaction.boundaries import align_backward as align_backward
    from agent_runtime.compaction.boundaries import align_forward as align_forward
    from agent_runtime.compaction.boundaries import (
        find_tail_cut_by_tokens as find_tail_cut_by_tokens,
    )
    from agent_runtime.compaction.compact_context import CompactContext as CompactContext
    from agent_runtime.compaction.compact_context import CompactFunction as CompactFunction
    from agent_runtime.compaction.compact_context import CompactResult as CompactResult
    from agent_runtime.compaction.compact_context import TokenCountInput as TokenCountInput
    from agent_runtime.compaction.compact_function import (
        ReferenceCompactFunction as ReferenceCompactFunction,
    )
    from agent_runtime.compaction.compact_function import (
        create_compact_function as create_compact_function,
    )
    from agent_runtime.compaction.extractive import ExtractiveSummarizer as ExtractiveSummarizer
    from agent_runtime.compaction.message_parts import COMPACTION_PREFIX as COMPACTION_PREFIX
    from agent_runtime.compaction.message_parts import (
        is_compaction_message as is_compaction_message,
    )
    from agent_runtime.compaction.metered_summarizer import MeteredSummarizer as MeteredSummarizer
    from agent_runtime.compaction.metered_summarizer import MeteredSummary as MeteredSummary
    from agent_runtime.compaction.sanitize import sanitize_tool_pairs as sanitize_tool_pairs
    from agent_runtime.compaction.summarizer import Summarizer as Summarizer
    from agent_runtime.compaction.summary_request import SummaryRequest as SummaryRequest
    from agent_runtime.compaction.token_counter import TokenCounter as TokenCounter
    from agent_runtime.compaction.token_estimate import CHARS_PER_TOKEN as CHARS_PER_TOKEN
    from agent_runtime.compaction.token_estimate import ESTIMATORS as ESTIMATORS
    from agent_runtime.compaction.token_estimate import TOKENS_PER_MESSAGE as TOKENS_PER_MESSAGE
    from agent_runtime.compaction.token_estimate import (
        WORDS_TOKEN_MULTIPLIER as WORDS_TOKEN_MULTIPLIER,
    )
    from agent_runtime.compaction.token_estimate import (
        estimate_message_tokens as estimate_message_tokens,
    )
    from agent_runtime.compaction.token_estimate import (
        estimate_messages_tokens as estimate_messages_tokens,
    )
    from agent_runtime.compaction.token_estimate import (
        estimate_string_tokens as estimate_string_tokens,
    )


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
