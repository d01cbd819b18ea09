"""The token estimate, digit for digit, and its script-aware variant (sessions 7, 26.1)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.compact_context import TokenCountInput
from agent_runtime.compaction.file_tokens import FILE_TOKENS, estimate_file_tokens, file_tokens
from agent_runtime.compaction.json_text import json_text
from agent_runtime.compaction.token_estimate import (
    CHARS_PER_TOKEN,
    CJK_ESTIMATOR,
    ESTIMATORS,
    TOKENS_PER_MESSAGE,
    WORDS_TOKEN_MULTIPLIER,
    estimate_message_tokens,
    estimate_messages_tokens,
    estimate_string_tokens,
    utf16_units,
)
from tests.support.json_values import json_values


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (None, 0),
        ("a", 2),
        ("hello", 2),
        ("Hello world", 3),
        ("word " * 10, 13),
        ("   ", 1),
        ("用户喜欢咖啡", 2),
        ("😀", 2),
        ("a\nb\tc", 4),
        ("x" * 401, 101),
        ("word " * 50, 65),
        ("w " * 2000, 2600),
        ("User likes coffee.\nUser prefers dark roast.", 11),
    ],
)
def test_golden_string_estimates(text: str | None, tokens: int) -> None:
    """A text's estimate equals the reference's."""
    assert estimate_string_tokens(text) == tokens


@pytest.mark.parametrize(
    ("parts", "tokens"),
    [
        ([], 4),
        ([{"type": "text", "text": "hello"}], 6),
        ([{"type": "reasoning", "text": "abcdefgh"}], 6),
        ([{"type": "reasoning", "reasoning": "abcdefgh"}], 6),
        ([{"type": "tool-x", "input": {"a": 1}, "output": {"b": [1, 2]}}], 9),
        ([{"type": "tool-x", "input": "str", "result": "r"}], 8),
        ([{"type": "dynamic-tool", "input": None, "output": ""}], 4),
        ([{"type": "file", "url": "x" * 10_000}], 4),
        ([{"type": "data-x", "text": "abcd"}], 6),
        ([{"type": "source", "result": {"z": 1}}], 6),
        ([{"type": "tool-result", "result": "hello world"}], 7),
        ([{"type": "tool-x", "input": {"k": "用户"}, "output": 0}], 9),
        ([{"type": "text"}], 4),
        ([{"type": "text", "text": "x" * 80}], 24),
    ],
)
def test_golden_message_estimates(parts: list[dict[str, Any]], tokens: int) -> None:
    """A message's estimate equals the reference's."""
    assert estimate_message_tokens({"id": "m", "role": "user", "parts": parts}) == tokens


def test_s045_reasoning_counts() -> None:
    """A message that holds reasoning is larger than one without parts."""
    reasoning = {"parts": [{"type": "reasoning", "text": "because of that"}]}

    assert estimate_message_tokens(reasoning) > estimate_message_tokens({"parts": []})


def test_the_constants_are_the_contract_s() -> None:
    """The exported numbers are those of sessions 22.3."""
    assert (CHARS_PER_TOKEN, WORDS_TOKEN_MULTIPLIER, TOKENS_PER_MESSAGE) == (4, 1.3, 4)


def test_messages_are_summed() -> None:
    """A list's estimate is the sum of its messages', so a running total is exact."""
    message = {"parts": [{"type": "text", "text": "x" * 80}]}

    assert estimate_messages_tokens([message] * 7) == 7 * 24
    assert estimate_messages_tokens([]) == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (1e16, "10000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e25, "1.25e+25"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1.5e-9, "-1.5e-9"),
        (123456.75, "123456.75"),
        (float("nan"), "null"),
        ([1.0, "2.0", 3], '[1,"2.0",3]'),
        ({"a": {"b": 2.0}}, '{"a":{"b":2}}'),
        ("é\n\x01", '"é\\n\\u0001"'),
        ("\ud800", '"\\ud800"'),
        (2**70, "1180591620717411303424"),
        (True, "true"),
    ],
)
def test_json_text_is_javascript_s(value: object, text: str) -> None:
    """Numbers and escapes are written as the reference writes them."""
    assert json_text(value) == text


def test_what_is_no_json_is_converted() -> None:
    """A value without a JSON form counts by its string."""
    assert json_text({1}) == "{1}"


def test_whitespace_is_javascript_s() -> None:
    """A byte order mark parts words, an information separator does not."""
    assert estimate_string_tokens("a\ufeffb\ufeffc") == 4
    assert estimate_string_tokens("a\x1cb\x85c") == 2
    assert estimate_string_tokens("a\u00a0b\u3000c") == 4


@given(st.text(st.characters()))
def test_units_are_utf16_s(text: str) -> None:
    """The length counts characters outside the basic plane twice, lone surrogates once."""
    assert utf16_units(text) == len(text) + sum(character > "\uffff" for character in text)


@given(st.lists(st.fixed_dictionaries({"type": st.just("tool-x"), "input": json_values})))
def test_any_value_has_an_estimate(parts: list[dict[str, Any]]) -> None:
    """Estimating never fails and never counts less than the message itself."""
    assert estimate_message_tokens({"parts": parts}) >= TOKENS_PER_MESSAGE


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("用户喜欢咖啡", 6),
        ("日本語のテキスト", 8),
        ("한국어", 3),
        ("𠮷野家", 3),
        ("Hello world", 3),
        ("hello 用户", 4),
        ("", 0),
    ],
)
def test_cjk_characters_count_one_each(text: str, tokens: int) -> None:
    """The opt-in estimator counts a CJK character as a token and the rest by the formula."""
    assert CJK_ESTIMATOR.string(text) == tokens


@given(st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0x10FF)))
def test_the_opt_in_estimator_changes_cjk_alone(text: str) -> None:
    """A text without CJK characters is estimated alike by both."""
    assert CJK_ESTIMATOR.string(text) == estimate_string_tokens(text)


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        ({"type": "file", "url": "https://example.com/a.png"}, FILE_TOKENS),
        ({"type": "file", "url": "data:text/plain,abcdefgh"}, 2),
        ({"type": "file", "url": "data:image/png;base64," + "A" * 400}, 75),
        ({"type": "file", "url": "data:image/png;base64," + "A" * 400_000}, FILE_TOKENS),
        ({"type": "image", "data": "A" * 40}, 8),
        ({"type": "file"}, FILE_TOKENS),
        ({"type": "text", "text": "data:,x"}, 0),
        ({"type": "data-x", "url": "https://example.com"}, 0),
    ],
)
def test_files_have_a_cost(part: dict[str, Any], tokens: int) -> None:
    """An inline file costs a quarter of its bytes, at most what one referred to costs (F25)."""
    assert file_tokens(part) == tokens
    assert estimate_file_tokens([{"parts": [part, part]}]) == 2 * tokens


def test_screenshots_count_with_the_opt_in_estimator() -> None:
    """A conversation of files grows for the opt-in estimator alone."""
    message = {"parts": [{"type": "file", "url": "https://example.com/a.png"}]}

    assert ESTIMATORS["cjk"].messages([message] * 3) == 3 * (4 + FILE_TOKENS)
    assert ESTIMATORS["default"].messages([message] * 3) == 3 * 4


def test_a_session_is_its_messages_and_its_prompt() -> None:
    """Blocks are in the prompt's text already and not counted again."""
    message = {"parts": [{"type": "text", "text": "用户"}]}
    counted = TokenCountInput([message, message], "hello", [{"label": "memory"}])

    assert ESTIMATORS["cjk"].session(counted) == 2 * (4 + 2) + 2


def test_estimates_are_linear() -> None:
    """A text of several million characters takes well under a second."""
    started = time.process_time()
    estimate_string_tokens("some words of text, é 用 " * 200_000)

    assert time.process_time() - started < 2
