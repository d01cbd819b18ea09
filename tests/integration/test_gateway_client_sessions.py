"""Conversations through `GatewayClient`: the surface of `SessionHandle`, over HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime import GatewayClient
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.errors import (
    CallTimeoutError,
    ConfigurationError,
    ContextBlockError,
    IdempotencyConflictError,
    InvalidMessageError,
    InvalidRequestError,
    NotSerializableError,
    ReadonlyConnectionError,
    UnavailableError,
    UnknownMessageError,
)
from agent_runtime.gateway.access import Tokens
from agent_runtime.local.temporal_server import free_port
from agent_runtime.session.message import text_message
from agent_runtime.session.session_provider import AppendResult
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.gateway_server import GatewayServer
from tests.support.live_gateway import LiveGateway, live_gateway

READONLY, FULL = "r" * 20, "f" * 20


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of an agent that talks."""
    async with live_gateway(serve, Chat) as started:
        yield started


@pytest.fixture
async def session(live: LiveGateway) -> AsyncIterator[SessionHandle]:
    """The default conversation of a new agent."""
    async with GatewayClient(live.url) as client:
        yield client.agent("Chat", uuid4().hex[:12]).session()


async def test_it_answers_as_a_handle_of_the_agent_does(live: LiveGateway) -> None:
    """Every reading method gives the same through the gateway as with the storage."""
    name = uuid4().hex[:12]
    direct = live.served.client.agent("Chat", name).session("talk")
    async with GatewayClient(live.url) as client:
        session = client.agent("Chat", name).session("talk")
        await session.append_messages(
            [text_message("user", f"word {n}", id=f"m{n}") for n in "012"]
        )
        await session.append_message(text_message("assistant", "other", id="m1b"), "m0")
        await session.add_compaction("short", "m0", "m1")
        readers: list[Callable[[SessionHandle], Awaitable[Any]]] = [
            lambda each: each.get_history(),
            lambda each: each.get_history("m2"),
            lambda each: each.get_message("m0"),
            lambda each: each.get_message("no"),
            lambda each: each.get_latest_leaf(),
            lambda each: each.get_branches("m0"),
            lambda each: each.get_path_length(),
            lambda each: each.get_path_length("m2"),
            lambda each: each.get_recent_history(70, 2.9, leaf_id="m2"),
            lambda each: each.get_recent_history(-1, 1000.5),
            lambda each: each.get_history_row_stats("m2"),
            lambda each: each.get_compactions(),
            lambda each: each.get_tree(limit=3),
            lambda each: each.search("word"),
            lambda each: each.estimate_tokens(),
            lambda each: each.estimate_tokens("m0"),
            lambda each: each.get_context_blocks(),
            lambda each: each.list_tools(),
            lambda each: each.freeze_system_prompt(),
        ]
        for read in readers:
            assert await read(session) == await read(direct)


async def test_it_changes_what_a_handle_changes(session: SessionHandle) -> None:
    """Each of the changing methods, with what it returns."""
    first = await session.append_message(text_message("user", "a", id="m0"))
    again = await session.append_message(text_message("user", "a", id="m0"))
    root = await session.append_message(text_message("user", "b", id="m1"), None)
    updated = await session.update_message(text_message("user", "changed", id="m1"))
    unknown = await session.update_message(text_message("user", "x", id="no"))
    await session.delete_messages(["m0", "no"])
    await session.delete_messages([])
    left = [each["parts"][0]["text"] for each in await session.get_history()]
    await session.clear_messages()

    assert (first, again) == (AppendResult(True, None), AppendResult(False, None))
    assert root == AppendResult(True, None)
    assert (updated, unknown, left) == (True, False, ["changed"])
    assert await session.get_history() == []
    assert await session.compact() is None
    assert (await session.replace_context_block("memory", "tea")).content == "tea"
    assert (await session.append_context_block("memory", "milk")).content == "tea\nmilk"
    arguments = {"label": "memory", "content": "water"}
    assert (await session.run_tool("set_context", arguments)).startswith("Written to memory")
    assert "water" in await session.refresh_system_prompt()


@pytest.mark.parametrize("identity", ["", ".", "..", "a/b?c#d", "ü", "%41", "~default", " "])
async def test_any_message_id_can_be_reached(session: SessionHandle, identity: str) -> None:
    """Whatever a path makes of it."""
    message = text_message("user", "x", id=identity)
    await session.append_message(message)
    changed = text_message("user", "y", id=identity)

    assert await session.get_message(identity) == message
    assert await session.update_message(changed)
    assert await session.get_message(identity) == changed


async def test_more_messages_are_removed_than_a_url_has_room_for(session: SessionHandle) -> None:
    """All at once, and nothing else."""
    messages = [text_message("user", "x", id=f"{n}-" + "long " * 20) for n in range(700)]
    await session.append_messages(messages)

    await session.delete_messages([each["id"] for each in messages[1:]])

    assert await session.get_history() == messages[:1]


