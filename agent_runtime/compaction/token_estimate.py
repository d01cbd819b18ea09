"""Token estimates without a tokenizer: an exact, portable formula and a script-aware variant.

The default formula (sessions 7) is part of the contract, digit for digit. The variant counts what
the formula undervalues: Chinese, Japanese and Korean characters, and files (F25).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Literal

from agent_runtime.compaction.compact_context import TokenCountInput
from agent_runtime.compaction.file_tokens import file_tokens
from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.message_parts import (
    is_reasoning_part,
    is_text_part,
    is_tool_part,
    parts_of,
    tool_result_of,
)
from agent_runtime.json_value import Json

CHARS_PER_TOKEN = 4
WORDS_TOKEN_MULTIPLIER = 1.3
TOKENS_PER_MESSAGE = 4

EstimatorName = Literal["default", "cjk"]

# str.split and JavaScript's \s disagree about six characters.
_SPACES_OF_PYTHON_ALONE = "\x1c\x1d\x1e\x1f\x85"
_SPACE_OF_JAVASCRIPT_ALONE = "\ufeff"
_JAVASCRIPT_SPACES = str.maketrans(
    {**dict.fromkeys(_SPACES_OF_PYTHON_ALONE, "x"), _SPACE_OF_JAVASCRIPT_ALONE: " "}
)

_CJK_RUN = re.compile(
    "["
    "\u1100-\u11ff"  # Hangul letters
    "\u2e80-\u303f\u31c0-\u31ef"  # radicals, punctuation, strokes
    "\u3040-\u31bf\u31f0-\u31ff"  # kana, bopomofo
    "\u3200-\u9fff"  # enclosed forms, ideographs
    "\ua960-\ua97f\uac00-\ud7ff"  # Hangul syllables
    "\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"  # compatibility and full-width forms
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "]+"
)


class TokenEstimator:
    """The default formula: `ceil(max(UTF-16 units / 4, words * 1.3))` per string, 4 per message."""

    def string(self, text: str | None) -> int:
        """Estimate a text; none and `""` are 0. Linear; a pure ASCII text is never encoded."""
        if not text:
            return 0
        return _tokens(utf16_units(text), _words(text))

    def value(self, value: Json) -> int:
        """Estimate any JSON value: null is 0, what is no text counts by its compact JSON text."""
        if value is None:
            return 0
        return self.string(value if isinstance(value, str) else json_text(value))

    def part(self, part: Mapping[str, Json]) -> int:
        """Estimate one part; a file, source or data part without text or result is 0."""
        if is_text_part(part) or is_reasoning_part(part):
            text = part.get("text")
            return self.value(part.get("reasoning") if text is None else text)
        if is_tool_part(part):
            return self.value(part.get("input")) + self.value(tool_result_of(part))
        text = part.get("text")
        return self.value(part.get("result") if text is None else text)

    def message(self, message: Mapping[str, Json]) -> int:
        """Estimate one message; without parts it is 4."""
        return TOKENS_PER_MESSAGE + sum(map(self.part, parts_of(message)))

    def messages(self, messages: Iterable[Mapping[str, Json]]) -> int:
        """Estimate a list of messages: the sum of each, so a running total may be kept."""
        return sum(map(self.message, messages))

    def session(self, counted: TokenCountInput) -> int:
        """Estimate what a session sends to a model: a counter for `compact_after`.

        Context blocks are part of the system prompt's text and not counted again.
        """
        return self.messages(counted.messages) + self.string(counted.system_prompt)


class ScriptAwareTokenEstimator(TokenEstimator):
    """The opt-in `"cjk"` estimator: one token for each CJK character, and files count."""

    def string(self, text: str | None) -> int:
        """Estimate a text: its CJK characters one each, the rest by the default formula."""
        if not text or text.isascii():
            return super().string(text)
        others = _CJK_RUN.split(text)
        rest = " ".join(others)
        units = utf16_units(rest) - (len(others) - 1)
        return len(text) - sum(map(len, others)) + _tokens(units, _words(rest))

    def part(self, part: Mapping[str, Json]) -> int:
        """Estimate one part; files and images count as `file_tokens` says."""
        return super().part(part) + file_tokens(part)


DEFAULT_ESTIMATOR = TokenEstimator()
CJK_ESTIMATOR = ScriptAwareTokenEstimator()
ESTIMATORS: Mapping[EstimatorName, TokenEstimator] = {
    "default": DEFAULT_ESTIMATOR,
    "cjk": CJK_ESTIMATOR,
}


def estimate_string_tokens(text: str | None) -> int:
    """Estimate a text with the default formula (sessions 7, golden vectors 26.1)."""
    return DEFAULT_ESTIMATOR.string(text)


def estimate_message_tokens(message: Mapping[str, Json]) -> int:
    """Estimate one message with the default formula."""
    return DEFAULT_ESTIMATOR.message(message)


def estimate_messages_tokens(messages: Iterable[Mapping[str, Json]]) -> int:
    """Estimate a list of messages with the default formula."""
    return DEFAULT_ESTIMATOR.messages(messages)


def utf16_units(text: str) -> int:
    """Return how many UTF-16 code units the text has: what other languages call its length."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _words(text: str) -> int:
    if any(space in text for space in _SPACES_OF_PYTHON_ALONE) or (
        _SPACE_OF_JAVASCRIPT_ALONE in text
    ):
        text = text.translate(_JAVASCRIPT_SPACES)
    return len(text.split())


def _tokens(units: int, words: int) -> int:
    return math.ceil(max(units / CHARS_PER_TOKEN, words * WORDS_TOKEN_MULTIPLIER))
