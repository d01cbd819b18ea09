"""An agent's conversations: in its handlers, from services, with and without the storage."""

from __future__ import annotations

from uuid import uuid4

import pytest

from agent_runtime import Agent
from agent_runtime.errors import (
    ContextBlockError,
    InvalidMessageError,
    InvalidRequestError,
    InvalidSearchError,
    NotSerializableError,
    UnknownMethodError,
)
from agent_runtime.session.message import text_message
from agent_runtime.session.session_provider import AppendResult
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.eventually import assert_eventually


class Plain(Agent):
    """Has a conversation and nothing more."""


def _name() -> str:
    return uuid4().hex[:12]


@pytest.mark.parametrize("has_storage", [True, False])
async def test_a_service_sees_what_an_agent_says_and_the_agent_what_a_service_says(
    serve: Serve, has_storage: bool
) -> None:
    """Handlers and handles share one conversation, whichever way the client reads."""
    async with serve(Chat, has_storage=has_storage) as served:
        agent = served.client.agent("Chat", _name())
        session = agent.session()

        assert await agent.call("say", "hello") == 1
        result = await session.append_message(text_message("assistant", "hi", id="a1"))
        assert await agent.call("say", "how are you") == 3

        assert result == AppendResult(True, "m0")
        assert [each["id"] for each in await session.get_history()] == ["m0", "a1", "m2"]
        assert (await session.get_latest_leaf() or {})["id"] == "m2"
        assert [each["id"] for each in await session.get_branches("m0")] == ["a1"]
        assert await session.get_path_length() == 3
        assert [hit.id for hit in await session.search("hello")] == ["m0"]
        assert [row.id for row in await session.get_history_row_stats()] == ["m0", "a1", "m2"]
        assert not (await session.get_recent_history(10_000)).is_truncated
        page = await session.get_history_page(0)
        assert ([each["id"] for each in page.messages], page.earlier_leaf_id) == (["m2"], "a1")
        page = await session.get_history_page(10_000, leaf_id=page.earlier_leaf_id)
        assert ([each["id"] for each in page.messages], page.earlier_leaf_id) == (
            ["m0", "a1"],
            None,
        )


async def test_a_service_gets_the_blocks_prompt_and_tools_that_the_agent_has_set_up(
    serve: Serve,
) -> None:
    """Blocks, prompt and tools are the agent's; what one writes the other reads."""
    async with serve(Chat) as served:
        agent = served.client.agent("Chat", _name())
        session = agent.session()

        frozen = await session.freeze_system_prompt()
        assert "MEMORY (Facts) [0% — 0/1100 tokens] [writable]" in frozen
        assert [tool["name"] for tool in await session.list_tools()] == ["set_context"]
        answer = await session.run_tool("set_context", {"label": "memory", "content": "tea"})
        assert answer.startswith("Written to memory")
        block = await session.append_context_block("memory", "no milk")
        assert block.content == "tea\nno milk"
        assert (
            await agent.call("remember", "coffee") == "Written to memory. Usage: 0% (2/1100 tokens)"
        )
        assert await session.freeze_system_prompt() == frozen
        assert "coffee" in await session.refresh_system_prompt()
        with pytest.raises(ContextBlockError, match="readonly"):
            await session.replace_context_block("soul", "x")


async def test_a_service_s_appends_are_summarized_as_the_agent_has_set_up(serve: Serve) -> None:
    """The threshold of the agent's class holds for whoever appends."""
    async with serve(Chat) as served:
        session = served.client.agent("Chat", _name()).session("side")
        for number in range(6):
            await session.append_message(text_message("user", "x" * 200, id=f"m{number}"))

        async def is_summarized() -> None:
            # What was appended while the job ran is left to the next append's.
            assert await session.estimate_tokens() < 6 * 54
            newest = (await session.get_compactions())[-1]
            history = await session.get_history()
            assert [each["id"] for each in history][:2] == ["m0", f"compaction_{newest.id}"]
            assert history[1]["parts"][0]["text"] == "what was said"

        await assert_eventually(is_summarized)
        assert await session.get_path_length() == 6


async def test_an_append_with_the_same_key_is_the_same_append(serve: Serve) -> None:
    """Repeating a call with its key returns the first result and changes nothing."""
    async with serve(Chat) as served:
        session = served.client.agent("Chat", _name()).session()
        message = text_message("user", "once", id="m0")
        first = await session.append_message(message, idempotency_key="k")
        again = await session.append_message(message, idempotency_key="k")

        assert first == again == AppendResult(True, None)
        assert await session.get_path_length() == 1


async def test_bad_input_from_a_service_is_refused_at_once(serve: Serve) -> None:
    """A message without parts, a reserved id, a limit out of range: typed errors."""
    async with serve(Chat) as served:
        agent = served.client.agent("Chat", _name())
        session = agent.session()
        with pytest.raises(InvalidMessageError):
            await session.append_message({"id": "m", "role": "user"})
        with pytest.raises(InvalidMessageError):
            await session.append_message(text_message("user", "x", id="compaction_1"))
        with pytest.raises(InvalidSearchError):
            await session.search("x", limit=0)
        for leaf_id in (5, "\ud83d", "x" * 2001):
            with pytest.raises((InvalidRequestError, NotSerializableError)):
                await session.compact(leaf_id)  # type: ignore[arg-type]
        with pytest.raises(UnknownMethodError):
            await (await agent.start_call("drop_tables", "", event="session")).result()
        assert await session.get_history() == []


async def test_a_long_history_is_read_in_pages_without_the_storage(serve: Serve) -> None:
    """More than a query can carry arrives whole and in order."""
    async with serve(Plain, has_storage=False) as served:
        session = served.client.agent("Plain", _name()).session("pages")
        big = [text_message("user", str(number) * 700_000, id=f"m{number}") for number in range(5)]
        for message in big:
            await session.append_message(message)
        await session.add_compaction("short", "m0", "m0")

        history = await session.get_history()
        assert history[0]["parts"] == [{"type": "text", "text": "short"}]
        assert history[1:] == big[1:]
        assert await session.get_message("m0") == big[0]
