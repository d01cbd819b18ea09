"""Boundaries and the tail's cut: no call is parted from its result (sessions 8.2, 8.3, 26.5)."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.boundaries import (
    align_backward,
    align_forward,
    find_tail_cut_by_tokens,
    tool_groups,
)
from tests.support.histories import (
    History,
    Message,
    call_message,
    chat,
    finished_call,
    histories,
    result_message,
    text_message,
)

SEPARATE_CALLS = [
    text_message("0", "hi"),
    call_message("1", "c1"),
    finished_call("2", "c1"),
    text_message("3", "hi"),
    call_message("4", "c2"),
    {
        "id": "5",
        "role": "assistant",
        "parts": [{"type": "dynamic-tool", "toolName": "x", "toolCallId": "c2", "output": 1}],
    },
]

PARALLEL_CALLS = [
    text_message("0", "hi"),
    call_message("1", "c1", "c1b"),
    result_message("2", "c1"),
    result_message("3", "c1b"),
    text_message("4", "hi"),
]


def test_golden_boundaries_of_calls_told_with_their_results() -> None:
    """Forward joins the two messages of a call; backward lets a complete one stand alone."""
    forward = [align_forward(SEPARATE_CALLS, index) for index in range(7)]
    backward = [align_backward(SEPARATE_CALLS, index) for index in range(7)]

    assert (forward, backward) == ([0, 1, 3, 3, 4, 6, 6], [0, 1, 2, 3, 4, 5, 6])


def test_golden_boundaries_of_parallel_calls() -> None:
    """Calls answered by two messages stay together in both directions (F24)."""
    forward = [align_forward(PARALLEL_CALLS, index) for index in range(6)]
    backward = [align_backward(PARALLEL_CALLS, index) for index in range(6)]

    assert (forward, backward) == ([0, 1, 4, 4, 4, 5], [0, 1, 1, 1, 4, 5])


@pytest.mark.parametrize(
    ("head_end", "budget", "min_tail", "cut"),
    [
        (3, 20_000, 2, 3),
        (3, 48, 2, 8),
        (3, 49, 2, 8),
        (3, 24, 2, 8),
        (3, 0, 2, 8),
        (3, 0, 0, 9),
        (3, 0, 9, 9),
        (3, 96, 1, 6),
        (0, 10**9, 2, 0),
    ],
)
def test_golden_tail_cuts(head_end: int, budget: int, min_tail: int, cut: int) -> None:
    """Ten messages of 24 tokens are cut where the reference cuts them."""
    assert find_tail_cut_by_tokens(chat(10), head_end, budget, min_tail) == cut


def test_boundaries_outside_the_list_stay() -> None:
    """Zero, the length, less and more are left as they are."""
    for index in (-1, 0, 5, 9):
        assert align_forward(PARALLEL_CALLS, index) == index
        assert align_backward(PARALLEL_CALLS, index) == index
    assert (align_forward([], 3), align_backward([], 3)) == (3, 3)


def test_a_user_who_writes_meanwhile_does_not_part_a_call_from_its_result() -> None:
    """A result that comes after another message still belongs to its call."""
    messages = [
        call_message("0", "a", "b"),
        result_message("1", "a"),
        text_message("2", "are you there?"),
        result_message("3", "b"),
        text_message("4", "good"),
    ]

    assert [align_forward(messages, index) for index in (1, 2, 3)] == [4, 4, 4]
    assert [align_backward(messages, index) for index in (1, 2, 3)] == [0, 0, 0]


def test_ids_that_come_again_do_not_join_turns() -> None:
    """A model that counts its calls from zero in each turn can be compacted all the same."""
    messages: list[Message] = []
    for turn in range(4):
        messages += [text_message(f"u{turn}", "go"), call_message(f"a{turn}", "call_0")]
        messages.append(result_message(f"r{turn}", "call_0"))

    assert [align_forward(messages, index) for index in range(1, 7)] == [1, 3, 3, 4, 6, 6]
    assert [len(group) for group in tool_groups(messages)] == [1, 2] * 4


def test_finished_calls_of_one_id_stand_alone() -> None:
    """Messages with call and result are no answers to one another."""
    messages = [finished_call(f"m{n}", "call_0") for n in range(5)]

    assert [align_forward(messages, index) for index in range(5)] == [0, 1, 2, 3, 4]


@given(histories() | histories(are_ids_reused=True), st.integers(0, 60))
def test_no_boundary_parts_calls_and_results(history: History, index: int) -> None:
    """In any history both alignments find a sound boundary, and the nearest one."""
    index = min(index, len(history.messages))
    forward = align_forward(history.messages, index)
    backward = align_backward(history.messages, index)

    assert backward <= index <= forward
    assert not history.separates(forward)
    assert not history.separates(backward)
    assert all(history.separates(between) for between in range(index, forward))
    assert all(history.separates(between) for between in range(backward + 1, index + 1))


@given(histories(), st.integers(0, 5), st.integers(0, 300), st.integers(0, 4))
def test_no_tail_begins_with_a_result(
    history: History, head: int, budget: int, min_tail: int
) -> None:
    """The tail holds the calls of its results, the last message and the minimum."""
    messages = history.messages
    cut = find_tail_cut_by_tokens(messages, head, budget, min_tail)

    assert not history.separates(cut)
    if head < len(messages):
        assert cut < len(messages)
    if head <= len(messages) - min_tail:
        assert cut <= len(messages) - min_tail


@given(histories())
def test_groups_are_whole(history: History) -> None:
    """Groups hold every message once, in order, and begin at sound boundaries."""
    groups = tool_groups(history.messages)
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))

    assert [message for group in groups for message in group] == history.messages
    assert not any(history.separates(start) for start in starts)
    assert all(before < after for before, after in pairwise(starts))


def test_alignment_is_linear() -> None:
    """Twenty thousand messages of one group are aligned in well under a second."""
    count = 20_000
    messages = [call_message("a", *(f"c{n}" for n in range(count)))]
    messages += [result_message(f"r{n}", f"c{n}") for n in range(count)]
    started = time.process_time()

    assert align_backward(messages, count) == 0
    assert align_forward(messages, 1) == count + 1
    assert time.process_time() - started < 3
