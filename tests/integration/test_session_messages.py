"""A session's message tree, as its user sees it (4, 5), and what it refuses (2)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from agent_runtime.errors import InvalidMessageError, InvalidSearchError, NotSerializableError
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, message_text
from agent_runtime.session.session import Session
from agent_runtime.session.session_provider import AppendResult
from agent_runtime.session.stored_session import StoredSessionProvider
from tests.support.session import Events, append_chain, assistant, chain_message, ids, user
from tests.support.session_providers import PlainMessages


async def text_of(session: Session, message_id: str) -> str | None:
    """Return a stored message's text."""
    found = await session.get_message(message_id)
    return message_text(found) if found is not None else None


async def test_s055_s188_sessions_are_apart(session_store: DirectSessionStore) -> None:
    """Each has its own messages."""
    one = Session.create(session_store).for_session("chat-a")
    two = Session.create(session_store).for_session("chat-b")
    for id in ("a1", "a2"):
        await one.append_message(user(id, "session1"))
    await two.append_message(user("b1", "session2"))

    assert ids(await one.get_history()) == ["a1", "a2"]
    assert ids(await two.get_history()) == ["b1"]
    assert await text_of(two, "b1") == "session2"
    assert await two.get_message("a1") is None


async def test_s056_a_summary_is_of_one_session(session_store: DirectSessionStore) -> None:
    """The other one shows its messages."""
    one = Session.create(session_store).for_session("compact-a")
    two = Session.create(session_store).for_session("compact-b")
    await append_chain(one, 5)
    await append_chain(two, 2)

    await one.add_compaction("Summary", "m1", "m3")

    assert ids(await one.get_history()) == ["m0", "S", "m4"]
    assert ids(await two.get_history()) == ["m0", "m1"]


async def test_s059_clearing_is_of_one_session(session_store: DirectSessionStore) -> None:
    """The other one keeps its message."""
    one = Session.create(session_store).for_session("clear-a")
    two = Session.create(session_store).for_session("clear-b")
    await append_chain(one, 1)
    await append_chain(two, 1)

    await one.clear_messages()

    assert await one.get_history() == []
    assert ids(await two.get_history()) == ["m0"]


class FullPrompts:
    """A prompt store that takes nothing."""

    def get(self) -> None:
        """Have no prompt."""

    def set(self, prompt: str) -> None:
        """Refuse one."""
        raise OSError("disk full")


@pytest.mark.parametrize("is_own", [True, False])
async def test_messages_are_not_cleared_without_a_prompt(
    session_store: DirectSessionStore, *, is_own: bool
) -> None:
    """An error says that all is there still, whichever store the messages are in."""
    provider = PlainMessages() if is_own else session_store
    session = Session.create(provider).with_cached_prompt(FullPrompts())
    await session.append_message(user("m0"))

    with pytest.raises(OSError, match="disk full"):
        await session.clear_messages()
    assert ids(await session.get_history()) == ["m0"]


async def test_s177_s179_messages_are_read_in_order(session_store: DirectSessionStore) -> None:
    """None at first."""
    session = Session.create(session_store)
    assert await session.get_history() == []

    await append_chain(session, 3)

    assert ids(await session.get_history()) == ["m0", "m1", "m2"]


async def test_s084_s178_a_message_is_found_by_its_id(session_store: DirectSessionStore) -> None:
    """Another id gives nothing."""
    session = Session.create(session_store)
    await session.append_message(user("m1", "hello"))

    assert await session.get_message("m1") == user("m1", "hello")
    assert await session.get_message("nope") is None


async def test_s085_s186_s187_tip_and_length(session_store: DirectSessionStore) -> None:
    """Of an empty session, and of three messages."""
    session = Session.create(session_store)
    assert (await session.get_latest_leaf(), await session.get_path_length()) == (None, 0)

    await append_chain(session, 3)

    assert await session.get_latest_leaf() == chain_message(2)
    assert await session.get_path_length() == 3
    assert await session.get_path_length("m1") == 2


