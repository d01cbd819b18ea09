"""Reasoning that stands in the text: told apart, however the text is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.llm.inline_reasoning import InlineReasoning

CASES = [
    ("plain", "plain", ""),
    ("", "", ""),
    ("   ", "   ", ""),
    ("<thin", "<thin", ""),
    ("<thinking>x</thinking>", "<thinking>x</thinking>", ""),
    ("<think>why</think>answer", "answer", "why"),
    (" \n<think>\nwhy\n</think>\n\nanswer ", "answer ", "why\n"),
    ("<think></think>answer", "answer", ""),
    ("<think>never ends", "", "never ends"),
    ("<think>almost </thin", "", "almost </thin"),
    ("<think>a < b </b></think>x", "x", "a < b </b>"),
    ("say <think>this</think>", "say <think>this</think>", ""),
    ("<think>one</think>x<think>two</think>", "x<think>two</think>", "one"),
]


def told(pieces: list[str]) -> tuple[str, str]:
    """Feed all pieces and return text and reasoning."""
    inline = InlineReasoning()
    parts = [*(inline.feed(piece) for piece in pieces), inline.finish()]
    return "".join(text for text, _ in parts), "".join(reasoning for _, reasoning in parts)


@pytest.mark.parametrize(("written", "text", "reasoning"), CASES)
def test_reasoning_at_the_start_is_told_apart(written: str, text: str, reasoning: str) -> None:
    """Only there: an answer may speak of the mark."""
    assert told([written]) == (text, reasoning)


@given(case=st.sampled_from(CASES), cuts=st.lists(st.integers(0, 40), max_size=40))
def test_cuts_change_nothing(case: tuple[str, str, str], cuts: list[int]) -> None:
    """Also within the mark; white space at the start of reasoning depends on nothing."""
    written, text, reasoning = case
    edges = [0, *sorted(cuts), max(len(written), 40)]

    pieces = [written[start:end] for start, end in pairwise(edges)]

    found = told(pieces)
    assert (found[0], found[1].lstrip()) == (text, reasoning.lstrip())
