"""What a chat program relies on, over a session and as an agent (25.23)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import uuid4

import pytest

from agent_runtime import Agent, callable
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import ContextTooLongError, UnknownMessageError
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, message_text
from agent_runtime.session.row_guard import enforce_row_size_limit
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import HistoryCompacted, MessageUpdated, SessionEvent
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.stored_session import StoredSessionProvider
from tests.conftest import Serve
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import live_gateway, next_frame
from tests.support.session import Summaries, append_chain, assistant, ids, shown, user

HYDRATION_BYTES = 64 * 1024


class Host(Agent):
    """A chat program that keeps a view of its conversation, as it would show it.

    Its model reads no conversation of more than four messages. The conversation called "stuck"
    cannot be shortened.
    """

    def __init__(self) -> None:
        self.view: list[Message] = []
        self.is_cut = False
        self.requests = 0
        self.attempts = 0
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self._refreshing = asyncio.Lock()

    async def on_start(self) -> None:
        """Begin with the end of the conversation."""
        recent = await self.session.get_recent_history(HYDRATION_BYTES, 4)
        self.view, self.is_cut = recent.messages, recent.is_truncated

    def configure_session(self, session: Session) -> Session:
        """Summarize all but the last message, and follow the default conversation."""

        async def compact(
            messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
        ) -> CompactResult | None:
            self.attempts += 1
            if session.session_id == "stuck":
                return None
            return CompactResult(messages[0]["id"], messages[-2]["id"], "Summary")

        if session.session_id == "":
            session.on_change(self._follow)
        return session.on_compaction(compact)

    async def _follow(self, event: SessionEvent) -> None:
        async with self._refreshing:
            if isinstance(event, MessageUpdated):
                changed = event.message
                self.view = [changed if each["id"] == changed["id"] else each for each in self.view]
            else:
                self.view = await self.session.get_history()

    @callable()
    def shown(self) -> Json:
        """Return the view and whether it is only the end of the conversation."""
        return {"shown": shown(self.view), "is_cut": self.is_cut}

    @callable()
    async def is_coherent(self) -> bool:
        """Tell whether the view is what is stored."""
        return self.view == await self.session.get_history()

    @callable()
    async def say(self, message_id: str, text: str) -> None:
        """Append a message, and wait for the summary of a conversation that grew too long."""
        self.session.compact_after(60, mode="inline")
        await self.session.append_message(user(message_id, text))

    @callable()
    async def turn(self, message_id: str) -> None:
        """Append a question, think for as long as it takes, and append the answer."""
        await self.session.append_message(user(message_id))
        self.is_asked.set()
        await self.may_answer.wait()
        await self.session.append_message(assistant(f"{message_id}-answer"), message_id)

    @callable()
    async def go_on(self) -> None:
        """Let the turn that was asked for end."""
        await self.is_asked.wait()
        self.may_answer.set()

    @callable()
    async def upsert(self, message_id: str, text: str, parent_id: str) -> None:
        """Replace a message or append it."""
        manager = SessionManager.create(self)
        manager.get_session("").on_change(self._follow)
        await manager.upsert("", user(message_id, text), parent_id)

    @callable()
    async def forget_media(self) -> int:
        """Rewrite every message without its media, in maintenance."""
        history = await self.session.get_history()
        for message in history:
            await self.session.internal_rewrite_message({**message, "parts": []})
        return len(history)

    @callable()
    async def keep_large(self, message_id: str, size: int) -> None:
        """Append a message as large as it may be stored."""
        message = enforce_row_size_limit(user(message_id, "y" * size))
        await self.session.append_message(message)

    @callable()
    async def answer(self, which: str) -> str:
        """Ask the model; shorten the conversation once if it is too long for it."""
        session = self.get_session(which)
        try:
            return self._ask(await session.get_history())
        except ContextTooLongError:
            if await session.compact() is None:
                raise
            return self._ask(await session.get_history())

    @callable()
    def counts(self) -> Json:
        """Return how often the model and the compaction function were asked."""
        return [self.requests, self.attempts]

    def _ask(self, history: list[Message]) -> str:
        self.requests += 1
        if len(history) > 4:
            raise ContextTooLongError(f"{len(history)} messages are too many")
        return f"read {len(history)}"


def _name() -> str:
    return uuid4().hex[:12]


async def turn(session: Session, id: str, text: str = "question") -> None:
    """Store a question and its answer."""
    await session.append_message(user(id, text))
    await session.append_message(assistant(f"{id}-answer"))


async def test_h01_h02_two_turns_and_a_repeated_question(
    session_store: DirectSessionStore,
) -> None:
    """Roles take turns; a question's id is stored once, with its first text."""
    session = Session.create(session_store)
    await turn(session, "q1", "first")
    await turn(session, "q2")
    assert [message["role"] for message in await session.get_history()] == [
        "user",
        "assistant",
    ] * 2

    result = await session.append_message(user("q1", "second"))

    assert result is not None and not result.is_inserted
    assert len(await session.get_history()) == 4
    assert message_text((await session.get_history())[0]) == "first"


