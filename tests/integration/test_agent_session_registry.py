"""An agent's registry of conversations: in its handlers and from services."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from agent_runtime import Agent, AgentHandle, callable
from agent_runtime.errors import (
    InvalidImportError,
    InvalidRequestError,
    MessageTooLargeError,
    UnknownMessageError,
    UnknownSessionError,
)
from agent_runtime.session.message import text_message
from agent_runtime.session.session import Session
from agent_runtime.session.session_manager import SessionManager
from tests.conftest import Serve
from tests.support.chat_agent import Chat


class Desk(Agent):
    """Has named conversations, set up otherwise than its default one."""

    def configure_session(self, session: Session) -> Session:
        """Give the default conversation a diary."""
        return session.with_context("diary")

    def configure_sessions(self, manager: SessionManager) -> SessionManager:
        """Give the others notes, and a view of all."""
        return manager.with_context("notes").with_searchable_history("history")

    @callable()
    async def open(self, name: str, text: str) -> str:
        """Register a conversation and say something in it."""
        record = await self.sessions.create(name)
        await self.get_session(record.id).append_message(text_message("user", text, id="m0"))
        return record.id

    @callable()
    async def is_same(self, session_id: str) -> bool:
        """Tell whether there is one object for a session, whichever way it is asked for."""
        return self.get_session(session_id) is self.sessions.get_session(session_id)


@pytest.fixture(params=[True, False], ids=["storage", "temporal"])
async def desk(serve: Serve, request: pytest.FixtureRequest) -> AsyncIterator[AgentHandle]:
    """A new agent, reached with the storage and without."""
    async with serve(Desk, has_storage=request.param) as served:
        yield served.client.agent("Desk", uuid4().hex[:12])


async def lines_of(agent: AgentHandle, session_id: str) -> list[str]:
    """Return a session's export."""
    return [line async for line in agent.sessions().export(session_id)]


async def test_a_handler_s_sessions_are_in_the_registry_of_services(desk: AgentHandle) -> None:
    """What the agent registers is listed, found and searched from outside."""
    session_id = await desk.call("open", "first", "tea with milk")
    await desk.call("open", "second", "coffee")
    await desk.session().append_message(text_message("user", "unregistered tea", id="m0"))
    sessions = desk.sessions()

    listed = await sessions.list()
    everything = await sessions.list_all()
    hits = await sessions.search("milk tea")

    assert [record.name for record in listed] == ["second", "first"]
    assert [each.session_id for each in everything] == sorted(
        ["", *(record.id for record in listed)]
    )
    assert everything[0].record is None and everything[1].record in listed
    assert [(hit.session_id, hit.id) for hit in hits] == [(session_id, "m0")]
    assert await sessions.search("coffee", session_ids=[session_id]) == []
    assert await sessions.get("no such") is None


async def test_a_session_has_one_object_in_its_agent(desk: AgentHandle) -> None:
    """`get_session` and the manager share it, for the default session too."""
    assert await desk.call("is_same", "")
    assert await desk.call("is_same", await desk.call("open", "first", "hi"))


async def test_the_default_session_and_the_others_are_set_up_each_in_their_way(
    desk: AgentHandle,
) -> None:
    """`configure_session` for the default one, `configure_sessions` for the rest."""
    session_id = await desk.call("open", "first", "hi")

    default = await desk.session().get_context_blocks()
    other = await desk.session(session_id).get_context_blocks()

    assert [block.label for block in default] == ["diary"]
    assert [block.label for block in other] == ["notes", "history"]
    assert other[1].content == "1 session available for search."


async def test_without_a_set_up_of_their_own_all_sessions_are_set_up_alike(serve: Serve) -> None:
    """`configure_session` holds for registered ones too."""
    async with serve(Chat) as served:
        agent = served.client.agent("Chat", uuid4().hex[:12])
        record = await agent.sessions().create("side")

        blocks = await agent.session(record.id).get_context_blocks()

    assert [block.label for block in blocks] == ["memory"]


async def test_an_append_shows_in_the_record(desk: AgentHandle) -> None:
    """The session changed last comes first, whoever appends."""
    first = await desk.sessions().create("first")
    await desk.sessions().create("second")
    await desk.session(first.id).append_message(text_message("user", "x", id="m0"))

    assert [record.name for record in await desk.sessions().list()] == ["first", "second"]


async def test_records_are_made_once_renamed_counted_and_removed(desk: AgentHandle) -> None:
    """A repeat with the key is the same session."""
    sessions = desk.sessions()
    made = await sessions.create("a", model="m", source="s", idempotency_key="k")
    again = await sessions.create("a", model="m", source="s", idempotency_key="k")
    await sessions.rename(made.id, "b")
    await sessions.add_usage(made.id, 10, 5, 0.5)
    changed = await sessions.get(made.id)
    await desk.session(made.id).append_message(text_message("user", "x", id="m0"))
    await sessions.delete(made.id)

    assert made == again
    assert changed is not None
    assert (changed.name, changed.model, changed.source) == ("b", "m", "s")
    assert (changed.input_tokens, changed.output_tokens, changed.estimated_cost) == (10, 5, 0.5)
    assert await sessions.get(made.id) is None
    assert await desk.session(made.id).get_history() == []


