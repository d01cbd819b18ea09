"""The registry of sessions and what concerns several of them (sessions 19, cases 55 to 68)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from pathlib import Path

import pytest

from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import (
    IdempotencyConflictError,
    InvalidRequestError,
    InvalidSearchError,
    SessionSetupError,
)
from agent_runtime.identity import compaction_job_prefix
from agent_runtime.json_value import Json
from agent_runtime.session import session_compactor
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import (
    MessageAppended,
    MessagesCleared,
    MessageUpdated,
    SessionEvent,
)
from agent_runtime.session.session_manager import CACHED_SESSIONS, SessionManager
from agent_runtime.session.session_store import session_ref
from agent_runtime.session.static_context import StaticContextProvider
from agent_runtime.session.stored_context import StoredPromptStore, StoredSearchProvider
from agent_runtime.storage.session_protocol import SessionRef, SessionWrites
from agent_runtime.storage.session_registry import SessionRegistry
from agent_runtime.storage.sqlite import FILE_NAME
from agent_runtime.testing.context_providers import InMemoryContextProvider, InMemoryPromptStore
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, ids, open_databases, open_stores, texts, u


@pytest.fixture(params=ENGINES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresDatabases
) -> AsyncIterator[DirectSessionStore]:
    """A fresh session store of either engine."""
    async with open_stores(request.param, tmp_path / "sessions", postgres, "default") as [opened]:
        yield opened


@pytest.fixture
def manager(store: DirectSessionStore) -> SessionManager:
    """A manager of sessions with instructions, a memory and a cached prompt."""
    return (
        SessionManager.create(store)
        .with_context("soul", provider=StaticContextProvider("You are helpful."))
        .with_context("memory", description="Facts", max_tokens=1100)
        .with_cached_prompt()
    )


async def test_s055_sessions_of_one_store_are_apart(manager: SessionManager) -> None:
    """Each has its own messages."""
    await manager.append_all("chat-a", [u("a1"), u("a2")])
    await manager.append("chat-b", u("b1"))

    assert ids(await manager.get_history("chat-a")) == ["a1", "a2"]
    assert ids(await manager.get_history("chat-b")) == ["b1"]


async def test_s056_a_compaction_concerns_its_session_only(manager: SessionManager) -> None:
    """The other one shows its messages as they are."""
    await manager.append_all("compact-a", [u(f"ca-{index}") for index in range(5)])
    await manager.append_all("compact-b", [u("cb-0"), u("cb-1")])

    await manager.add_compaction("compact-a", "Summary", "ca-1", "ca-3")

    assert texts(await manager.get_history("compact-a")) == [
        "ca-0 message",
        "Summary",
        "ca-4 message",
    ]
    assert ids(await manager.get_history("compact-b")) == ["cb-0", "cb-1"]
    assert await manager.get_compactions("compact-b") == []
    assert await manager.get_message_count("compact-a") == 5


async def test_s057_a_frozen_prompt_outlives_the_manager(
    manager: SessionManager, store: DirectSessionStore
) -> None:
    """Another manager over the store gives the same one."""
    session = manager.get_session("prompt-persist")
    first = await session.freeze_system_prompt()
    again = (
        SessionManager.create(store)
        .with_context("soul", provider=StaticContextProvider("You are helpful."))
        .with_context("memory", description="Facts", max_tokens=1100)
        .with_cached_prompt()
    )

    other = await again.get_session("prompt-persist").freeze_system_prompt()

    assert "SOUL" in first and "You are helpful." in first
    assert [await session.freeze_system_prompt(), other] == [first, first]


async def test_s058_a_written_block_shows_after_a_refresh(manager: SessionManager) -> None:
    """Freezing alone keeps the text."""
    session = manager.get_session("refresh")
    frozen = await session.freeze_system_prompt()
    await session.replace_context_block("memory", "user likes coffee")

    assert await session.freeze_system_prompt() == frozen
    refreshed = await session.refresh_system_prompt()
    assert "user likes coffee" in refreshed
    assert await session.freeze_system_prompt() == refreshed


async def test_s059_clearing_one_session_leaves_the_other(manager: SessionManager) -> None:
    """And both stay usable."""
    await manager.append("clear-a", u("ca"))
    await manager.append("clear-b", u("cb"))

    await manager.clear_messages("clear-a")

    assert await manager.get_history("clear-a") == []
    assert ids(await manager.get_history("clear-b")) == ["cb"]


async def test_s060_a_created_session_is_found_by_its_id(manager: SessionManager) -> None:
    """With the fields it was given and zeros for the rest; an unknown id gives None."""
    record = await manager.create("Test Chat", None, "some-model", "web")

    assert record.id
    assert (record.name, record.model, record.source) == ("Test Chat", "some-model", "web")
    assert (record.input_tokens, record.output_tokens, record.estimated_cost) == (0, 0, 0.0)
    assert record.parent_session_id is None and record.end_reason is None
    assert record.created_at == record.updated_at and record.created_at.endswith("Z")
    assert await manager.get(record.id) == record
    assert await manager.get("nope") is None


async def test_s061_the_list_begins_with_what_changed_last(manager: SessionManager) -> None:
    """Records of one millisecond too are in the order of their changes."""
    alpha = await manager.create("Alpha")
    beta = await manager.create("Beta")
    assert [each.name for each in await manager.list()] == ["Beta", "Alpha"]

    await manager.append(alpha.id, u("m"))

    assert [each.id for each in await manager.list()] == [alpha.id, beta.id]
    assert [each.id for each in await manager.list(limit=1, offset=1)] == [beta.id]


async def test_s062_a_deleted_session_is_gone(manager: SessionManager) -> None:
    """Its record and its messages; deleting it again is no error."""
    record = await manager.create("Doomed")
    await manager.append(record.id, u("m"))

    await manager.delete(record.id)
    await manager.delete(record.id)

    assert await manager.get(record.id) is None
    assert await manager.get_history(record.id) == []


async def test_s063_a_session_is_renamed(manager: SessionManager) -> None:
    """An unknown one is no error and makes none."""
    record = await manager.create("Original")

    await manager.rename(record.id, "Renamed")
    await manager.rename("nope", "Nobody")

    assert [each.name for each in await manager.list()] == ["Renamed"]


async def test_s064_search_finds_messages_of_all_sessions(manager: SessionManager) -> None:
    """And says in which session each is."""
    first, second = await manager.create("one"), await manager.create("two")
    await manager.append(first.id, u("m1", "I love TypeScript"))
    await manager.append(second.id, u("m2", "Python is great"))

    hits = await manager.search("TypeScript")

    assert [(hit.id, hit.content, hit.session_id) for hit in hits] == [
        ("m1", "I love TypeScript", first.id)
    ]
    assert hits[0].created_at


async def test_s065_messages_are_deleted_from_their_session(manager: SessionManager) -> None:
    """The same id in another session is another message."""
    await manager.append_all("one", [u("dm-a1"), u("dm-a2")])
    await manager.append_all("two", [u("dm-b1"), u("dm-a2")])

    await manager.delete_messages("one", ["dm-a2"])

    assert ids(await manager.get_history("one")) == ["dm-a1"]
    assert ids(await manager.get_history("two")) == ["dm-b1", "dm-a2"]


async def test_s067_a_later_compaction_takes_in_the_earlier(manager: SessionManager) -> None:
    """Its range begins where the earlier one began."""
    await manager.append_all("s", [u(f"cm-{index}") for index in range(10)])
    first = await manager.add_compaction("s", "Summary round 1", "cm-1", "cm-7")
    await manager.append_all("s", [u(f"cm-{index}") for index in range(10, 15)])
    await manager.add_compaction("s", "Summary round 2", first.from_message_id, "cm-12")

    assert texts(await manager.get_history("s")) == [
        "cm-0 message",
        "Summary round 2",
        "cm-13 message",
        "cm-14 message",
    ]


async def test_s068_the_managers_tool_searches_all_sessions(manager: SessionManager) -> None:
    """A session's own tools never hold it."""
    record = await manager.create("Ops")
    await manager.append(record.id, u("m", "Remember: deploy to production on Fridays"))
    session = manager.get_session(record.id)

    own, shared = await session.tools(), await manager.tools()

    assert set(own) == {"set_context"}
    assert set(shared) == {"session_search"}
    found = await shared["session_search"].execute({"query": "deploy production"})
    assert found == "[user] Remember: deploy to production on Fridays"
    assert await shared["session_search"].execute({"query": "nothing"}) == "No results found."


