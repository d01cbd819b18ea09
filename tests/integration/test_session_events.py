"""What a session tells connected clients and its observer (10)."""

from __future__ import annotations

import pytest

from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, message_text
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import (
    MessageAppended,
    MessagesCleared,
    MessagesDeleted,
    MessageUpdated,
    SessionEvent,
)
from agent_runtime.session.session_provider import AUTO
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.testing.context_providers import InMemorySkillProvider
from tests.support.session import (
    Events,
    Owner,
    Summaries,
    append_chain,
    assistant,
    chain_message,
    load_part,
    set_context,
    use,
    user,
    with_parts,
)
from tests.support.session_providers import CapableMessages


async def test_frames_are_these_texts(session_store: DirectSessionStore) -> None:
    """Every field, `null` for no threshold; nothing more (10.1)."""
    owner = Owner(session_store)
    session = Session.create(owner).on_compaction(Summaries(OSError("model down")))

    await session.append_message(user("m0"))
    session.compact_after(1_000_000)
    await session.append_message(user("m1"))
    await session.compact()

    assert owner.texts == [
        '{"type":"cf_agent_session","phase":"idle","tokenEstimate":6,"tokenThreshold":null}',
        '{"type":"cf_agent_session","phase":"idle","tokenEstimate":12,"tokenThreshold":1000000}',
        '{"type":"cf_agent_session","phase":"compacting","tokenEstimate":12,'
        '"tokenThreshold":1000000}',
        '{"type":"cf_agent_session_error","error":"model down"}',
        '{"type":"cf_agent_session","phase":"idle","tokenEstimate":12,"tokenThreshold":1000000}',
    ]


async def test_each_operation_sends_its_frames(session_store: DirectSessionStore) -> None:
    """The table of 10.1, row by row."""
    owner = Owner(session_store)
    session = Session.create(owner).with_context("memory").with_cached_prompt()
    sent: dict[str, list[str]] = {}

    def note(operation: str) -> None:
        sent[operation] = owner.phases
        owner.forget()

    await session.append_message(user("m0"))
    note("append")
    await session.append_message(user("m0", "again"))
    note("append again")
    await session.append_messages([chain_message(index) for index in range(1, 8)])
    note("append all")
    await session.append_messages([])
    note("append none")
    await session.update_message(user("m0", "new"))
    note("update")
    await session.update_message(user("nobody"))
    note("update unknown")
    await session.delete_messages(["m7"])
    note("delete")
    session.on_compaction(Summaries(("m1", "m2", "S"), None, OSError("down")))
    for operation in ("compact", "compact nothing", "compact failing"):
        await session.compact()
        note(operation)
    session.compact_after(10).on_compaction(Summaries(("m1", "m3", "S")))
    await session.append_message(user("n1"))
    note("append, compacted")
    await session.add_compaction("mine", "m4", "m5")
    await set_context(session, "memory", "text")
    await session.freeze_system_prompt()
    await session.refresh_system_prompt()
    await session.internal_rewrite_message(user("m0", "newer"))
    await session.get_history()
    note("silent")
    await session.clear_messages()
    note("clear")

    assert sent == {
        "append": ["idle"],
        "append again": ["idle"],
        "append all": ["idle"],
        "append none": [],
        "update": ["idle"],
        "update unknown": ["idle"],
        "delete": ["idle"],
        "compact": ["compacting", "idle+"],
        "compact nothing": ["compacting", "idle"],
        "compact failing": ["compacting", "error", "idle"],
        "append, compacted": ["idle", "compacting", "idle+"],
        "silent": [],
        "clear": ["idle"],
    }


async def test_automatic_attempts_send_their_frames(session_store: DirectSessionStore) -> None:
    """One that finds nothing, and one that fails."""
    owner = Owner(session_store)
    for result, phases in (
        (None, ["idle", "compacting", "idle"]),
        (OSError("down"), ["idle", "compacting", "error", "idle"]),
    ):
        session = Session.create(owner).on_compaction(Summaries(result)).compact_after(1)
        owner.forget()
        await session.append_message(user(f"m-{result}"))
        assert owner.phases == phases


async def test_only_an_owner_s_clients_are_told(session_store: DirectSessionStore) -> None:
    """Neither a store of one's own nor the direct constructor sends frames."""

    class Loud(CapableMessages):
        def broadcast(self, text: str) -> None:
            raise AssertionError("not an owner")

    owner = Owner(session_store)
    await Session.create(Loud()).append_message(user("m0"))
    await Session(StoredSessionProvider(session_store)).append_message(user("m0"))
    await Session(owner).append_message(user("m1"))  # type: ignore[arg-type]

    assert owner.texts == []


async def test_without_clients_and_threshold_nothing_is_counted(
    session_store: DirectSessionStore,
) -> None:
    """A counter costs nothing when nobody wants to know (9.2)."""
    calls = 0

    def count(given: object) -> float:
        nonlocal calls
        calls += 1
        return 1

    session = Session(StoredSessionProvider(session_store), token_counter=count)
    await append_chain(session, 3)
    await session.delete_messages(["m2"])
    await session.on_compaction(Summaries(("m0", "m1", "S"))).compact()

    assert calls == 0


async def test_broadcasting_may_be_async(session_store: DirectSessionStore) -> None:
    """It is awaited."""
    sent: list[str] = []

    class AsyncOwner:
        session_store: DirectSessionStore

        async def broadcast(self, text: str) -> None:
            sent.append(text)

    owner = AsyncOwner()
    owner.session_store = session_store
    await Session.create(owner).append_message(user("m0"))

    assert len(sent) == 1


