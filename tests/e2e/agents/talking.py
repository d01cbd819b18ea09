"""Conversations whose status clients are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import ModelRequestError
from agent_runtime.http_message import Request
from agent_runtime.json_value import Json
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session import Session
from agent_runtime.session.stored_session import StoredSessionProvider
from tests.e2e.agents.connecting import flag

# Methods have the names that the JavaScript clients call.


class ChatSessionAgent(Agent):
    """Has a conversation that tells its status, and one over a bare message store."""

    @callable()
    async def append(self, which: str, start: int, count: int) -> int:
        """Append messages, one at a time."""
        for number in range(start, start + count):
            await self._pick(which).append_message(_message(number))
        return count

    @callable()
    async def historyLength(self, which: str) -> int:
        """Return how many messages there are."""
        return len(await self._pick(which).get_history())

    def _pick(self, which: str) -> Session:
        if which == "loud":
            return self.get_session("loud")
        return Session(StoredSessionProvider(self.session_store))


class SummaryAgent(Agent):
    """Has conversations that are summarized above 60 tokens, which is three long messages.

    A conversation is called `<outcome>-<mode>`: what becomes of its compaction, and whether appends
    wait for it.
    """

    initial_state = {"count": 0}

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def configure_session(self, session: Session) -> Session:
        """Let the conversation's id say what becomes of it."""
        outcome, _, mode = session.session_id.partition("-")

        async def compact(
            messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
        ) -> CompactResult | None:
            if outcome == "failing":
                raise ModelRequestError("model down")
            if outcome == "idle":
                return None
            if outcome == "lost":
                return CompactResult("nobody", messages[-1]["id"], "in short")
            return CompactResult(messages[0]["id"], messages[-1]["id"], "in short")

        session.on_compaction(compact).on_compaction_error(self.errors.append)
        return session.compact_after(60, mode="inline" if mode == "inline" else "background")

    def should_connection_be_readonly(self, connection: Connection, request: Request) -> bool:
        """Ask the query."""
        return flag(request, "readonly") == "true"

    def should_send_protocol_messages(self, connection: Connection, request: Request) -> bool:
        """Ask the query."""
        return flag(request, "protocol") != "false"

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Greet who asks for it."""
        if flag(request, "greet") == "true":
            await self.get_session("").append_message(text_message("assistant", "hi", id="hi"))

    @callable()
    async def append(self, which: str, *ids: str) -> None:
        """Append messages of 24 tokens, one at a time."""
        for message_id in ids:
            await self.get_session(which).append_message(_long(message_id))

    @callable()
    async def appendAll(self, which: str, *ids: str) -> None:
        """Append messages together."""
        await self.get_session(which).append_messages([_long(message_id) for message_id in ids])

    @callable()
    async def change(self, which: str, message_id: str) -> None:
        """Update a message."""
        await self.get_session(which).update_message(text_message("user", "new", id=message_id))

    @callable()
    async def drop(self, which: str, message_id: str) -> None:
        """Delete a message."""
        await self.get_session(which).delete_messages([message_id])

    @callable()
    async def clear(self, which: str) -> None:
        """Remove all."""
        await self.get_session(which).clear_messages()

    @callable()
    async def compact(self, which: str) -> bool:
        """Summarize now; tells whether that was done."""
        return await self.get_session(which).compact() is not None

    @callable()
    def countErrors(self) -> int:
        """Return how many errors the handler of compaction errors was told of."""
        return len(self.errors)

    @callable()
    async def keepBusy(self, which: str, message_id: str) -> None:
        """Do all that tells clients nothing."""
        session = self.get_session(which)
        await session.add_compaction("by hand", message_id, message_id)
        await session.add_context("memory")
        await session.append_context_block("memory", "likes tea")
        await session.freeze_system_prompt()
        await session.refresh_system_prompt()
        await session.internal_rewrite_message(text_message("user", "rewritten", id=message_id))

    @callable()
    async def count(self, *ids: str) -> None:
        """Set the state before and after each append."""
        for message_id in ids:
            await self._add_one()
            await self.session.append_message(text_message("user", "hi", id=message_id))
        await self._add_one()

    async def _add_one(self) -> None:
        await self.set_state({"count": self.state["count"] + 1})


def _message(number: int) -> Message:
    text = f"message number {number}: " + "lorem ipsum dolor sit amet " * 4
    return text_message("assistant" if number % 2 else "user", text, id=f"m{number}")


def _long(message_id: str) -> Message:
    return text_message("user", "x" * 80, id=message_id)
