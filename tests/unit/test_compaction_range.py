"""The range that a summary is stored under, held against the rules for any history (9.1)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.session.compaction_range import (
    CompactionRange,
    InvalidRange,
    compaction_range,
)
from agent_runtime.session.message import Message
from agent_runtime.session.session_provider import Compaction

LENGTH = 9


def overlay(name: str, first: int | str, last: int | str) -> Compaction:
    """Return a stored overlay."""
    return Compaction(name, name, f"m{first}", f"m{last}", "now")


def visible(overlays: Sequence[Compaction], length: int = LENGTH) -> list[str]:
    """Return the ids that a read shows of `m0` and so on (6.2)."""
    path = [f"m{index}" for index in range(length)]
    found, at = [], 0
    while at < length:
        ends = [
            (path.index(each.to_message_id), each)
            for each in overlays
            if each.from_message_id == path[at] and each.to_message_id in path[at:]
        ]
        found.append(f"compaction_{ends[-1][1].id}" if ends else path[at])
        at = ends[-1][0] + 1 if ends else at + 1
    return found


def stored(
    history: Sequence[str], overlays: Sequence[Compaction], first: str, last: str
) -> tuple[str, str] | None:
    """Return the range that a result is stored under, None if it is invalid."""
    messages: list[Message] = [{"id": id, "role": "user", "parts": []} for id in history]
    found = compaction_range(messages, overlays, CompactResult(first, last, "S"))
    if isinstance(found, CompactionRange):
        return found.from_message_id, found.to_message_id
    assert isinstance(found, InvalidRange) and found.reason
    return None


def expected(
    history: Sequence[str], overlays: Sequence[Compaction], first: str, last: str
) -> tuple[str, str] | None:
    """Return what the rules a to d say, by merging intervals."""
    ends = {f"compaction_{each.id}": each for each in overlays}
    raw = {id: at for at, id in enumerate(history) if not id.startswith("compaction_")}
    # Where each overlay is visible, with its ends.
    shown: list[tuple[int, int, Compaction]] = []
    for each in overlays:
        if f"compaction_{each.id}" in history:
            at = history.index(f"compaction_{each.id}")
            shown.append((at, at, each))
        elif each.from_message_id in raw and each.to_message_id in raw:
            span = raw[each.from_message_id], raw[each.to_message_id]
            if span[0] <= span[1]:
                shown.append((*span, each))
    # a: ends are messages that are there, or ends of what is visible.
    first = ends[first].from_message_id if first in ends else first
    last = ends[last].to_message_id if last in ends else last
    places = dict(raw)
    for begin, end, each in shown:
        places.setdefault(each.from_message_id, begin)
        places.setdefault(each.to_message_id, end)
    if first not in places or last not in places or places[first] > places[last]:
        return None
    # b: the intervals that touch each other, the result's among them, are one.
    mine = (places[first], places[last])
    merged: list[tuple[int, int]] = []
    for begin, end in sorted([mine, *((begin, end) for begin, end, _ in shown)]):
        if merged and begin <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    begin, end = next(each for each in merged if each[0] <= mine[0] and mine[1] <= each[1])
    # c: one message at least is new.
    old = {at for start, stop, _ in shown for at in range(start, stop + 1)}
    if not any(at in raw.values() for at in set(range(begin, end + 1)) - old):
        return None
    head, tail = history[begin], history[end]
    return (
        ends[head].from_message_id if head in ends else head,
        ends[tail].to_message_id if tail in ends else tail,
    )


numbers = st.integers(0, LENGTH - 1)
overlay_lists = st.lists(st.tuples(numbers, numbers), max_size=4).map(
    lambda pairs: [overlay(f"o{index}", *pair) for index, pair in enumerate(pairs)]
)
ends = st.one_of(
    numbers.map(lambda number: f"m{number}"),
    st.integers(0, 4).map(lambda number: f"compaction_o{number}"),
    st.just("nobody"),
)


@given(overlay_lists, st.booleans(), ends, ends)
def test_the_range_is_what_the_rules_say(
    overlays: list[Compaction], is_applied: bool, first: str, last: str
) -> None:
    """For a store that shows summaries, and for one that shows the messages beside them."""
    history = visible(overlays if is_applied else [])

    found = stored(history, overlays, first, last)

    assert found == expected(history, overlays, first, last)


@given(overlay_lists, ends, ends)
def test_a_stored_summary_shows(overlays: list[Compaction], first: str, last: str) -> None:
    """In place of a run of what was visible, and of nothing else; the history never grows."""
    before = visible(overlays)
    found = stored(before, overlays, first, last)
    if found is None:
        return

    after = visible([*overlays, Compaction("new", "new", *found, "now")])

    at = after.index("compaction_new")
    left, right = after[:at], after[at + 1 :]
    assert before[:at] == left
    assert before[len(before) - len(right) :] == right
    replaced = before[at : len(before) - len(right)]
    assert any(not id.startswith("compaction_") for id in replaced)
    assert not (left and left[-1].startswith("compaction_"))
    assert not (right and right[0].startswith("compaction_"))


@pytest.mark.parametrize(
    ("overlays", "first", "last", "range_"),
    [
        ([], "m1", "m3", ("m1", "m3")),
        ([], "m1", "m1", ("m1", "m1")),
        ([overlay("a", 1, 5)], "m6", "m8", ("m1", "m8")),
        ([overlay("a", 1, 5)], "m7", "m8", ("m7", "m8")),
        ([overlay("a", 4, 6)], "m2", "m3", ("m2", "m6")),
        ([overlay("a", 1, 3), overlay("b", 4, 6)], "m7", "m7", ("m1", "m7")),
        ([overlay("a", 1, 3), overlay("b", 6, 8)], "m4", "m5", ("m1", "m8")),
        ([overlay("a", 1, 3)], "compaction_a", "m5", ("m1", "m5")),
        ([overlay("a", 3, 5)], "m1", "compaction_a", ("m1", "m5")),
        ([overlay("a", 3, 5)], "m3", "m7", ("m3", "m7")),
        ([overlay("a", 3, 5)], "compaction_a", "compaction_a", None),
        ([overlay("a", 3, 5)], "m4", "m7", None),
        ([overlay("a", 3, 5)], "m1", "m4", None),
        ([], "m3", "m1", None),
        ([], "m1", "nobody", None),
        ([], "compaction_other", "m1", None),
    ],
)
def test_r10_r11_r12_ranges(
    overlays: list[Compaction], first: str, last: str, range_: tuple[str, str] | None
) -> None:
    """Neighbours are taken in, others left alone; hidden and unknown ends are no ends."""
    assert stored(visible(overlays), overlays, first, last) == range_


def test_a_summary_that_nobody_knows_is_no_new_message() -> None:
    """It can neither be an end nor all that is new."""
    history = ["m0", "compaction_a", "compaction_lost", "compaction_b", "m9"]
    overlays = [overlay("a", 1, 2), overlay("b", 6, 8)]

    assert stored(history, overlays, "compaction_a", "compaction_b") is None
    assert stored(history, overlays, "compaction_lost", "m9") is None
    assert stored(history, overlays, "compaction_a", "m9") == ("m1", "m9")
