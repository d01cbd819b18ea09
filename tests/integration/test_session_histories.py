"""Rows that are damaged, the latest leaf, and restarts of a whole session (5.1, 4.2, 28)."""

from __future__ import annotations

from pathlib import Path

from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import session_ref
from agent_runtime.storage.session_protocol import NewMessage, SessionWrites
from tests.support.session import append_chain, chain_message, ids, shown, user

MUCH = 10 * 1024 * 1024


async def chained(store: DirectSessionStore, count: int) -> Session:
    """Return a session of `m0` to `m<count - 1>`."""
    session = Session.create(store)
    await session.append_messages([chain_message(index) for index in range(count)])
    return session


def names(first: int, last: int) -> list[str]:
    """Return `m<first>` to `m<last>`."""
    return [f"m{index}" for index in range(first, last + 1)]


async def append_corrupt(store: DirectSessionStore, id: str) -> None:
    """Store a row that is no JSON, at the tip."""

    async def unit(sessions: SessionWrites) -> Json:
        row = NewMessage(id, "user", '{"id": "broken', 4, "")
        await sessions.messages.append(session_ref(store, ""), [row], None, is_auto_parent=True)

    await store.write("append_message", [id], unit)


async def latest(session: Session) -> str | None:
    """Return the tip's id."""
    found = await session.get_latest_leaf()
    return found["id"] if found is not None else None


async def test_s103_s115_a_corrupt_row_is_left_out(session_store: DirectSessionStore) -> None:
    """Of histories; it counts in sizes and lengths, and messages go on below it."""
    session = await chained(session_store, 3)
    await append_corrupt(session_store, "bad")

    recent = await session.get_recent_history(MUCH)
    assert (recent.is_truncated, ids(recent.messages)) == (False, names(0, 2))
    assert recent.total_content_bytes > 0
    assert await session.get_latest_leaf() is None
    await session.append_message(chain_message(4))
    assert ids(await session.get_history()) == ["m0", "m1", "m2", "m4"]
    assert await session.get_path_length() == 5


async def test_s118_s119_s120_the_tip_follows_appends(
    session_store: DirectSessionStore,
) -> None:
    """Also to a branch; reads do not move it."""
    session = await chained(session_store, 20)
    assert [await latest(session) for _ in range(5)] == ["m19"] * 5
    await session.get_history("m3")
    await session.append_messages([user("x0"), user("x1")])
    assert await latest(session) == "x1"

    await session.append_message(user("b"), "m0")

    assert await latest(session) == "b"
    assert ids(await session.get_history()) == ["m0", "b"]


async def test_s228_s229_a_restart_changes_nothing(tmp_path: Path) -> None:
    """Two owners' conversations go on where they were (28.6)."""
    for owner in ("one", "two"):
        async with await open_session_store(tmp_path, owner=owner) as store:
            session = Session.create(store).with_context("memory").with_cached_prompt()
            await append_chain(session, 20)
            await session.add_compaction(f"of {owner}", "m1", "m17")
            await session.replace_context_block("memory", owner)
            await session.freeze_system_prompt()

    for owner in ("one", "two"):
        async with await open_session_store(tmp_path, owner=owner) as store:
            session = Session.create(store).with_context("memory").with_cached_prompt()
            assert await latest(session) == "m19"
            assert owner in await session.freeze_system_prompt()
            await session.append_message(user(f"after-{owner}"))
            assert ids(await session.get_branches("m19")) == [f"after-{owner}"]
            expected = ["m0", f"of {owner}", "m18", "m19", f"after-{owner}"]
            assert shown(await session.get_history()) == expected