async def test_s086_a_branch_becomes_the_active_path(session_store: DirectSessionStore) -> None:
    """Both answers stay reachable."""
    session = Session.create(session_store)
    await session.append_message(user("m1"))
    await session.append_message(assistant("m2a"), "m1")
    result = await session.append_message(assistant("m2b"), "m1")

    assert result == AppendResult(True, "m1")
    assert ids(await session.get_branches("m1")) == ["m2a", "m2b"]
    assert (await session.get_latest_leaf() or {})["id"] == "m2b"
    assert ids(await session.get_history("m2a")) == ["m1", "m2a"]
    assert ids(await session.get_history("m2b")) == ["m1", "m2b"]
    assert await session.get_branches("nobody") == []


async def test_s087_s183_an_update_replaces_the_content(
    session_store: DirectSessionStore,
) -> None:
    """In its place."""
    session = Session.create(session_store)
    await session.append_message(user("m1", "Original"))
    await session.append_message(user("m2"))

    assert await session.update_message(user("m1", "Updated")) is True
    assert await text_of(session, "m1") == "Updated"
    assert ids(await session.get_history()) == ["m1", "m2"]


async def test_s088_s185_clearing_removes_all(session_store: DirectSessionStore) -> None:
    """Summaries too."""
    session = Session.create(session_store)
    await append_chain(session, 3)
    await session.add_compaction("S", "m0", "m1")

    await session.clear_messages()

    assert await session.get_history() == []
    assert await session.get_compactions() == []
    assert await session.get_path_length() == 0


async def test_s089_s180_an_id_is_stored_once(session_store: DirectSessionStore) -> None:
    """With its first content and place."""
    session = Session.create(session_store)
    await session.append_message(user("m1", "First"))
    await session.append_message(user("m2"))

    result = await session.append_message(user("m1", "Duplicate"), "m2")

    assert result == AppendResult(False, None)
    assert await text_of(session, "m1") == "First"
    assert ids(await session.get_history()) == ["m1", "m2"]


async def test_s090_s091_s181_s182_omitted_and_no_parent_differ(
    session_store: DirectSessionStore,
) -> None:
    """Omitted goes below the tip, None begins a new root."""
    session = Session.create(session_store)
    await append_chain(session, 3)
    assert ids(await session.get_branches("m1")) == ["m2"]

    await session.append_message(user("root"), None)

    assert await session.get_branches("m2") == []
    assert ids(await session.get_history()) == ["root"]
    assert ids(await session.get_history("m2")) == ["m0", "m1", "m2"]
    await session.append_message(user("below"))
    assert ids(await session.get_history()) == ["root", "below"]


async def test_s190_a_parent_of_another_session_is_unknown(
    session_store: DirectSessionStore,
) -> None:
    """The message becomes a root; the other session gets no child."""
    one = Session.create(session_store).for_session("one")
    two = Session.create(session_store).for_session("two")
    await one.append_message(user("foreign-parent"))

    await two.append_message(user("child"), "foreign-parent")

    assert ids(await two.get_history()) == ["child"]
    assert await one.get_branches("foreign-parent") == []


async def test_s096_a_session_is_searched(session_store: DirectSessionStore) -> None:
    """By words of its messages; the hit says where it is from."""
    session = Session.create(session_store).for_session("one")
    other = Session.create(session_store).for_session("two")
    await session.append_message(user("m1", "I love TypeScript"))
    await session.append_message(assistant("m2", "Me too"))
    await other.append_message(user("m1", "TypeScript in another session"))

    [hit] = await session.search("TypeScript")

    assert (hit.id, hit.role, hit.content, hit.session_id) == (
        "m1",
        "user",
        "I love TypeScript",
        "one",
    )
    assert hit.created_at is not None and hit.created_at.endswith("Z")
    assert await session.search("  ") == []
    for limit in (0, 1001, cast(int, 1.5), cast(int, "5"), True):
        with pytest.raises(InvalidSearchError, match="give 1 to 1000"):
            await session.search("TypeScript", limit)


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("deployment Friday", True),
        ("Friday deployment", True),
        ('"deployment', True),
        ("deployment\0 Friday", True),
        ("deployment AND", False),
        ("a* NEAR(b)", False),
        ("content:deployment", False),
        ("x" * 10_000, False),
        ("\0", False),
    ],
)
async def test_r05_a_query_is_words(
    session_store: DirectSessionStore, query: str, is_found: bool
) -> None:
    """All of them, in any order; nothing in it is syntax (F04)."""
    session = Session.create(session_store)
    await session.append_message(user("m1", "The deployment is scheduled for Friday"))

    assert [hit.id for hit in await session.search(query)] == (["m1"] if is_found else [])