async def test_a_broadcast_that_fails_fails_no_write(
    session_store: DirectSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Every operation ends as without it, compaction too; it is logged."""

    class Unreachable(Owner):
        def broadcast(self, text: str) -> None:
            raise ConnectionError("nobody there")

    session = Session.create(Unreachable(session_store))
    session.on_compaction(Summaries(("m0", "m1", "S")))

    await append_chain(session, 3)
    assert await session.update_message(user("m0", "new")) is True
    assert await session.compact() is not None
    await session.delete_messages(["m2"])
    await session.clear_messages()

    assert await session.get_history() == []
    assert "a session's frame could not be sent" in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_observer_is_told_of_each_change(
    session_store: DirectSessionStore, is_async: bool
) -> None:
    """With what the caller gave; an omitted parent is not None (10.2)."""
    events = Events()

    async def listen(event: SessionEvent) -> None:
        events(event)

    session = Session.create(session_store).on_change(listen if is_async else events)

    await session.append_message(user("m0"))
    await session.append_message(user("m0", "again"))
    await session.append_message(user("root"), None)
    await session.append_message(user("child"), "m0")
    await session.append_messages([user("a"), user("b")], "m0")
    await session.update_message(user("m0", "new"))
    await session.update_message(user("nobody"))
    await session.delete_messages(["root", "nobody"])
    await session.clear_messages()

    assert events.seen == [
        MessageAppended(user("m0"), True, AUTO),
        MessageAppended(user("m0", "again"), False, AUTO),
        MessageAppended(user("root"), True, None),
        MessageAppended(user("child"), True, "m0"),
        MessageAppended(user("a"), True, "m0"),
        MessageAppended(user("b"), True, "a"),
        MessageUpdated(user("m0", "new")),
        MessageUpdated(user("nobody")),
        MessagesDeleted(("root", "nobody")),
        MessagesCleared(),
    ]


async def test_the_observer_finds_what_it_is_told_of(session_store: DirectSessionStore) -> None:
    """Storage and frames come first."""
    owner = Owner(session_store)
    found: list[tuple[Message | None, int]] = []
    session = Session.create(owner)

    async def look(event: SessionEvent) -> None:
        found.append((await session.get_message("m0"), len(owner.texts)))

    await session.on_change(look).append_message(user("m0"))

    assert found == [(user("m0"), 1)]


async def test_an_observer_that_raises_fails_no_write(
    session_store: DirectSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The write is not to be repeated; it is logged (F29b)."""

    def listen(event: SessionEvent) -> None:
        raise ValueError("observer")

    session = Session.create(session_store).on_change(listen)
    session.on_compaction(Summaries(("m0", "m1", "S")))

    await append_chain(session, 3)
    await session.update_message(user("m0", "new"))
    assert await session.compact() is not None
    await session.delete_messages(["m2"])
    await session.clear_messages()

    assert caplog.text.count("the session's listener raised") == 7


async def test_the_observer_may_use_the_session(session_store: DirectSessionStore) -> None:
    """Even to compact or append again."""
    session = Session.create(session_store).on_compaction(Summaries(("m0", "m1", "S"), None))

    async def listen(event: SessionEvent) -> None:
        if type(event).__name__ == "HistoryCompacted":
            await session.append_message(assistant("after"))
            await session.compact()

    await append_chain(session.on_change(listen), 3)
    await session.compact()

    assert (await session.get_latest_leaf() or {})["id"] == "after"


async def test_s081_a_maintenance_rewrite_sends_no_frame(
    session_store: DirectSessionStore,
) -> None:
    """An update does; both are told to the observer (10.3)."""
    owner, events = Owner(session_store), Events()
    session = Session.create(owner).on_change(events)
    session.compact_after(1).on_compaction(function := Summaries(None))
    await session.append_message(user("m0"))
    owner.forget()
    events.seen.clear()

    await session.update_message(user("m0", "one"))
    assert len(owner.texts) >= 1
    assert events.kinds == ["MessageUpdated"]
    owner.forget()
    calls = len(function.seen)

    assert await session.internal_rewrite_message(user("m0", "two")) is True
    assert owner.texts == []
    assert events.kinds == ["MessageUpdated"] * 2
    assert len(function.seen) == calls
    stored = await session.get_message("m0")
    assert stored is not None and message_text(stored) == "two"


async def test_unloading_a_skill_is_an_update(session_store: DirectSessionStore) -> None:
    """Clients and observer learn that the message has changed (15.3)."""
    owner, events = Owner(session_store), Events()
    session = Session.create(owner).on_change(events)
    session.with_context("skills", provider=InMemorySkillProvider({"pirate": ("Arr.", None)}))
    await session.append_message(with_parts("a1", load_part("pirate", "Arr.")))
    owner.forget()
    events.seen.clear()

    # The load was not made by this object: the history tells it to another one.
    session = Session.create(owner).on_change(events)
    session.with_context("skills", provider=InMemorySkillProvider({"pirate": ("Arr.", None)}))
    await use(session, "unload_context", label="skills", key="pirate")

    assert owner.phases == ["idle"]
    [event] = events.seen
    assert isinstance(event, MessageUpdated)
    assert event.message == await session.get_message("a1")
    assert event.message["parts"][0]["output"] == "[skill unloaded: pirate]"
