"""Summaries that a session is given, and what it estimates of them (6.4, 7)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agent_runtime.errors import InvalidCompactionError, UnknownMessageError
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.context_block import ContextConfig
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import session_ref
from agent_runtime.storage.session_protocol import OverlayRow, SessionWrites
from tests.support.context import ReadOnly
from tests.support.session import (
    Events,
    Owner,
    Summaries,
    append_chain,
    assistant,
    long_text,
    shown,
    user,
)
from tests.support.session_providers import PlainMessages


async def test_r27_two_reads_of_a_summary_are_the_same(
    session_store: DirectSessionStore,
) -> None:
    """Byte for byte; its time is that of the record (F28)."""
    session = Session.create(session_store)
    await append_chain(session, 4)
    overlay = await session.add_compaction("  Summary, untrimmed\n", "m1", "m2")

    first, second = await session.get_history(), await session.get_history()

    assert to_json(first) == to_json(second)
    assert first[1] == {
        "id": f"compaction_{overlay.id}",
        "role": "assistant",
        "parts": [{"type": "text", "text": "  Summary, untrimmed\n"}],
        "createdAt": overlay.created_at,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", overlay.created_at)


async def test_s092_one_summary(session_store: DirectSessionStore) -> None:
    """It stands where its messages stood."""
    session = Session.create(session_store)
    await append_chain(session, 6)
    await session.add_compaction("Summary of m1-m3", "m1", "m3")

    assert shown(await session.get_history()) == ["m0", "Summary of m1-m3", "m4", "m5"]
    assert len(await session.get_compactions()) == 1


async def test_s067_s093_a_later_summary_takes_the_place_of_an_earlier(
    session_store: DirectSessionStore,
) -> None:
    """Both are kept."""
    session = Session.create(session_store)
    await append_chain(session, 10)
    await session.add_compaction("Round 1", "m1", "m7")
    assert shown(await session.get_history()) == ["m0", "Round 1", "m8", "m9"]
    await append_chain(session, 5, start=10)
    await session.add_compaction("Round 2", "m1", "m12")

    assert shown(await session.get_history()) == ["m0", "Round 2", "m13", "m14"]
    assert len(await session.get_compactions()) == 2


async def test_s193_a_summary_s_time_is_told_as_text(
    session_store: DirectSessionStore,
) -> None:
    """In UTC with milliseconds."""
    moment = datetime(2026, 5, 18, 15, 42, 29, tzinfo=UTC)
    row = OverlayRow("o1", "S", "m0", "m1", int(moment.timestamp() * 1000))

    async def unit(sessions: SessionWrites) -> Json:
        await sessions.messages.add_overlay(session_ref(session_store, ""), row, 6)

    await session_store.write("add_compaction", None, unit)

    [overlay] = await Session.create(session_store).get_compactions()
    assert overlay.created_at == "2026-05-18T15:42:29.000Z"


async def test_s094_of_summaries_from_one_start_the_last_stored_wins(
    session_store: DirectSessionStore,
) -> None:
    """However close in time they are."""
    session = Session.create(session_store)
    await append_chain(session, 4)
    await session.add_compaction("Old summary", "m0", "m1")
    await session.add_compaction("New summary", "m0", "m2")

    assert shown(await session.get_history("m3")) == ["New summary", "m3"]


async def test_s095_s192_branches_have_summaries_of_their_own(
    session_store: DirectSessionStore,
) -> None:
    """From one start message; on each path the last one that fits it."""
    session = Session.create(session_store)
    await append_chain(session, 2)
    await session.append_messages([assistant(each) for each in ("a2", "a3", "a4")], "m1")
    await session.append_messages([assistant(each) for each in ("b2", "b3")], "m1")
    await session.add_compaction("Branch A summary", "m0", "a2")
    await session.add_compaction("Branch B summary", "m0", "b2")
    await session.add_compaction("Branch A summary 2", "m0", "a3")

    assert shown(await session.get_history("a4")) == ["Branch A summary 2", "a4"]
    assert shown(await session.get_history("b3")) == ["Branch B summary", "b3"]


@pytest.mark.parametrize(
    ("overlays", "visible"),
    [
        ("A1-5 B3-8", "m0 A m6 m7 m8 m9"),
        ("A1-3 B6-8", "m0 A m4 m5 B m9"),
        ("A1-7 B1-3", "m0 B m4 m5 m6 m7 m8 m9"),
        ("A3-5 B1-7", "m0 B m8 m9"),
        ("A5-5", "m0 m1 m2 m3 m4 A m6 m7 m8 m9"),
        ("A0-9", "A"),
    ],
)
async def test_the_table_of_summaries(
    session_store: DirectSessionStore, overlays: str, visible: str
) -> None:
    """What is shown of m0 to m9 (6.2)."""
    session = Session.create(session_store)
    await append_chain(session, 10)
    for name, first, last in re.findall(r"(\w)(\d)-(\d)", overlays):
        await session.add_compaction(name, f"m{first}", f"m{last}")

    assert " ".join(shown(await session.get_history())) == visible


async def test_a_path_that_ends_within_a_summary_shows_its_messages(
    session_store: DirectSessionStore,
) -> None:
    """Up to its end it is shown as summary (6.2)."""
    session = Session.create(session_store)
    await append_chain(session, 10)
    await session.add_compaction("A", "m1", "m5")

    assert shown(await session.get_history("m3")) == ["m0", "m1", "m2", "m3"]
    assert shown(await session.get_history("m5")) == ["m0", "A"]


async def test_r13_a_summary_shrinks_with_its_range(session_store: DirectSessionStore) -> None:
    """As long as one of its messages is left (F11)."""
    session = Session.create(session_store)
    await append_chain(session, 8)
    await session.add_compaction("S", "m1", "m4")

    for deleted in (["m4"], ["m1"]):
        await session.delete_messages(deleted)
        assert shown(await session.get_history()) == ["m0", "S", "m5", "m6", "m7"]
    await session.delete_messages(["m2", "m3"])
    assert shown(await session.get_history()) == ["m0", "m5", "m6", "m7"]
    assert await session.get_compactions() == []


async def test_f39_the_chosen_branch_is_estimated(session_store: DirectSessionStore) -> None:
    """`tokensBefore` is that of the branch that was compacted."""
    owner = Owner(session_store)
    session = Session.create(owner).on_compaction(Summaries(("a1", "a2", "S")))
    await session.append_message(long_text(0, 40))
    for index in range(3):
        await session.append_message(user(f"a{index}", "x" * 400))
    await session.append_message(user("short", "x"), "m0")
    before = await session.estimate_tokens("a2")

    await session.compact("a2")

    assert before > await session.estimate_tokens()
    assert owner.frames[-1]["compacted"]["tokensBefore"] == before


async def test_estimates_agree_with_the_history(session_store: DirectSessionStore) -> None:
    """What is kept in sums is what counting the visible messages and the prompt gives."""
    session = Session.create(session_store).with_context("soul", provider=ReadOnly("x" * 40))
    own = Session(PlainMessages(), context=[ContextConfig("soul", None, None, ReadOnly("x" * 40))])
    for each in (session, own):
        await append_chain(each, 10)
        await each.append_message(user("b"), "m4")
        await each.add_compaction("Summary", "m1", "m3")

    for leaf in (None, "m9", "m2"):
        assert await session.estimate_tokens(leaf) == await own.estimate_tokens(leaf)


@pytest.mark.parametrize(
    ("ends", "error"),
    [
        (("m1", "nobody"), UnknownMessageError),
        (("nobody", "m1"), UnknownMessageError),
        (("m3", "m1"), InvalidCompactionError),
        (("m2", "side"), InvalidCompactionError),
        (("SUMMARY", "m5"), InvalidCompactionError),
    ],
)
@pytest.mark.parametrize("is_stored", [True, False])
async def test_adding_a_summary_checks_its_range(
    session_store: DirectSessionStore,
    ends: tuple[str, str],
    error: type[Exception],
    is_stored: bool,
) -> None:
    """Unknown, a summary itself, reversed or on another branch: nothing is stored (6.4, F10)."""
    session = Session.create(session_store) if is_stored else Session(PlainMessages())
    await append_chain(session, 6)
    await session.append_message(user("side"), "m1")
    overlay = await session.add_compaction("A", "m4", "m5")

    given = [f"compaction_{overlay.id}" if end == "SUMMARY" else end for end in ends]
    with pytest.raises(error):
        await session.add_compaction("never", *given)

    assert await session.get_compactions() == [overlay]


async def test_adding_a_summary_tells_nobody(session_store: DirectSessionStore) -> None:
    """No frame, no event; what is returned is what is listed (6.4, F28)."""
    owner, events = Owner(session_store), Events()
    session = Session.create(owner).on_change(events)
    await append_chain(session, 3)
    owner.forget()
    events.seen.clear()

    overlay = await session.add_compaction("One message", "m1", "m1")

    assert (owner.texts, events.seen) == ([], [])
    assert await session.get_compactions() == [overlay]
    assert shown(await session.get_history()) == ["m0", "One message", "m2"]