async def test_s097_r07_two_objects_are_one_session(session_store: DirectSessionStore) -> None:
    """A branch made through one is the tip of the other at once (F06)."""
    one, two = Session.create(session_store), Session.create(session_store)
    await append_chain(one, 4)
    assert ids(await two.get_history()) == ["m0", "m1", "m2", "m3"]

    await two.append_message(user("branch"), "m1")

    assert (await one.get_latest_leaf() or {})["id"] == "branch"
    await one.append_message(assistant("below"))
    for session in (one, two):
        assert ids(await session.get_history()) == ["m0", "m1", "branch", "below"]


async def test_s184_deleting_takes_out_one(session_store: DirectSessionStore) -> None:
    """The other one is still found."""
    session = Session.create(session_store)
    await append_chain(session, 2)

    await session.delete_messages(["m0", "nobody"])

    assert await session.get_message("m0") is None
    assert ids(await session.get_history()) == ["m1"]


async def test_s189_an_id_is_of_one_session(session_store: DirectSessionStore) -> None:
    """Two sessions may use the same one (F29c)."""
    one = Session.create(session_store).for_session("one")
    two = Session.create(session_store).for_session("two")
    await one.append_message(user("same-id", "in one"))
    await two.append_message(user("same-id", "in two"))

    assert (await text_of(one, "same-id"), await text_of(two, "same-id")) == ("in one", "in two")


async def test_s191_the_store_takes_any_range(session_store: DirectSessionStore) -> None:
    """Unlike a session; what its ids do not resolve to never shows."""
    provider = StoredSessionProvider(session_store)
    overlay = await provider.add_compaction("summary", "m1", "m5")
    await append_chain(Session.create(session_store), 3)

    assert await provider.get_compactions() == [overlay]
    assert (overlay.summary, overlay.from_message_id, overlay.to_message_id) == (
        "summary",
        "m1",
        "m5",
    )
    assert ids(await provider.get_history()) == ["m0", "m1", "m2"]


def tool_message(id: str) -> Message:
    """Return a message with a finished call of a tool and a text."""
    call: Json = {
        "type": "dynamic-tool",
        "toolName": "set_context",
        "toolCallId": "call-abc-123",
        "state": "output-available",
        "input": {"label": "memory", "content": "likes tea", "metadata": {"title": None}},
        "output": "Saved to memory",
    }
    text: Json = {"type": "text", "text": "Done."}
    return {
        "id": id,
        "role": "assistant",
        "parts": [call, text],
        "createdAt": "2026-05-18T15:42:29.000Z",
        "metadata": {"model": "x", "nested": [1, 2.5, True]},
    }


async def test_s212_s213_all_fields_come_back(session_store: DirectSessionStore) -> None:
    """Alone and in the middle of a conversation."""
    session = Session.create(session_store)
    message = tool_message("m1")
    await session.append_messages([user("m0"), message, user("m2")])

    assert await session.get_message("m1") == message
    assert (await session.get_history())[1] == message
    assert list((await session.get_history())[1]) == list(message)


@pytest.mark.parametrize(
    ("message", "size"), [(user("m0", "é" * 10), 81), (assistant("m0", "z"), 67)]
)
async def test_golden_26_4_stored_sizes(
    session_store: DirectSessionStore, message: Message, size: int
) -> None:
    """Bytes of UTF-8, without spaces and without escapes."""
    session = Session.create(session_store)
    await session.append_message(message)

    stats = await session.get_history_row_stats()
    recent = await session.get_recent_history(10_000)

    assert stats is not None and [row.bytes for row in stats] == [size]
    assert recent.total_content_bytes == size