async def test_r03_messages_are_appended_below_the_latest(manager: SessionManager) -> None:
    """F02b: without a parent they continue the history, with None they start a root."""
    await manager.append_all("s", [u("x1"), u("x2")])

    assert await manager.append_all("s", [u("y1"), u("y2")]) == "y2"
    assert ids(await manager.get_history("s")) == ["x1", "x2", "y1", "y2"]

    assert await manager.append_all("s", [u("z1"), u("z2")], None) == "z2"
    assert ids(await manager.get_history("s")) == ["z1", "z2"]


async def test_appending_nothing_returns_the_parent(manager: SessionManager) -> None:
    """None if there was none."""
    assert await manager.append_all("s", []) is None
    assert await manager.append_all("s", [], None) is None
    assert await manager.append_all("s", [], "p") == "p"


async def test_append_below_a_message_opens_a_branch(manager: SessionManager) -> None:
    """And returns the new message's id."""
    await manager.append_all("s", [u("q"), u("a1")])

    assert await manager.append("s", u("a2"), "q") == "a2"
    assert ids(await manager.get_history("s")) == ["q", "a2"]
    assert ids(await manager.get_branches("s", "q")) == ["a1", "a2"]
    assert ids(await manager.get_history("s", "a1")) == ["q", "a1"]