async def test_a_session_is_forked_and_split(desk: AgentHandle) -> None:
    """Both make a registered session; what does not exist is refused."""
    session_id = await desk.call("open", "first", "hi")
    sessions = desk.sessions()
    session = desk.session(session_id)
    await session.append_message(text_message("assistant", "hello", id="m1"))

    forked = await sessions.fork(session_id, "m0", "fork")
    split = await sessions.compact_and_split(session_id, "they greeted")
    texts = [
        each["parts"][0]["text"]
        for each in await desk.session(forked.id).get_history()
        + await desk.session(split.id).get_history()
    ]
    ended = await sessions.get(session_id)

    assert forked.parent_session_id == split.parent_session_id == session_id
    assert texts == ["hi", "[Context from previous session]\n\nthey greeted"]
    assert ended is not None and ended.end_reason == "compaction"
    with pytest.raises(UnknownMessageError):
        await sessions.fork(session_id, "no", "x")
    with pytest.raises(UnknownSessionError):
        await sessions.compact_and_split("no", "x")


async def test_an_exported_session_is_imported_into_another(desk: AgentHandle) -> None:
    """Tree, summaries, blocks and record arrive; doing it again changes nothing."""
    session_id = await desk.call("open", "first", "hi")
    session = desk.session(session_id)
    for number in range(1, 5):
        await session.append_message(text_message("user", f"text {number}", id=f"m{number}"))
    await session.append_message(text_message("user", "other", id="m1b"), "m0")
    await session.add_compaction("short", "m1", "m3")
    await session.replace_context_block("notes", "a note")
    lines = await lines_of(desk, session_id)

    imported = await desk.sessions().import_lines(lines, session_id="copy")
    again = await desk.sessions().import_lines(lines, session_id="copy")

    assert imported == again
    assert (imported.session_id, imported.messages, imported.compactions) == ("copy", 6, 1)
    copied = await lines_of(desk, "copy")
    assert copied[1:] == lines[1:]
    assert len(await desk.session("copy").get_history("m4")) == 3
    block = (await desk.session("copy").get_context_blocks())[0]
    assert block.content == "a note"
    record = await desk.sessions().get("copy")
    assert record is not None and record.name == "first"


async def test_an_import_passes_over_what_is_there(desk: AgentHandle) -> None:
    """Messages and blocks that were changed after the first import stay changed."""
    await desk.session("a").append_message(text_message("user", "old", id="m0"))
    await desk.session("a").replace_context_block("notes", "old note")
    lines = await lines_of(desk, "a")
    await desk.sessions().import_lines(lines, session_id="copy")
    copy = desk.session("copy")
    await copy.update_message(text_message("user", "new", id="m0"))
    await copy.replace_context_block("notes", "new note")
    await copy.append_message(text_message("user", "more", id="m1"))

    await desk.sessions().import_lines(lines, session_id="copy")

    texts = [each["parts"][0]["text"] for each in await copy.get_history()]
    notes = (await copy.get_context_blocks())[0]
    assert (texts, notes.content) == (["new", "more"], "new note")


async def test_a_long_session_arrives_in_several_calls(desk: AgentHandle) -> None:
    """More than one call takes goes over whole; a repeat after half of it adds the rest."""
    session = desk.session("long")
    for number in range(5):
        message = text_message("user", f"{number}" * 700_000, id=f"m{number}")
        await session.append_message(message)
    lines = await lines_of(desk, "long")
    half = [*lines[:3], '{"type":"end","messages":2}']

    await desk.sessions().import_lines(half, session_id="copy")
    imported = await desk.sessions().import_lines(lines, session_id="copy")

    assert imported.messages == 5
    assert (await lines_of(desk, "copy"))[1:] == lines[1:]


async def test_what_cannot_be_imported_is_refused(desk: AgentHandle) -> None:
    """A session that holds something else, a cut file, a message beyond what a call takes."""
    await desk.call("open", "first", "hi")
    await desk.session("a").append_message(text_message("user", "x", id="a0"))
    await desk.session("b").append_message(text_message("user", "x", id="b0"))
    lines = await lines_of(desk, "a")
    big = text_message("user", "x" * 1_990_000, id="big")
    too_big = [lines[0], _message_line(big), lines[-1]]

    with pytest.raises(InvalidImportError, match="something else"):
        await desk.sessions().import_lines(lines, session_id="b")
    with pytest.raises(InvalidImportError, match="cut off"):
        await desk.sessions().import_lines(lines[:-1], session_id="c")
    with pytest.raises(MessageTooLargeError):
        await desk.sessions().import_lines(too_big, session_id="c")
    assert [each.session_id for each in await desk.sessions().list_all()].count("c") == 0


async def test_limits_out_of_range_are_refused(desk: AgentHandle) -> None:
    """Before anything is asked."""
    with pytest.raises(InvalidRequestError):
        await desk.sessions().list(limit=0)
    with pytest.raises(InvalidRequestError):
        await desk.sessions().list_all(limit=1001)
    with pytest.raises(InvalidRequestError):
        await desk.session().get_tree(limit=0)


def _message_line(message: dict[str, object]) -> str:
    fields = {"parent_id": None, "created_at": "2025-01-01T00:00:00.000Z", "message": message}
    return json.dumps({"type": "message", **fields})