async def test_golden_26_4_whole_numbers_have_no_fraction(
    session_store: DirectSessionStore,
) -> None:
    """As JavaScript writes them."""
    session = Session.create(session_store)
    message = user("m0", "z")
    await session.append_message({**message, "n": 1.0})
    await session.append_message({**message, "id": "m1", "n": 1})

    stats = await session.get_history_row_stats()

    assert stats is not None and stats[0].bytes == stats[1].bytes


@pytest.mark.parametrize(
    "message",
    [
        {"id": "x", "role": "user"},
        {"id": "x", "role": "user", "parts": None},
        {"id": "x", "role": "user", "parts": "text"},
        {"id": "x", "role": "user", "parts": [{"text": "no type"}]},
        {"id": 1, "role": "user", "parts": []},
        {"role": "user", "parts": []},
        {"id": "x", "parts": []},
        {"id": "compaction_x", "role": "user", "parts": []},
        "no object",
    ],
)
@pytest.mark.parametrize("is_stored", [True, False])
async def test_r14_r26_what_is_no_message_is_refused(
    session_store: DirectSessionStore, message: Any, is_stored: bool
) -> None:
    """By append and update, alone and among others: nothing is stored, the tip stays (F12, F27)."""
    session = Session.create(session_store) if is_stored else Session(PlainMessages())
    events = Events()
    await append_chain(session, 2)
    session.on_change(events)

    with pytest.raises(InvalidMessageError):
        await session.append_message(message)
    with pytest.raises(InvalidMessageError):
        await session.append_messages([user("before"), message])
    with pytest.raises(ValueError, match=r"message|parts|ids"):
        await session.update_message(message)

    assert await session.get_latest_leaf() == chain_message(1)
    assert ids(await session.get_history()) == ["m0", "m1"]
    assert events.seen == []
    await session.append_message(user("m2"))
    assert ids(await session.get_history()) == ["m0", "m1", "m2"]


async def test_what_is_no_json_is_refused(session_store: DirectSessionStore) -> None:
    """Nothing is stored."""
    session = Session.create(session_store)
    with pytest.raises(NotSerializableError):
        await session.append_message({**user("m0"), "metadata": float("nan")})

    assert await session.get_latest_leaf() is None


async def test_r15_an_update_of_an_unknown_id_does_nothing(
    session_store: DirectSessionStore,
) -> None:
    """No row, and nothing for search to find (F13)."""
    session = Session.create(session_store)
    await append_chain(session, 1)

    assert await session.update_message(user("ghost", "haunted")) is False
    assert await session.get_message("ghost") is None
    assert await session.search("haunted") == []
    assert await session.get_path_length() == 1


async def test_many_messages_go_below_each_other(session_store: DirectSessionStore) -> None:
    """From the tip, from a message or from nothing; those that are there stay."""
    session = Session.create(session_store)
    await session.append_messages([user("x1"), user("x2")])
    results = await session.append_messages([user("y1"), user("x1"), user("y2")])
    assert [result and result.is_inserted for result in results] == [True, False, True]
    assert await session.append_messages([]) == []

    await session.append_messages([user("r1"), user("r2")], None)

    assert ids(await session.get_history()) == ["r1", "r2"]
    assert ids(await session.get_history("y1")) == ["x1", "x2", "y1"]


async def test_concurrent_appends_lose_nothing(
    session_store: DirectSessionStore,
) -> None:
    """Thirty through two objects are one path."""
    one, two = Session.create(session_store), Session.create(session_store)
    await append_chain(one, 1)

    await asyncio.gather(
        *((one if n % 2 else two).append_message(user(f"x{n}")) for n in range(30))
    )

    history = ids(await one.get_history())
    assert history[0] == "m0"
    assert sorted(history[1:]) == sorted(f"x{n}" for n in range(30))


@pytest.mark.parametrize(
    ("floor", "count"), [(float("inf"), 3), (float("nan"), 1), (-1, 1), (2.9, 2)]
)
async def test_a_window_s_floor_may_be_any_number(
    session_store: DirectSessionStore, floor: float, count: int
) -> None:
    """Fractions are cut, what is no count of messages is one, and all is all."""
    session = Session.create(session_store)
    for number in range(3):
        await session.append_message(user(f"m{number}", "x"))

    recent = await session.get_recent_history(1, floor)
    assert len(recent.messages) == count