async def test_h03_a_view_that_follows_events_is_the_history(
    session_store: DirectSessionStore,
) -> None:
    """Also when an append is followed by a compaction in place of its own event."""
    session = Session.create(session_store)
    view: list[Message] = []

    async def follow(event: SessionEvent) -> None:
        if isinstance(event, HistoryCompacted):
            view[:] = await session.get_history()
        else:
            view.append(event.message)  # type: ignore[union-attr]

    session.on_change(follow).on_compaction(Summaries(("m0", "m2", "Summary"))).compact_after(30)

    await append_chain(session, 5)

    assert view == await session.get_history()
    assert "Summary" in shown(view)


async def test_h04_what_is_returned_is_the_caller_s(session_store: DirectSessionStore) -> None:
    """Changing it changes nothing."""
    session = Session.create(session_store)
    await append_chain(session, 3)

    history = await session.get_history()
    history[0]["parts"].clear()
    history.clear()

    assert ids(await session.get_history()) == ["m0", "m1", "m2"]
    assert (await session.get_history())[0]["parts"] != []


async def test_h06_a_cleared_conversation_begins_anew(session_store: DirectSessionStore) -> None:
    """With a turn of two messages."""
    session = Session.create(session_store)
    await turn(session, "q1")
    await session.clear_messages()
    assert await session.get_history() == []

    await turn(session, "q1")

    assert ids(await session.get_history()) == ["q1", "q1-answer"]


async def test_h07_an_unknown_parent_can_be_refused(session_store: DirectSessionStore) -> None:
    """By a strict store; nothing is stored, and nothing to append is nothing."""
    session = Session(StoredSessionProvider(session_store, has_strict_parents=True))
    with pytest.raises(UnknownMessageError, match="does not exist"):
        await session.append_messages([user("a"), user("b")], "nobody")

    assert await session.append_messages([], "nobody") == []
    assert await session.get_history() == []


async def test_h08_a_branch_of_many_messages(session_store: DirectSessionStore) -> None:
    """Its path is the active one."""
    session = Session.create(session_store)
    await session.append_messages([user("b-A"), user("b-B"), user("b-C")])

    await session.append_messages([user("b-D")], "b-A")

    assert ids(await session.get_history()) == ["b-A", "b-D"]


async def test_h11_a_prompt_needs_no_tools_first(session_store: DirectSessionStore) -> None:
    """What was written is in it, and an empty block shows that it can be written."""
    session = Session.create(session_store).with_context("memory").with_context("notes")
    await session.replace_context_block("memory", "likes tea")

    prompt = await session.freeze_system_prompt()

    assert "MEMORY [writable]" in prompt and "likes tea" in prompt
    assert "NOTES [writable]" in prompt


async def test_h12_a_program_starts_with_the_end_of_a_history(
    session_store: DirectSessionStore,
) -> None:
    """Within a budget, and the whole can still be read; a short one is not cut."""
    session = Session.create(session_store)
    await append_chain(session, 3)
    assert (await session.get_recent_history(64 * 1024, 4)).is_truncated is False
    seeds = [user(f"seed-{index}", "x" * 30_000) for index in range(10)]
    await session.append_messages(seeds, None)

    recent = await session.get_recent_history(64 * 1024, 4)

    assert recent.is_truncated
    assert ids(recent.messages) == ["seed-6", "seed-7", "seed-8", "seed-9"]
    assert recent.total_content_bytes == sum(len(to_json(seed)) for seed in seeds) > 250_000
    assert len(await session.get_history()) == 10


async def test_h03_an_agent_s_view_is_its_history_after_a_summary(serve: Serve) -> None:
    """The append that set the summary off is told of by the summary."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        for index in range(3):
            await agent.call("say", f"m{index}", "x" * 80)

        assert await agent.call("is_coherent")
        assert (await agent.call("shown"))["shown"] == ["Summary", "m2"]


async def test_h05_h08_an_agent_s_view_follows_services(serve: Serve) -> None:
    """Appends and branches of a service are in it, an update of an unknown message is not."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        session = agent.session()
        await session.append_messages([user("b-A"), user("b-B"), user("b-C")])

        assert await session.update_message(user("nobody", "new")) is False
        assert (await agent.call("shown"))["shown"] == ["b-A", "b-B", "b-C"]
        await session.append_messages([user("b-D")], "b-A")

        assert (await agent.call("shown"))["shown"] == ["b-A", "b-D"]
        assert await agent.call("is_coherent")


