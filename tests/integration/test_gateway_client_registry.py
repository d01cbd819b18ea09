"""An agent's registry of conversations through `GatewayClient`: the surface of `SessionsHandle`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime import GatewayClient
from agent_runtime.client.sessions_handle import SessionsHandle
from agent_runtime.errors import (
    IdempotencyConflictError,
    InvalidRequestError,
    InvalidSearchError,
    ReadonlyConnectionError,
    UnknownMessageError,
    UnknownSessionError,
)
from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway_client.gateway_agent import GatewayAgent
from agent_runtime.session.message import message_text, text_message
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.live_gateway import LiveGateway, live_gateway

READONLY, FULL = "r" * 20, "f" * 20


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of an agent that talks."""
    async with live_gateway(serve, Chat) as started:
        yield started


@pytest.fixture
async def agent(live: LiveGateway) -> AsyncIterator[GatewayAgent]:
    """A new agent."""
    async with GatewayClient(live.url) as client:
        yield client.agent("Chat", uuid4().hex[:12])


async def test_it_answers_as_a_handle_of_the_agent_does(
    live: LiveGateway, agent: GatewayAgent
) -> None:
    """Every reading method gives the same through the gateway as with the storage."""
    direct, sessions = live.served.client.agent(*agent.ref).sessions(), agent.sessions()
    records = [await sessions.create(name, source="test") for name in ("a", "b", "c")]
    for number, record in enumerate(records):
        message = text_message("user", f"coffee {number}", id=f"m{number}")
        await agent.session(record.id).append_message(message)
    await agent.session("~odd/id").append_message(text_message("user", "coffee", id="m"))
    readers: list[Callable[[SessionsHandle], Awaitable[Any]]] = [
        lambda each: each.get(records[0].id),
        lambda each: each.get("nothing"),
        lambda each: each.list(),
        lambda each: each.list(limit=2),
        lambda each: each.list(limit=2, offset=2),
        lambda each: each.list_all(),
        lambda each: each.list_all(limit=2),
        lambda each: each.list_all(after=records[0].id),
        lambda each: each.search("coffee"),
        lambda each: each.search("coffee", 1),
        lambda each: each.search("coffee", session_ids=[records[1].id]),
        lambda each: each.search("coffee", session_ids=[]),
    ]

    for number, read in enumerate(readers):
        assert await read(sessions) == await read(direct), number
    assert len(await sessions.list()) == 3
    assert len(await sessions.search("coffee")) == 3


async def test_it_changes_what_a_handle_changes(live: LiveGateway, agent: GatewayAgent) -> None:
    """Each of the changing methods, with what it returns; what is not registered is no error."""
    direct, sessions = live.served.client.agent(*agent.ref).sessions(), agent.sessions()
    first = await sessions.create("a", model="m", source="s", idempotency_key="k")
    again = await sessions.create("a", model="m", source="s", idempotency_key="k")
    await agent.session(first.id).append_messages(
        [text_message("user", "one", id="m0"), text_message("user", "two", id="m1")]
    )
    await sessions.rename(first.id, "b")
    await sessions.rename("nothing", "b")
    await sessions.add_usage(first.id, 13, 4, 0.5)
    await sessions.add_usage(first.id, -10, 0)
    await sessions.add_usage("nothing", 3, 4)
    fork = await sessions.fork(first.id, "m0", "fork", copy_context=True)
    split = await sessions.compact_and_split(first.id, "what was said", "next")
    child = await sessions.create("child", parent_session_id=first.id)
    stored = await direct.get(first.id)
    await sessions.delete(child.id)
    await sessions.delete("nothing")

    assert first == again
    assert stored is not None
    assert (stored.name, stored.model, stored.source, stored.end_reason) == (
        *("b", "m", "s"),
        "compaction",
    )
    assert (stored.input_tokens, stored.output_tokens, stored.estimated_cost) == (3, 4, 0.5)
    assert [message_text(each) for each in await agent.session(fork.id).get_history()] == ["one"]
    assert (fork.name, split.name, child.parent_session_id) == ("fork", "next", first.id)
    assert {each.id for each in await direct.list()} == {first.id, fork.id, split.id}


async def test_errors_are_those_of_a_handle(agent: GatewayAgent) -> None:
    """Typed, whether they are found here or there."""
    sessions = agent.sessions()
    record = await sessions.create("a", idempotency_key="k")

    with pytest.raises(IdempotencyConflictError):
        await sessions.create("b", idempotency_key="k")
    with pytest.raises(UnknownSessionError):
        await sessions.fork("nothing", "m", "fork")
    with pytest.raises(UnknownMessageError):
        await sessions.fork(record.id, "nothing", "fork")
    with pytest.raises(UnknownSessionError):
        await sessions.compact_and_split("nothing", "s")
    with pytest.raises(InvalidSearchError):
        await sessions.search("x", 0)
    with pytest.raises(InvalidRequestError):
        await sessions.list(limit=1001)
    with pytest.raises(InvalidRequestError):
        await sessions.list(offset=-1)


async def test_a_read_only_token_reads_only(serve: Serve) -> None:
    """It lists and finds; it registers and removes nothing."""
    async with (
        live_gateway(serve, Chat, tokens=Tokens([FULL], [READONLY])) as live,
        GatewayClient(live.url, token=READONLY) as client,
    ):
        sessions = client.agent("Chat", "a").sessions()
        assert (await sessions.list(), await sessions.list_all()) == ([], [])
        assert await sessions.get("x") is None
        with pytest.raises(ReadonlyConnectionError):
            await sessions.create("x")
        with pytest.raises(ReadonlyConnectionError):
            await sessions.delete("x")
