"""What services ask of an agent's conversations, as its handler runs it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from agent_runtime import Agent
from agent_runtime.errors import InvalidRequestError, NotSerializableError
from agent_runtime.handlers.handler_journal import run_within
from agent_runtime.handlers.invocation import Invocation
from agent_runtime.handlers.session_call import run_session_call
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.registry import AgentRegistry
from agent_runtime.session.session import Session
from agent_runtime.storage.sqlite import SqliteStorage

REF = AgentRef("Board", "b")


class _Notes:
    def get(self) -> str:
        return "half a character: \ud83d"

    def set(self, content: str) -> None:
        raise ValueError("the board is full")


class Board(Agent):
    """Has a block of its own making."""

    def configure_session(self, session: Session) -> Session:
        """Give it the block."""
        return session.with_context("notes", provider=_Notes())


Ask = Callable[..., Awaitable[Json]]


@pytest.fixture
async def ask(storage: SqliteStorage) -> AsyncIterator[Ask]:
    """Ask something of the agent's default conversation."""

    async def ask_agent(method: str, *args: Json) -> Json:
        host = AgentHost(storage, AgentRegistry([Board]), on_inbox=lambda ref: None)
        async with host.using(REF) as agent:
            invocation = Invocation(host, agent, await host.agent_id(REF), "call-1")

            async def code() -> Any:
                return await run_session_call(agent, method, "", [*args])

            return await run_within(invocation, code)

    yield ask_agent


async def test_what_cannot_be_sent_is_an_error(ask: Ask) -> None:
    """The handler ends with it, instead of being repeated for ever."""
    with pytest.raises(NotSerializableError, match="the result of get_context_blocks"):
        await ask("get_context_blocks")


async def test_what_an_agents_own_code_raises_comes_through(ask: Ask) -> None:
    """It is not taken for a mistake of who asked."""
    with pytest.raises(ValueError, match="the board is full"):
        await ask("replace_context_block", "notes", "more")


@pytest.mark.parametrize("method", ["update_message", "add_usage"])
@pytest.mark.parametrize("args", [[], [1, 2, 3, 4, 5]])
async def test_too_many_or_too_few_arguments_are_refused(
    ask: Ask, method: str, args: list[Json]
) -> None:
    """The error names the method."""
    with pytest.raises(InvalidRequestError, match=f"{method}: "):
        await ask(method, *args)