async def test_h09_an_agent_upserts(serve: Serve) -> None:
    """A message that is there is replaced where it is, whatever parent is named."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        session = agent.session()
        await session.append_message(user("r-A"))
        await agent.call("upsert", "r-B", "first", "r-A")

        await agent.call("upsert", "r-B", "second", "r-A")

        history = await session.get_history()
        assert ids(history) == ["r-A", "r-B"]
        assert message_text(history[1]) == "second"
        assert await agent.call("is_coherent")


async def test_h10_messages_are_added_during_a_turn(serve: Serve) -> None:
    """They are stored at once, the turn ends as it would have, and the view is what is stored."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        session = agent.session()
        running = await agent.start_call("turn", "q")

        async def is_asked() -> None:
            assert ids(await session.get_history()) == ["q"]

        await assert_eventually(is_asked)
        added = [user(f"bulk-{index}") for index in range(3)]
        await session.append_messages(added)
        assert ids(await session.get_history()) == ["q", "bulk-0", "bulk-1", "bulk-2"]
        await agent.call("go_on")
        await running.result()

        assert ids(await session.get_history()) == ["q", "q-answer"]
        assert ids(await session.get_history("bulk-2")) == ["q", "bulk-0", "bulk-1", "bulk-2"]
        assert ids(await session.get_branches("q")) == ["bulk-0", "q-answer"]
        assert await agent.call("is_coherent")


async def test_h12_an_agent_starts_with_the_end_of_its_conversation(serve: Serve) -> None:
    """In a new process; the whole can still be read, and a short one is not cut."""
    queue, long, short = f"hosts-{_name()}", _name(), _name()
    async with serve(Host, task_queue=queue) as served:
        seeds = [user(f"seed-{index}", "x" * 30_000) for index in range(10)]
        await served.client.agent("Host", long).session().append_messages(seeds)
        await served.client.agent("Host", short).session().append_message(user("only"))

    async with serve(Host, task_queue=queue) as served:
        agent = served.client.agent("Host", long)
        assert await agent.call("shown") == {
            "shown": ["seed-6", "seed-7", "seed-8", "seed-9"],
            "is_cut": True,
        }
        assert len(await agent.session().get_history()) == 10
        assert await served.client.agent("Host", short).call("shown") == {
            "shown": ["only"],
            "is_cut": False,
        }


async def test_h13_bulk_rewriting_is_not_told_row_by_row(serve: Serve) -> None:
    """A connected client's next status is that of the append after it."""
    async with live_gateway(serve, Host) as live:
        agent = live.served.client.agent("Host", "h")
        await agent.session().append_messages([user(f"m{index}") for index in range(5)])
        async with live.connect("/agents/host/h") as socket:
            await next_frame(socket, "cf_agent_mcp_servers")

            assert await agent.call("forget_media") == 5
            await agent.session().append_message(user("after"))

            # Five messages without parts, and "hello".
            status = await next_frame(socket, "cf_agent_session")
            assert status["tokenEstimate"] == 5 * 4 + 6
        assert await agent.call("is_coherent")


async def test_h14_an_agent_keeps_what_is_too_large_in_short(serve: Serve) -> None:
    """Through its row guard, which leaves a small message as it is."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        await agent.call("keep_large", "large", 2_000_000)
        await agent.call("keep_large", "small", 5)

        large, small = await agent.session().get_history()
        assert "Text truncated" in message_text(large)
        assert small == user("small", "yyyyy")


async def test_h15_what_cannot_be_shortened_is_not_asked_again(serve: Serve) -> None:
    """A summary that made room leads to one more request, no summary to the error itself."""
    async with serve(Host) as served:
        agent = served.client.agent("Host", _name())
        messages = [user(f"m{index}") for index in range(5)]
        for name in ("", "stuck"):
            await agent.session(name).append_messages(messages)

        assert await agent.call("answer", "") == "read 2"
        assert await agent.call("counts") == [2, 1]
        with pytest.raises(ContextTooLongError, match="5 messages"):
            await agent.call("answer", "stuck")
        assert await agent.call("counts") == [3, 2]
