"""Arguments of a wrong type, at what services use: typed errors at once, and nothing done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from agent_runtime import Agent, callable
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import InvalidRequestError
from tests.conftest import Serve
from tests.support.session import user

WRONG: dict[str, Callable[[Any], Awaitable[object]]] = {
    "call for a number": lambda a: a.call("note", timeout=5),
    "append none": lambda a: a.session().append_messages(None),
    "append a text": lambda a: a.session().append_messages("m"),
    "append a generator": lambda a: a.session().append_messages(user(i) for i in "ab"),
    "append for a number": lambda a: a.session().append_message(user("a"), timeout=5),
    "delete none": lambda a: a.session().delete_messages(None),
    "tool without arguments": lambda a: a.session().run_tool("set_context", None),
    "tool with a text": lambda a: a.session().run_tool("set_context", "x"),
    "tool without a name": lambda a: a.session().run_tool(["x"], {}),
    "block none": lambda a: a.session().replace_context_block("memory", None),
    "block list": lambda a: a.session().append_context_block(["memory"], "x"),
    "summary of none": lambda a: a.session().add_compaction("s", None, "b"),
    "compact to a number": lambda a: a.session().compact(5, timeout=timedelta(seconds=60)),
    "page of a text": lambda a: a.session().get_history_page("x"),
    "recent of none": lambda a: a.session().get_recent_history(None),
    "tree of none": lambda a: a.session().get_tree(limit=None),
    "history of a text": lambda a: a.state_history(limit="x"),
    "sessions of none": lambda a: a.sessions().list(limit=None),
    "sessions from a text": lambda a: a.sessions().list(offset="x"),
    "session of a number": lambda a: a.sessions().create(5),
    "usage since a text": lambda a: a.sessions().model_usage(since="2026-01-01"),
}


class Noting(Agent):
    """Counts the calls that it got."""

    @callable()
    async def note(self) -> None:
        """Count one."""
        await self.merge_state({"called": True})

    @callable()
    async def compact_to(self, leaf_id: Any) -> None:
        """Compact to what is no id."""
        await self.session.compact(leaf_id)


async def test_wrong_arguments_are_refused_and_nothing_is_done(serve: Serve) -> None:
    """Each is an InvalidRequestError; state, messages and sessions stay as they are."""
    async with serve(Noting) as served:
        agent: AgentHandle = served.client.agent("Noting", "a")
        for what, wrong in WRONG.items():
            with pytest.raises(InvalidRequestError):
                await wrong(agent)
                pytest.fail(what)
        assert not (await agent.get_state()).is_set
        assert await agent.session().get_history() == []
        assert await agent.sessions().list() == []


async def test_a_handler_that_compacts_to_no_id_is_told(serve: Serve) -> None:
    """It does not reach the job, which could not be begun with it and would be tried for ever."""
    async with serve(Noting) as served:
        agent = served.client.agent("Noting", "a")
        with pytest.raises(InvalidRequestError, match="leaf_id is a text, not int"):
            await agent.call("compact_to", 5, timeout=timedelta(seconds=60))