async def test_h09_upsert_appends_first_and_then_replaces(manager: SessionManager) -> None:
    """It never moves a message, whatever the parent; each time one event is told."""
    events: list[SessionEvent] = []
    manager.on_change(lambda session_id, event: events.append(event))
    await manager.append_all("s", [u("q"), u("a")])
    events.clear()

    assert await manager.upsert("s", u("b"), "q") == "b"
    assert await manager.upsert("s", u("b", "new text"), "a") == "b"

    assert texts(await manager.get_history("s")) == ["q message", "new text"]
    assert [type(event) for event in events] == [MessageAppended, MessageUpdated]


@pytest.mark.parametrize("change", ["append", "upsert", "append_all", "delete", "clear"])
async def test_a_change_of_messages_is_noted_in_the_record(
    manager: SessionManager, change: str
) -> None:
    """The session comes first in the list; reading and summarizing do not do that."""
    record = await manager.create("changed")
    await manager.append_all(record.id, [u("m1"), u("m2")])
    other = await manager.create("other")
    await manager.get_history(record.id)
    await manager.add_compaction(record.id, "Summary", "m1", "m2")
    assert (await manager.list())[0].id == other.id

    match change:
        case "append":
            await manager.append(record.id, u("m3"))
        case "upsert":
            await manager.upsert(record.id, u("m2", "new"))
        case "append_all":
            await manager.append_all(record.id, [u("m3")])
        case "delete":
            await manager.delete_messages(record.id, ["m2"])
        case "clear":
            await manager.clear_messages(record.id)

    assert (await manager.list())[0].id == record.id