async def test_what_has_no_place_in_a_url_is_a_typed_error(session: SessionHandle) -> None:
    """Too long, half a character: refused before anything is sent."""
    with pytest.raises(InvalidRequestError, match="too long for a URL"):
        await session.search("word " * 20_000)
    with pytest.raises(InvalidRequestError, match="too long for a URL"):
        await session.get_message("x" * 70_000)
    with pytest.raises(NotSerializableError):
        await session.get_history("a\ud83d")
    with pytest.raises(NotSerializableError):
        await session.get_message("a\ud83d")


@pytest.mark.parametrize("least", [math.nan, math.inf, -math.inf, 2.9])
async def test_any_number_of_newest_messages_means_what_it_means_elsewhere(
    live: LiveGateway, least: float
) -> None:
    """With the storage, through the worker and through the gateway."""
    name = uuid4().hex[:12]
    served = live.served
    async with (
        GatewayClient(live.url) as client,
        await AgentClient.connect(served.address, task_queue=served.task_queue) as remote,
    ):
        sessions = [each.agent("Chat", name).session() for each in (served.client, client, remote)]
        await sessions[0].append_messages([text_message("user", "x", id=each) for each in "abcd"])

        one, *others = [await each.get_recent_history(0, least) for each in sessions]

        assert others == [one, one]


@pytest.mark.parametrize("session_id", ["~default", "..", "a/b", "ü"])
async def test_any_session_id_can_be_reached(live: LiveGateway, session_id: str) -> None:
    """It is that one, and not the default one."""
    async with GatewayClient(live.url) as client:
        agent = client.agent("Chat", uuid4().hex[:12])
        await agent.session(session_id).append_message(text_message("user", "x", id="m0"))

        assert await agent.session(session_id).get_path_length() == 1
        assert await agent.session().get_path_length() == 0


async def test_errors_are_those_of_a_handle(session: SessionHandle) -> None:
    """Typed, with what the agent said."""
    message = text_message("user", "x", id="m0")
    await session.append_message(message, idempotency_key="k")

    with pytest.raises(IdempotencyConflictError):
        await session.clear_messages(idempotency_key="k")
    with pytest.raises(InvalidMessageError):
        await session.append_message({"id": "m1"})
    with pytest.raises(UnknownMessageError):
        await session.add_compaction("s", "no", "no")
    with pytest.raises(ContextBlockError):
        await session.replace_context_block("nothing", "x")
    with pytest.raises(InvalidRequestError):
        await session.append_message(message, idempotency_key="ключ")
    with pytest.raises(InvalidRequestError):
        await session.run_tool("nothing", {})


async def test_reading_makes_no_agent(live: LiveGateway) -> None:
    """What only the agent can tell is refused until there is one, which a prompt makes."""
    async with GatewayClient(live.url) as client:
        session = client.agent("Chat", uuid4().hex[:12]).session()
        for read in (session.get_context_blocks, session.list_tools, session.estimate_tokens):
            with pytest.raises(InvalidRequestError, match="agent"):
                await read()
        assert await session.get_history() == []
        assert await live.gateway.storage.list_agents(class_name=None, after=None, limit=1) == []

        assert "MEMORY" in await session.freeze_system_prompt()
        assert [each["name"] for each in await session.list_tools()] == ["set_context"]


async def test_a_gateway_that_comes_back_gets_the_append_once(serve: Serve) -> None:
    """What finds nobody is sent again under its key."""
    async with serve(Chat) as served:
        port = free_port()
        async with GatewayClient(f"http://127.0.0.1:{port}") as client:
            session = client.agent("Chat", uuid4().hex[:12]).session()
            appending = asyncio.create_task(
                session.append_message(text_message("user", "x", id="m0"))
            )
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(appending), 0.3)
            async with api_server(served.client, port):
                assert await appending == AppendResult(True, None)
                assert await session.get_path_length() == 1


async def test_a_gateway_that_stays_away_is_given_up(session: SessionHandle) -> None:
    """After the client's timeout, or the call's."""
    url = f"http://127.0.0.1:{free_port()}"
    async with GatewayClient(url, timeout=timedelta(seconds=0.5)) as client:
        away = client.agent("Chat", "x").session()
        with pytest.raises(UnavailableError, match="does not answer"):
            await away.get_history()
        with pytest.raises((UnavailableError, CallTimeoutError)):
            await away.clear_messages(timeout=timedelta(seconds=0.3))
    with pytest.raises(ConfigurationError, match="closed"):
        await away.get_history()


async def test_tokens_are_shown_and_heeded(serve: Serve) -> None:
    """A read-only one reads; a wrong one is a matter of configuration."""
    tokens = Tokens(full=[FULL], readonly=[READONLY])
    async with live_gateway(serve, Chat, tokens=tokens) as live:
        async with GatewayClient(live.url, token=READONLY) as client:
            session = client.agent("Chat", "x").session()
            assert await session.get_history() == []
            with pytest.raises(ReadonlyConnectionError):
                await session.clear_messages()
            with pytest.raises(ReadonlyConnectionError):
                await session.freeze_system_prompt()
        async with GatewayClient(live.url, token="w" * 20) as client:
            with pytest.raises(ConfigurationError, match="token"):
                await client.agent("Chat", "x").session().get_history()


def api_server(client: AgentClient, port: int) -> GatewayServer:
    """Return a gateway with the HTTP API on a port."""
    return GatewayServer(client, [Chat], port=port, has_api=True)
