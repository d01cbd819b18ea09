"""A session's message tree over the real storage (contract 25.13, 25.14, 25.16, 25.22)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_runtime.errors import InvalidMessageError, InvalidSearchError
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.message import Message, message_text, text_message
from agent_runtime.session.session import Session
from agent_runtime.session.session_provider import AUTO, Parent
from agent_runtime.storage.sqlite import FILE_NAME


async def _say(session: Session, *ids: str, parent: Parent = AUTO, text: str = "") -> None:
    for id in ids:
        await session.append_message(
            text_message("user", text or f"{id[0]} message {id[1:]}", id=id), parent
        )
        parent = AUTO


async def _chain(session: Session, count: int, prefix: str = "m", first: int = 0) -> None:
    await session.append_messages(
        [
            text_message(
                "assistant" if number % 2 else "user",
                f"{prefix} message {number}",
                id=f"{prefix}{number}",
            )
            for number in range(first, first + count)
        ]
    )


def _ids(messages: Sequence[Message]) -> list[str]:
    return [each["id"] for each in messages]


def _m(first: int, last: int, prefix: str = "m") -> list[str]:
    return [f"{prefix}{number}" for number in range(first, last + 1)]


async def _history(session: Session, leaf: str | None = None) -> list[str]:
    """Return ids, and for summaries their text."""
    return [
        message_text(each) if each["id"].startswith("compaction_") else each["id"]
        for each in await session.get_history(leaf)
    ]


@pytest.fixture
def session(session_store: DirectSessionStore) -> Session:
    """A session in a fresh database."""
    return Session.create(session_store).for_session("chat")


async def test_s082_an_empty_session_has_no_history(session: Session) -> None:
    """Nothing was written, nothing is read."""
    assert await session.get_history() == []
    assert await session.get_latest_leaf() is None
    assert await session.get_path_length() == 0


async def test_s083_s084_s085_messages_are_read_back(session: Session) -> None:
    """History is in order, a message is found by its id, the length counts."""
    await _say(session, "m1", "m2")

    assert await _history(session) == ["m1", "m2"]
    assert await session.get_message("m1") == text_message("user", "m message 1", id="m1")
    assert await session.get_message("nope") is None
    assert await session.get_path_length() == 2


async def test_s086_s120_a_message_may_have_several_answers(session: Session) -> None:
    """Branches of a message are its children; the last one made is the latest leaf."""
    await _say(session, "m1", "m2a")
    await _say(session, "m2b", parent="m1")

    assert _ids(await session.get_branches("m1")) == ["m2a", "m2b"]
    assert (await session.get_latest_leaf() or {})["id"] == "m2b"
    assert await _history(session) == ["m1", "m2b"]
    assert await _history(session, "m2a") == ["m1", "m2a"]
    assert await _history(session, "m2b") == ["m1", "m2b"]


async def test_s087_a_message_is_updated(session: Session) -> None:
    """The new text is read back."""
    await _say(session, "m1", text="Original")
    assert await session.update_message(text_message("user", "Updated", id="m1")) is True

    assert message_text(await session.get_message("m1") or {"parts": []}) == "Updated"


async def test_s088_s123_clearing_leaves_nothing(session: Session) -> None:
    """History, length and leaf are those of an empty session."""
    await _chain(session, 3)
    await session.clear_messages()

    assert await session.get_history() == []
    assert await session.get_path_length() == 0
    assert await session.get_latest_leaf() is None


async def test_s089_a_duplicate_changes_nothing(session: Session) -> None:
    """The first content stays."""
    await _say(session, "m1", text="First")
    await _say(session, "m1", text="Duplicate")

    [message] = await session.get_history()
    assert message_text(message) == "First"


async def test_s090_s091_none_is_a_new_root_and_nothing_is_the_leaf(session: Session) -> None:
    """A message without a parent given follows; one with None begins anew."""
    await _say(session, "m1", "m2", "m3")
    await _say(session, "m4", parent=None)

    assert _ids(await session.get_branches("m2")) == ["m3"]
    assert await session.get_branches("m3") == []
    assert await _history(session, "m4") == ["m4"]


async def test_s092_a_summary_stands_for_its_range(session: Session) -> None:
    """The history has a message with the reserved prefix in place of three."""
    await _chain(session, 6)
    await session.add_compaction("Summary of m1-m3", "m1", "m3")

    history = await session.get_history()
    assert _ids(history)[0] == "m0" and _ids(history)[2:] == ["m4", "m5"]
    assert history[1]["id"].startswith("compaction_") and history[1]["role"] == "assistant"
    assert message_text(history[1]) == "Summary of m1-m3"
    assert len(await session.get_compactions()) == 1


async def test_s093_a_second_summary_takes_in_the_first(session: Session) -> None:
    """The history before and after more was said and summarized."""
    await _chain(session, 10)
    await session.add_compaction("Summary round 1", "m1", "m7")
    assert await _history(session) == ["m0", "Summary round 1", "m8", "m9"]
    await _chain(session, 5, first=10)
    await session.add_compaction("Summary round 2", "m1", "m12")

    assert await _history(session) == ["m0", "Summary round 2", "m13", "m14"]
    assert len(await session.get_compactions()) == 2


async def test_s094_of_two_summaries_the_later_one_shows(session: Session) -> None:
    """Two made in the same instant are ordered by when they were stored."""
    await _chain(session, 4)
    await session.add_compaction("Old summary", "m0", "m1")
    await session.add_compaction("New summary", "m0", "m2")

    assert await _history(session, "m3") == ["New summary", "m3"]


async def test_s095_branches_have_their_own_summaries(session: Session) -> None:
    """The latest summary that is valid on a path is the one it shows."""
    await _say(session, "m0", "m1", "a2", "a3", "a4")
    await _say(session, "b2", "b3", parent="m1")
    await session.add_compaction("Branch A summary", "m0", "a2")
    await session.add_compaction("Branch B summary", "m0", "b2")
    await session.add_compaction("Branch A summary 2", "m0", "a3")

    assert await _history(session, "a4") == ["Branch A summary 2", "a4"]
    assert await _history(session, "b3") == ["Branch B summary", "b3"]


async def test_s096_messages_are_searched(session: Session) -> None:
    """A hit holds the text that it was found by."""
    await _say(session, "m1", text="I love TypeScript")
    await _say(session, "m2", text="Python is great")

    [hit] = await session.search("TypeScript")
    assert (hit.id, hit.content, hit.session_id) == ("m1", "I love TypeScript", "chat")
    assert hit.created_at is not None and hit.created_at.endswith("Z")


async def test_s097_another_handle_reads_the_same(
    session: Session, session_store: DirectSessionStore
) -> None:
    """What one object appended another one reads."""
    await _say(session, "m1")

    assert await _history(Session.create(session_store).for_session("chat")) == ["m1"]


@pytest.mark.parametrize("count", [50, 51, 120])
async def test_s098_s099_s100_long_histories_are_whole(session: Session, count: int) -> None:
    """No number of messages is a boundary."""
    await _chain(session, count)

    assert await _history(session) == _m(0, count - 1)
    assert await session.get_path_length() == count


async def test_s101_a_long_branch_has_its_whole_path(session: Session) -> None:
    """Chain, branch and a competing branch."""
    await _chain(session, 31)
    await _chain(session, 30, prefix="b")
    await _say(session, "x0", parent="m30")

    assert await _history(session, "b29") == _m(0, 30) + _m(0, 29, "b")


async def test_s102_a_long_range_is_one_summary(session: Session) -> None:
    """Ninety-one messages show as one."""
    await _chain(session, 120)
    await session.add_compaction("Summary of m10-m100", "m10", "m100")

    expected = [*_m(0, 9), "Summary of m10-m100", *_m(101, 119)]
    assert await _history(session) == expected


@pytest.mark.parametrize("content", ["{", '{"id":"m4"}', "null", '"x"', "{},{}", ""])
async def test_s103_s115_broken_rows_are_left_out(tmp_path: Path, content: str) -> None:
    """What cannot be read as a message is missing, is counted, and hinders nothing."""
    async with await open_session_store(tmp_path) as store:
        session = Session.create(store)
        await _chain(session, 10)
        with sqlite3.connect(tmp_path / FILE_NAME) as connection:
            connection.execute(
                "UPDATE messages SET content = ? WHERE message_id IN ('m4', 'm9')", (content,)
            )
        connection.close()

        assert await _history(session) == [*_m(0, 3), *_m(5, 8)]
        assert await session.get_message("m4") is None
        assert await session.get_latest_leaf() is None
        assert await session.get_path_length() == 10
        recent = await session.get_recent_history(10 * 2**20)
        assert _ids(recent.messages) == [*_m(0, 3), *_m(5, 8)]
        assert not recent.is_truncated and recent.total_content_bytes > 0
        await _say(session, "m10")
        assert await _history(session) == [*_m(0, 3), *_m(5, 8), "m10"]


async def test_s104_s117_large_messages_come_back_whole(session: Session) -> None:
    """Two hundred thousand characters, and four messages of one and a half million."""
    await _say(session, "m1", text="x" * 200_000)
    await _say(session, "m2")
    for number in range(4):
        await _say(session, f"big{number}", text="y" * 1_500_000)

    history = await session.get_history()
    assert _ids(history) == ["m1", "m2", *_m(0, 3, "big")]
    sizes = [len(message_text(each)) for each in history]
    assert sizes[0] == 200_000 and sizes[2:] == [1_500_000] * 4


async def test_s105_the_latest_leaf_is_a_message(session: Session) -> None:
    """It has its parts."""
    await _chain(session, 3)

    assert message_text(await session.get_latest_leaf() or {"parts": []}) == "m message 2"


async def test_s106_s107_s114_budgets_that_hold_everything(session: Session) -> None:
    """An empty session, a large budget and a large floor leave nothing out."""
    recent = await session.get_recent_history(1024)
    assert (recent.messages, recent.is_truncated, recent.total_content_bytes) == ([], False, 0)
    await _chain(session, 6)
    recent = await session.get_recent_history(10 * 2**20)
    assert _ids(recent.messages) == _m(0, 5) and not recent.is_truncated
    assert recent.total_content_bytes > 0
    recent = await session.get_recent_history(1, 10)
    assert _ids(recent.messages) == _m(0, 5) and not recent.is_truncated


async def test_s108_s113_budgets_keep_the_end(session: Session) -> None:
    """The newest messages that fit, and at least as many as asked for."""
    for number in range(10):
        await _say(session, f"m{number}", text="x" * 1_024)

    recent = await session.get_recent_history(3_072)
    ids = _ids(recent.messages)
    assert recent.is_truncated and 1 <= len(ids) < 10 and ids == _m(10 - len(ids), 9)
    recent = await session.get_recent_history(2_048, 4)
    assert recent.is_truncated and _ids(recent.messages) == _m(6, 9)
    for floor in (2.9, 2):
        assert _ids((await session.get_recent_history(1, floor)).messages) == ["m8", "m9"]
    for floor in (0, -3, 1):
        assert _ids((await session.get_recent_history(1, floor)).messages) == ["m9"]


async def test_s109_one_large_leaf_stands_alone(session: Session) -> None:
    """Beyond the budget, but the last message is always there."""
    await _say(session, "small")
    await _say(session, "huge", text="x" * 50_000)

    recent = await session.get_recent_history(1_024)
    assert recent.is_truncated and _ids(recent.messages) == ["huge"]


async def test_s110_s111_s116_sizes_add_up(session: Session) -> None:
    """Ids, roles and sizes in order; their sum is that of the budgeted read."""
    await _chain(session, 5)
    await _say(session, "big", text="x" * 10_000)

    rows = await session.get_history_row_stats() or []
    assert [row.id for row in rows] == [*_m(0, 4), "big"]
    assert [row.role for row in rows[:4]] == ["user", "assistant"] * 2
    assert all(row.bytes > 0 for row in rows) and rows[-1].bytes > rows[0].bytes + 9_000
    recent = await session.get_recent_history(10 * 2**20)
    assert recent.total_content_bytes == sum(row.bytes for row in rows)


async def test_s112_summaries_show_in_budgeted_reads(session: Session) -> None:
    """A summary within the window stands for its range."""
    await _chain(session, 6)
    await session.add_compaction("S", "m1", "m3")

    recent = await session.get_recent_history(10 * 2**20)
    assert [each["id"] for each in recent.messages][0::2] == ["m0", "m4"]
    assert [message_text(each) for each in recent.messages][1] == "S"


async def test_s121_s122_the_leaf_after_deletions(session: Session) -> None:
    """Without the last message it is the one before; without the first it stays."""
    await _chain(session, 3)
    await session.delete_messages(["m2"])
    assert (await session.get_latest_leaf() or {})["id"] == "m1"
    await session.delete_messages(["m0"])

    assert (await session.get_latest_leaf() or {})["id"] == "m1"
    assert await _history(session) == ["m1"]


async def test_s124_s125_other_writers_move_the_leaf(tmp_path: Path) -> None:
    """What another connection appends or deletes shows at once."""
    async with (
        await open_session_store(tmp_path) as store,
        await open_session_store(tmp_path) as other,
    ):
        session, writer = Session.create(store), Session.create(other)
        await _chain(session, 3)
        assert (await session.get_latest_leaf() or {})["id"] == "m2"
        await _say(writer, "ext-child", parent="m2")
        assert (await session.get_latest_leaf() or {})["id"] == "ext-child"
        assert await _history(session) == [*_m(0, 2), "ext-child"]
        await writer.delete_messages(["ext-child", "m2"])

        assert (await session.get_latest_leaf() or {})["id"] == "m1"


async def test_s228_s229_restarts_change_nothing(tmp_path: Path) -> None:
    """After a restart leaf, branches and history go on; sessions stay apart."""
    async with await open_session_store(tmp_path) as store:
        await _chain(Session.create(store).for_session("a"), 20)
        await _say(Session.create(store).for_session("b"), "b1")
    async with await open_session_store(tmp_path) as store:
        session = Session.create(store).for_session("a")
        assert (await session.get_latest_leaf() or {})["id"] == "m19"
        await _say(session, "after")

        assert _ids(await session.get_branches("m19")) == ["after"]
        assert await _history(session) == [*_m(0, 19), "after"]
        assert await _history(Session.create(store).for_session("b")) == ["b1"]


async def test_r01_deleting_inside_keeps_the_path(session: Session) -> None:
    """What was above and below a deleted message stays one conversation."""
    await _chain(session, 5)
    await session.delete_messages(["m2"])

    assert await _history(session) == ["m0", "m1", "m3", "m4"]
    assert await session.get_path_length() == 4
    assert _ids(await session.get_branches("m1")) == ["m3"]
    assert await session.get_branches("m2") == []


async def test_r02_a_deleted_id_comes_back_as_new(session: Session) -> None:
    """It is at the end, and no link of old leads to it."""
    await _chain(session, 4)
    await session.delete_messages(["m1"])
    await _say(session, "m1")

    assert await _history(session) == ["m0", "m2", "m3", "m1"]
    assert await _history(session, "m3") == ["m0", "m2", "m3"]


async def test_r03_lists_of_messages_follow_the_leaf(session: Session) -> None:
    """Without a parent they go on; with None they begin anew."""
    rows = [text_message("user", "y", id=name) for name in ("y1", "y2")]
    await _say(session, "x1", "x2")
    await session.append_messages(rows)
    assert await _history(session) == ["x1", "x2", "y1", "y2"]
    await session.delete_messages(["y1", "y2"])
    await session.append_messages(rows, None)

    assert await _history(session) == ["y1", "y2"]


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("deployment Friday", True),
        ("Friday deployment", True),
        ('"deployment', True),
        ("deployment AND", False),
        ("a* NEAR(b)", False),
        ("\0", False),
        ("", False),
        ("x" * 10_000, False),
        ("deployment " * 1_000, True),
    ],
)
async def test_r05_every_query_is_defined(session: Session, query: str, is_found: bool) -> None:
    """Words in any order, all needed; nothing is an operator, nothing raises."""
    await _say(session, "m1", text="The deployment is scheduled for Friday")

    assert [hit.id for hit in await session.search(query)] == (["m1"] if is_found else [])


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_searches_have_a_limit(session: Session, limit: int) -> None:
    """One to a thousand hits may be asked for."""
    with pytest.raises(InvalidSearchError):
        await session.search("word", limit)


async def test_r13_summaries_shrink_with_their_range(session: Session) -> None:
    """Deleted ends move inward; when all of a range is gone so is its summary."""
    await _chain(session, 8)
    await session.add_compaction("S", "m1", "m4")
    await session.delete_messages(["m4"])
    assert await _history(session) == ["m0", "S", "m5", "m6", "m7"]
    await session.delete_messages(["m1"])
    assert await _history(session) == ["m0", "S", "m5", "m6", "m7"]
    await session.delete_messages(["m2", "m3"])

    assert await _history(session) == ["m0", "m5", "m6", "m7"]
    assert await session.get_compactions() == []


@pytest.mark.parametrize(
    "message",
    [
        {"id": "compaction_x", "role": "user", "parts": []},
        {"id": "x", "role": "user"},
        {"id": "x", "parts": []},
        {"role": "user", "parts": []},
        {"id": 1, "role": "user", "parts": []},
        {"id": "x", "role": "user", "parts": {}},
        {"id": "x", "role": "user", "parts": [1]},
    ],
)
async def test_r14_r26_what_is_no_message_is_not_stored(session: Session, message: Message) -> None:
    """It is refused before anything is stored; the leaf is the one from before."""
    await _say(session, "m1")
    with pytest.raises(InvalidMessageError):
        await session.append_messages([text_message("user", "fine", id="fine"), message])
    with pytest.raises(InvalidMessageError):
        await session.append_message(message)
    with pytest.raises(InvalidMessageError):
        await session.update_message(message)

    assert await _history(session) == ["m1"]
    assert (await session.get_latest_leaf() or {})["id"] == "m1"


async def test_r15_unknown_updates_leave_no_trace(session: Session) -> None:
    """The message is neither there nor found."""
    await _say(session, "m1")

    assert await session.update_message(text_message("user", "ghost", id="nope")) is False
    assert await session.search("ghost") == []
    assert await session.get_message("nope") is None


async def test_r16_a_path_has_no_longest_length(session: Session) -> None:
    """Ten thousand and fifty messages are all there."""
    await _chain(session, 10_050)

    assert len(await session.get_history()) == 10_050
    assert await session.get_path_length() == 10_050


async def test_r27_summaries_are_the_same_at_each_read(session: Session) -> None:
    """Byte for byte, its time of making included, which the listing tells too."""
    await _chain(session, 4)
    stored = await session.add_compaction("S", "m1", "m2")
    first, second = await session.get_history(), await session.get_history()

    assert first == second
    assert first[1]["createdAt"] == stored.created_at
    assert await session.get_compactions() == [stored]


async def test_r28_text_cannot_make_a_write_fail(session: Session) -> None:
    """A NUL character, and a million characters of different words."""
    words = " ".join(f"w{number:x}" for number in range(176_000))
    assert len(words) > 1_000_000
    await _say(session, "nul", text="a\0b")
    await _say(session, "words", text=words)

    history = await session.get_history()
    assert [message_text(each) for each in history] == ["a\0b", words]
    assert [hit.id for hit in await session.search("b")] == ["nul"]
    assert [hit.id for hit in await session.search("w1f")] == ["words"]