async def test_the_record_is_noted_with_the_message_or_not_at_all(
    manager: SessionManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails at the record changes the messages neither."""
    record = await manager.create("changed")
    await manager.append(record.id, u("m1"))
    other = await manager.create("other")

    async def refuse(registry: SessionRegistry, ref: SessionRef) -> None:
        raise OSError("refused")

    monkeypatch.setattr(SessionRegistry, "touch_record", refuse)
    with pytest.raises(OSError, match="refused"):
        await manager.append(record.id, u("m2"))

    assert ids(await manager.get_history(record.id)) == ["m1"]
    assert (await manager.list())[0].id == other.id


async def test_usage_adds_up(manager: SessionManager) -> None:
    """In three counters; an unknown session is no error."""
    record = await manager.create("Used")

    await manager.add_usage(record.id, 100, 20, 0.5)
    await manager.add_usage(record.id, 1, 2, 0.25)
    await manager.add_usage("nope", 1, 1, 1.0)

    used = await manager.get(record.id)
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.estimated_cost) == (101, 22, 0.75)
    assert used.updated_at >= used.created_at


async def test_usage_must_be_finite(manager: SessionManager) -> None:
    """A cost that is no number would spoil the sum for ever."""
    record = await manager.create("Used")

    with pytest.raises(InvalidRequestError):
        await manager.add_usage(record.id, 1, 1, float("nan"))

    assert await manager.get(record.id) == record


async def test_an_operation_key_creates_once(
    manager: SessionManager, store: DirectSessionStore
) -> None:
    """Also by another manager; with other arguments the key is refused."""
    first = await manager.create("Once", operation_key="k1")

    assert await SessionManager.create(store).create("Once", operation_key="k1") == first
    assert len(await manager.list()) == 1
    with pytest.raises(IdempotencyConflictError):
        await manager.create("Other", operation_key="k1")
    with pytest.raises(IdempotencyConflictError):
        await manager.add_usage(first.id, 1, 1, operation_key="k1")


async def test_an_operation_key_adds_usage_once(manager: SessionManager) -> None:
    """However often and at once it is repeated."""
    record = await manager.create("Used")

    await asyncio.gather(
        *(manager.add_usage(record.id, 10, 1, 0.1, operation_key="turn-1") for _ in range(10))
    )
    await manager.add_usage(record.id, 10, 1, 0.1, operation_key="turn-2")

    used = await manager.get(record.id)
    assert used is not None and used.input_tokens == 20


async def test_concurrent_usage_is_never_lost(store: DirectSessionStore) -> None:
    """From several managers at once."""
    managers = [SessionManager.create(store) for _ in range(4)]
    record = await managers[0].create("Used")

    await asyncio.gather(
        *(managers[n % 4].add_usage(record.id, 1, 2, 0.5) for n in range(40)),
        *(managers[n % 4].append(record.id, u(f"m{n}")) for n in range(40)),
    )

    used = await managers[0].get(record.id)
    assert used is not None
    assert (used.input_tokens, used.output_tokens, used.estimated_cost) == (40, 80, 20.0)
    assert await managers[0].get_message_count(record.id) == 40


async def test_search_is_for_registered_sessions_only(manager: SessionManager) -> None:
    """F34: others are never found, nor deleted ones."""
    record, deleted = await manager.create("mine"), await manager.create("deleted")
    for session_id in (record.id, deleted.id, "unregistered"):
        await manager.append(session_id, u("m", "the password is swordfish"))
    await manager.delete(deleted.id)
    await manager.append(deleted.id, u("m", "the password is swordfish"))

    assert [hit.session_id for hit in await manager.search("swordfish")] == [record.id]
    assert await manager.search("swordfish", session_ids=["unregistered", deleted.id]) == []


async def test_search_can_be_narrowed(manager: SessionManager) -> None:
    """To some of the registered sessions, and to a number of hits."""
    records = [await manager.create(f"s{index}") for index in range(3)]
    for record in records:
        await manager.append(record.id, u("m", "the same words"))

    some = await manager.search("words same", session_ids=[records[0].id, records[2].id])

    assert {hit.session_id for hit in some} == {records[0].id, records[2].id}
    assert len(await manager.search("words", 2)) == 2
    assert await manager.search("  ") == []
    assert await manager.search("words", session_ids=[]) == []
    for limit in (0, 1001):
        with pytest.raises(InvalidSearchError):
            await manager.search("words", limit)


async def test_r15_an_unknown_message_is_no_ghost_in_a_search(manager: SessionManager) -> None:
    """F13: what was never stored is never found."""
    record = await manager.create("one")
    session = manager.get_session(record.id)

    assert await session.update_message(u("ghost", "boo")) is False
    assert await manager.search("boo") == []


@pytest.mark.parametrize("engine", ENGINES)
async def test_owners_of_one_database_do_not_share_a_registry(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """Neither records nor what is found."""
    async with open_stores(engine, tmp_path, postgres, "anna", "bert") as [anna, bert]:
        record = await SessionManager.create(anna).create("Anna's")
        await SessionManager.create(anna).append(record.id, u("m", "secret"))
        other = SessionManager.create(bert)

        assert await other.list() == []
        assert await other.get(record.id) is None
        assert await other.search("secret") == []


async def test_r06_a_prompt_store_is_never_shared(manager: SessionManager) -> None:
    """F05: session B would get session A's prompt."""
    for store in (InMemoryContextProvider(), InMemoryPromptStore()):
        with pytest.raises(SessionSetupError, match="prompt store"):
            manager.with_cached_prompt(store)  # type: ignore[arg-type]


async def test_r06_each_session_has_its_own_search_entries(store: DirectSessionStore) -> None:
    """F05: also if one provider was given for all; sharing is asked for by name."""
    manager = (
        SessionManager.create(store)
        .with_context("own", provider=StoredSearchProvider(store))
        .with_context("common", provider=StoredSearchProvider(store, shared_as="facts"))
    )
    tools = await manager.get_session("a").tools()
    for label in ("own", "common"):
        answer = await tools["set_context"].execute({"label": label, "content": "alpha beta"})
        assert answer.startswith("Indexed")

    others = await manager.get_session("b").tools()

    found = {
        label: await others["search_context"].execute({"label": label, "query": "alpha"})
        for label in ("own", "common")
    }
    assert found["own"] == "No results found."
    assert "alpha beta" in found["common"]


async def test_providers_may_be_made_for_each_session(store: DirectSessionStore) -> None:
    """Blocks and prompt stores by functions or classes, given the session's id."""
    made: dict[str, InMemoryContextProvider] = {}

    def memory(session_id: str) -> InMemoryContextProvider:
        return made.setdefault(session_id, InMemoryContextProvider(f"memory of {session_id}"))

    manager = (
        SessionManager.create(store)
        .with_context("memory", provider=memory)
        .with_context("motto", provider=StaticContextProvider)
        .with_cached_prompt(lambda session_id: StoredPromptStore(store, session_id=session_id))
    )
    prompt = await manager.get_session("a").freeze_system_prompt()
    other = await manager.get_session("b").freeze_system_prompt()

    assert "memory of a" in prompt and "memory of b" not in prompt
    assert "memory of b" in other
    assert prompt.endswith("\na")
    assert set(made) == {"a", "b"}


async def test_a_provider_given_as_it_is_is_shared(store: DirectSessionStore) -> None:
    """Which is what one object for all means."""
    shared = InMemoryContextProvider("old")
    manager = SessionManager.create(store).with_context("profile", provider=shared)
    first, second = manager.get_session("a"), manager.get_session("b")

    await first.replace_context_block("profile", "new")

    assert "new" in await second.refresh_system_prompt()


async def test_searchable_history_is_the_last_block(store: DirectSessionStore) -> None:
    """It counts the sessions, finds their messages, and cannot be written."""
    manager = (
        SessionManager.create(store)
        .with_searchable_history("history")
        .with_context("soul", provider=StaticContextProvider("You are helpful."))
    )
    session = manager.get_session("s")
    empty = await session.refresh_system_prompt()
    first = await manager.create("one")
    one = await session.refresh_system_prompt()
    second = await manager.create("two")
    two = await session.refresh_system_prompt()
    await manager.append(first.id, u("m1", "deploy on Friday"))
    await manager.append(second.id, u("m2", "never deploy"))
    await manager.append("unregistered", u("m3", "deploy in secret"))
    tools = await session.tools()

    assert empty.index("SOUL") < empty.index("HISTORY (Cross-session conversation history)")
    assert "available" not in empty
    assert "1 session available for search." in one
    assert "2 sessions available for search." in two
    assert set(tools) == {"search_context"}
    asked = {"label": "history", "query": "deploy"}
    found = await tools["search_context"].execute(asked)
    assert set(found.split("\n---\n")) == {"[user] deploy on Friday", "[user] never deploy"}
    none = await tools["search_context"].execute({"label": "history", "query": "secret"})
    assert none == "No results found."


async def test_the_setup_is_refused_at_once(store: DirectSessionStore) -> None:
    """F33, F38: what no session could be made with, or what would come too late."""
    manager = SessionManager.create(store).with_context("memory")
    with pytest.raises(SessionSetupError, match="memory"):
        manager.with_context("memory")
    with pytest.raises(SessionSetupError, match="memory"):
        manager.with_searchable_history("memory")
    manager.with_searchable_history("history")
    with pytest.raises(SessionSetupError, match="history"):
        manager.with_searchable_history("more history")
    with pytest.raises(SessionSetupError, match="history"):
        manager.with_context("history")

    manager.get_session("s")

    with pytest.raises(SessionSetupError, match="with_context"):
        manager.with_context("late")
    with pytest.raises(SessionSetupError, match="with_cached_prompt"):
        manager.with_cached_prompt()


def test_a_manager_needs_an_owner_or_a_store() -> None:
    """A message store of one session is none."""
    with pytest.raises(SessionSetupError, match="str"):
        SessionManager.create("data")  # type: ignore[arg-type]


class _Keep:
    """Summarizes everything but the first and the last message."""

    def __init__(self, tail_token_budget: int = 0) -> None:
        self.tail_token_budget = tail_token_budget
        self.calls = 0

    async def __call__(
        self, messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        self.calls += 1
        return CompactResult(messages[1]["id"], messages[-2]["id"], "Summary")


async def test_sessions_compact_as_the_manager_says(manager: SessionManager) -> None:
    """Also those that were made before it was said."""
    await manager.append_all("early", [u(f"m{index}") for index in range(5)])
    keep = _Keep()
    manager.compact_after(10).on_compaction(keep)

    await manager.append("early", u("m5"))
    await manager.append_all("late", [u(f"m{index}") for index in range(5)])

    assert keep.calls == 2
    assert texts(await manager.get_history("early")) == ["m0 message", "Summary", "m5 message"]
    assert texts(await manager.get_history("late")) == ["m0 message", "Summary", "m4 message"]


async def test_r22_a_tail_above_the_threshold_is_refused(manager: SessionManager) -> None:
    """F19: when it is set up, not at the first session."""
    manager.compact_after(300)
    with pytest.raises(SessionSetupError, match="tail"):
        manager.on_compaction(_Keep(tail_token_budget=400))


async def test_failed_compactions_are_told(manager: SessionManager) -> None:
    """To the manager's handler, for every session."""
    told: list[Exception] = []

    async def fail(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> None:
        raise RuntimeError("no model")

    manager.on_compaction(fail).compact_after(1).on_compaction_error(told.append)
    await manager.append("a", u("m1"))
    await manager.append("b", u("m1"))

    assert [str(error) for error in told] == ["no model", "no model"]


async def test_changes_are_told_with_the_session(manager: SessionManager) -> None:
    """Deleting a session tells that its messages are gone."""
    told: list[tuple[str, type[SessionEvent]]] = []
    manager.on_change(lambda session_id, event: told.append((session_id, type(event))))

    await manager.append("a", u("m1"))
    await manager.append("b", u("m1"))
    await manager.delete("a")

    assert told == [
        ("a", MessageAppended),
        ("b", MessageAppended),
        ("a", MessagesCleared),
    ]


class _Owner:
    """An owner with clients."""

    def __init__(self, store: DirectSessionStore) -> None:
        self.session_store = store
        self.frames: list[str] = []

    def broadcast(self, text: str) -> None:
        """Take a frame."""
        self.frames.append(text)


async def test_an_owners_clients_are_told_once_for_many_messages(
    store: DirectSessionStore,
) -> None:
    """Appending a list sends one status frame, forking none."""
    owner = _Owner(store)
    manager = SessionManager.create(owner)
    record = await manager.create("s")

    await manager.append_all(record.id, [u("m1"), u("m2"), u("m3")])
    assert len(owner.frames) == 1
    await manager.fork(record.id, "m2", "fork")
    assert len(owner.frames) == 1


class _JobOwner(_Owner):
    """An owner that compacts its sessions outside of the code that appends."""

    def __init__(self, store: DirectSessionStore) -> None:
        super().__init__(store)
        self.session_compaction_jobs = self
        self.started: list[str] = []
        self.is_busy = False

    async def start(self, session_id: str) -> bool:
        """Note what is to be compacted."""
        self.started.append(session_id)
        return not self.is_busy

    async def run(self, session_id: str, leaf_id: str | None) -> CompactResult | None:
        """Compact nothing."""
        return None


async def test_an_owners_sessions_are_compacted_as_jobs(store: DirectSessionStore) -> None:
    """Unless the manager says that appends are to wait for it."""
    owner, keep = _JobOwner(store), _Keep()
    manager = SessionManager.create(owner).on_compaction(keep).compact_after(10)

    await manager.append_all("a", [u(f"m{index}") for index in range(5)])
    assert (owner.started, keep.calls) == (["a"], 0)

    manager.compact_after(10, mode="inline")
    await manager.append_all("b", [u(f"m{index}") for index in range(5)])
    assert (owner.started, keep.calls) == (["a"], 1)


async def test_a_job_that_was_not_begun_is_asked_for_again_soon(
    store: DirectSessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is about to end must not keep the next from beginning; each append is not asked."""
    seconds = 100.0
    monkeypatch.setattr(session_compactor, "monotonic", lambda: seconds)
    owner = _JobOwner(store)
    manager = SessionManager.create(owner).on_compaction(_Keep()).compact_after(10)
    asked = []
    for index, (passed, is_busy) in enumerate(
        [(0, True), (0.5, True), (1, False), (20, False), (40, False)]
    ):
        seconds, owner.is_busy = seconds + passed, is_busy
        await manager.append("a", u(f"m{index}", "word " * 20))
        asked.append(len(owner.started))

    assert asked == [1, 1, 2, 2, 3]


async def test_a_session_in_use_is_never_made_twice(manager: SessionManager) -> None:
    """However many others were used meanwhile; unused ones are let go."""
    held = manager.get_session("held")
    for index in range(3 * CACHED_SESSIONS):
        manager.get_session(f"s{index}")
    gc.collect()

    assert manager.get_session("held") is held
    live = [each for each in gc.get_objects() if isinstance(each, Session)]
    mine = [each for each in live if re.fullmatch(r"s\d+", each.session_id)]
    assert len(mine) <= CACHED_SESSIONS


async def test_a_session_that_was_let_go_continues(manager: SessionManager) -> None:
    """Whatever lasts is in the store."""
    session = manager.get_session("first")
    await session.replace_context_block("memory", "likes tea")
    prompt = await session.refresh_system_prompt()
    await session.append_message(u("m1"))
    del session
    for index in range(CACHED_SESSIONS + 1):
        manager.get_session(f"s{index}")
    gc.collect()

    again = manager.get_session("first")

    assert ids(await again.get_history()) == ["m1"]
    assert await again.freeze_system_prompt() == prompt
    block = await again.get_context_block("memory")
    assert block is not None and block.content == "likes tea"


async def test_r30_a_deleted_session_leaves_no_row(tmp_path: Path) -> None:
    """F35: in no table of the database, also not in the search index."""
    async with await open_session_store(tmp_path) as store:
        await _delete_a_full_session(store, tmp_path / FILE_NAME)


async def _delete_a_full_session(store: DirectSessionStore, path: Path) -> None:
    manager = (
        SessionManager.create(store)
        .with_context("memory")
        .with_context("facts", provider=StoredSearchProvider(store))
        .with_cached_prompt()
    )
    await manager.append("kept", u("m", "kept words"))
    before = _row_counts(path)
    record = await manager.create("doomed")
    session = manager.get_session(record.id)
    await manager.append_all(record.id, [u(f"m{index}", "some words") for index in range(4)])
    await manager.append(record.id, u("branch"), "m1")
    await manager.add_compaction(record.id, "Summary", "m0", "m1")
    await session.replace_context_block("memory", "likes tea")
    await (await session.tools())["set_context"].execute({"label": "facts", "content": "alpha"})
    await session.freeze_system_prompt()
    assert _row_counts(path) != before

    await manager.delete(record.id)

    assert _row_counts(path) == before
    assert await store.reads.prompt(session_ref(store, record.id)) is None


def _row_counts(path: Path) -> dict[str, int]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            table: database.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
            for (table,) in tables
            # The index's own tables hold what is not merged yet, not one row per message.
            if not table.startswith(("message_search_", "entry_search_", "sqlite_"))
        }


@pytest.mark.parametrize("engine", ENGINES)
async def test_an_operation_key_counts_in_all_processes(
    engine: str, tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """Storages that write at the same time wait for each other's result."""
    async with open_databases(engine, tmp_path, postgres, 4) as stores:
        managers = [SessionManager.create(store) for store in stores]

        made = await asyncio.gather(
            *(manager.create("Once", operation_key="k") for manager in managers * 3)
        )

        assert len({record.id for record in made}) == 1
        assert await managers[0].list() == [made[0]]


@pytest.mark.parametrize("page", [{"limit": -1}, {"offset": -1}])
async def test_a_list_has_no_negative_page(manager: SessionManager, page: dict[str, int]) -> None:
    """Both engines refuse it alike; a page of none is empty."""
    await manager.create("one")
    with pytest.raises(InvalidRequestError, match="must be 0 or more"):
        await manager.list(**page)
    assert await manager.list(limit=0) == []


async def test_a_deleted_session_leaves_no_part_of_a_dead_compaction(
    manager: SessionManager, store: DirectSessionStore
) -> None:
    """What a job that died had copied of the conversation goes with it."""
    session = await manager.create("one")
    job = f"{compaction_job_prefix(session.id, '')}dead"

    async def begin(sessions: SessionWrites) -> Json:
        await sessions.jobs.put_chunks(store.agent, job, 0, ["a secret"])

    await store.write("test", None, begin)
    await manager.delete(session.id)
    assert await store.reads.count_chunks(store.agent, job, 0) == 0


@pytest.mark.parametrize("name", [None, 5, ["a"]])
async def test_a_name_that_is_no_text_is_refused(manager: SessionManager, name: object) -> None:
    """Nothing is registered, renamed or copied under it."""
    record = await manager.create("one")
    await manager.append(record.id, u("m1"))

    attempts: list[Awaitable[object]] = [
        manager.create(name),  # type: ignore[arg-type]
        manager.rename(record.id, name),  # type: ignore[arg-type]
    ]
    if name is not None:
        attempts.append(manager.fork(record.id, "m1", name))  # type: ignore[arg-type]
        attempts.append(manager.compact_and_split(record.id, "S", name))  # type: ignore[arg-type]
    for attempt in attempts:
        with pytest.raises(InvalidRequestError, match="name is a text"):
            await attempt

    assert [each.name for each in await manager.list()] == ["one"]


async def test_one_text_is_no_list_of_ids(manager: SessionManager) -> None:
    """Its letters are not taken for ids; what should have been written is said."""
    record = await manager.create("one")
    await manager.append(record.id, u("m"))

    with pytest.raises(InvalidRequestError, match=r"write \['m'\]"):
        await manager.delete_messages(record.id, "m")
    with pytest.raises(InvalidRequestError, match="session_ids is a list"):
        await manager.search("m", session_ids=record.id)

    assert ids(await manager.get_history(record.id)) == ["m"]
