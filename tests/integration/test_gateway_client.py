"""The Python client of a gateway, on a real one."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime import Agent, GatewayClient, callable
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    ConfigurationError,
    HandlerError,
    IdempotencyConflictError,
    InvalidAgentError,
    InvalidRequestError,
    NotSerializableError,
    ReadonlyConnectionError,
    StateRejectedError,
    StateTooLargeError,
    UnavailableError,
    VersionConflictError,
)
from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.extended_socket import ExtendedSocket
from agent_runtime.gateway.limits import Limits
from agent_runtime.gateway_client.gateway_agent import GatewayAgent
from agent_runtime.gateway_client.gateway_subscription import GatewaySubscription
from agent_runtime.hosting.state_reader import StateSnapshot
from agent_runtime.mutation import Receipt
from tests.conftest import Serve
from tests.support.eventually import assert_eventually
from tests.support.gateway_process import GatewayProcess
from tests.support.live_gateway import LiveGateway, live_gateway

FULL, READONLY = "a-token-that-may-do-everything", "a-token-that-may-only-read"
MODULE = "tests.integration.test_gateway_client"


class Board(Agent):
    """Refuses negative scores."""

    initial_state = {"score": 0, "items": list(range(40))}

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Scores are not negative."""
        if isinstance(next_state, dict) and next_state.get("score", 0) < 0:
            raise ValueError("below zero")

    @callable()
    async def add(self, first: int, second: int) -> int:
        """Return a sum."""
        if first < 0:
            raise ValueError("no such number")
        return first + second

    @callable()
    async def wait(self) -> None:
        """Return for nobody."""
        await asyncio.Event().wait()


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of boards."""
    async with live_gateway(serve, Board) as started:
        yield started


@pytest.fixture
async def client(live: LiveGateway) -> AsyncIterator[GatewayClient]:
    """A client of it."""
    async with GatewayClient(live.url) as connected:
        yield connected


@pytest.fixture
def board(client: GatewayClient) -> GatewayAgent:
    """A board, through the gateway."""
    return client.agent("Board", "a")


async def following(states: GatewaySubscription) -> StateSnapshot:
    """Return the next state."""
    return await asyncio.wait_for(anext(states), 60)


async def test_the_present_state_comes_first(live: LiveGateway, board: GatewayAgent) -> None:
    """With its version, to whoever subscribes first and to those that come later."""
    async with board.subscribe() as first:
        initial = await following(first)
        await live.served.client.agent("Board", "a").set_state({"score": 3})
        await following(first)
        async with board.subscribe() as second:
            later = await following(second)

    assert initial == StateSnapshot(Board.initial_state, 1)
    assert later == StateSnapshot({"score": 3}, 2)


async def test_updates_of_others_come_in_order(live: LiveGateway, board: GatewayAgent) -> None:
    """Each version once, each with its state."""
    other = live.served.client.agent("Board", "a")
    async with board.subscribe() as states:
        await following(states)
        for score in range(2, 12):
            await other.merge_state({"score": score})
        found = [await following(states) for _ in range(10)]

    assert [(one.version, one.value["score"]) for one in found] == [(n, n) for n in range(2, 12)]
    assert all(one.value["items"] == Board.initial_state["items"] for one in found)


async def test_states_come_as_deltas(
    live: LiveGateway, board: GatewayAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the gateway sends is shorter than the state; what a reader does to his copy is his."""
    sent: list[str] = []
    send = ExtendedSocket.send

    def noted(self: ExtendedSocket, message: Any, *, is_state: bool = False) -> None:
        if is_state and "agent_runtime_delta" in message:
            sent.append(message)
        send(self, message, is_state=is_state)

    monkeypatch.setattr(ExtendedSocket, "send", noted)
    other = live.served.client.agent("Board", "a")
    async with board.subscribe() as states:
        (await following(states)).value["items"].clear()
        await other.merge_state({"score": 1})
        second = await following(states)
        await other.merge_state({"items": [0, "new", *range(1, 40)], "a/b~": None})
        third = await following(states)

    assert second.value == {"score": 1, "items": list(range(40))}
    assert third.value == {"score": 1, "items": [0, "new", *range(1, 40)], "a/b~": None}
    assert len(sent) == 2


async def test_a_slow_reader_gets_the_newest(live: LiveGateway, board: GatewayAgent) -> None:
    """Of more than wait for it, the oldest are left out."""
    async with board.subscribe() as states:
        await following(states)
        for score in range(2, 152):
            await board.merge_state({"score": score})
        found = [await following(states) for _ in range(100)]

    assert [one.version for one in found] == list(range(52, 152))


async def test_mutations_have_receipts(live: LiveGateway, board: GatewayAgent) -> None:
    """The version that each made; its state is stored, and told before the receipt."""
    async with board.subscribe() as states:
        await following(states)
        put = await board.set_state({"score": 1, "x": 1}, expected_version=1)
        merged = await board.merge_state({"score": 2})
        reset = await board.reset_state()
        stored = await live.served.client.agent("Board", "a").get_state()
        told = [(await following(states)).version for _ in range(3)]

    assert [put, merged, reset] == [Receipt(2), Receipt(3), Receipt(4)]
    assert stored == StateSnapshot(Board.initial_state, 4)
    assert told == [2, 3, 4]


async def test_a_key_counts_once(board: GatewayAgent) -> None:
    """The second use returns the first receipt as a duplicate; other contents are refused."""
    await board.set_state({"score": 0})
    first = await board.merge_state({"score": 1}, idempotency_key="k")
    again = await board.merge_state({"score": 1}, idempotency_key="k")
    with pytest.raises(IdempotencyConflictError):
        await board.merge_state({"score": 2}, idempotency_key="k")

    assert first == Receipt(first.version, applied=True, duplicate=False)
    assert again == Receipt(first.version, applied=False, duplicate=True)


@pytest.mark.parametrize(
    ("state", "options", "error"),
    [
        ({"score": -1}, {}, StateRejectedError),
        ({}, {"expected_version": 7}, VersionConflictError),
        ({}, {"expected_version": "7"}, InvalidRequestError),
        ({}, {"idempotency_key": ""}, InvalidRequestError),
        ({"x": float("nan")}, {}, NotSerializableError),
        ("x" * 2_000_001, {}, StateTooLargeError),
    ],
)
async def test_refusals_are_typed(
    live: LiveGateway,
    board: GatewayAgent,
    state: Any,
    options: dict[str, Any],
    error: type[AgentRuntimeError],
) -> None:
    """As `AgentHandle` raises them; nothing is stored."""
    await live.served.client.agent("Board", "a").get_state()
    with pytest.raises(error) as caught:
        await board.set_state(state, **options)
    stored = await live.served.client.agent("Board", "a").get_state()

    assert (type(caught.value), stored.version) == (error, 1)
    if error is VersionConflictError:
        assert 1 in caught.value.details_map.values()


async def test_methods_are_called(board: GatewayAgent) -> None:
    """Results come back, failures as far as the wire tells them, and a deadline is kept."""
    total = await board.call("add", 2, 3)
    with pytest.raises(HandlerError, match="no such number"):
        await board.call("add", -1, 3)
    with pytest.raises(HandlerError):
        await board.call("missing")

    assert total == 5


async def test_closing_ends_the_iterator(board: GatewayAgent) -> None:
    """Also one that waits."""
    seen: list[int] = []
    states = board.subscribe()

    async def read() -> None:
        async for snapshot in states:
            seen.append(snapshot.version)

    async def is_waiting() -> None:
        assert seen == [1]

    reading = asyncio.create_task(read())
    await assert_eventually(is_waiting)
    states.close()
    await asyncio.wait_for(reading, 60)

    assert seen == [1]


async def test_closing_the_client_ends_all(live: LiveGateway) -> None:
    """Subscriptions end; calls that wait are told, and nothing new begins."""
    async with GatewayClient(live.url) as client:
        board = client.agent("Board", "a")
        states = board.subscribe()
        await following(states)
        reading = asyncio.create_task(following(states))
        calling = asyncio.create_task(board.call("wait"))
        await board.merge_state({"score": 1})
        await reading
        reading = asyncio.create_task(following(states))

    with pytest.raises(StopAsyncIteration):
        await reading
    with pytest.raises(UnavailableError):
        await calling
    with pytest.raises(UnavailableError):
        await board.reset_state()
    with pytest.raises(ConfigurationError):
        client.agent("Board", "a")


async def test_tokens(serve: Serve) -> None:
    """The right one may write, a read-only one may follow, a wrong one nothing."""
    async with live_gateway(serve, Board, tokens=Tokens([FULL], [READONLY])) as live:
        async with GatewayClient(live.url, token=FULL) as client:
            receipt = await client.agent("Board", "a").merge_state({"score": 1})
        async with GatewayClient(live.url, token=READONLY) as client:
            board = client.agent("Board", "a")
            seen = await following(board.subscribe())
            with pytest.raises(ReadonlyConnectionError):
                await board.reset_state()
        async with GatewayClient(live.url, token="a-wrong-token-of-somebody") as client:
            board = client.agent("Board", "a")
            with pytest.raises(ConfigurationError, match="token is needed") as caught:
                await board.reset_state()
            with pytest.raises(ConfigurationError):
                await following(board.subscribe())

    assert (receipt.applied, seen.version) == (True, receipt.version)
    assert caught.value.details_map["status"] == 401


async def test_an_unknown_agent_is_refused(client: GatewayClient) -> None:
    """By the gateway, and by the client where a URL cannot hold the name."""
    with pytest.raises(InvalidRequestError):
        await following(client.agent("Nobody", "a").subscribe())
    with pytest.raises(InvalidAgentError):
        client.agent("Board", "a b")


@pytest.mark.parametrize("url", ["", "localhost:8787", "ftp://localhost", "http://a?b=c"])
def test_a_wrong_address_is_refused(url: str) -> None:
    """At once, and by name."""
    with pytest.raises(ConfigurationError, match="address of a gateway"):
        GatewayClient(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the way to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"temporal-agent-runtime\[gateway\]"):
        GatewayClient()


async def test_many_mutations_at_once_stay_within_the_limit(serve: Serve) -> None:
    """They are spread over time, in order: the gateway does not send the client away."""
    async with (
        live_gateway(serve, Board, limits=Limits(frames_per_second=50)) as live,
        GatewayClient(live.url, frames_per_second=45) as client,
    ):
        board = client.agent("Board", "a")
        writes = [board.merge_state({"score": score}) for score in range(150)]
        receipts = await asyncio.gather(*writes)
        state = await live.served.client.agent("Board", "a").get_state()

    assert sorted(receipts, key=lambda one: one.version) == receipts
    assert state.value["score"] == 149


@pytest.fixture
async def gateway(serve: Serve) -> AsyncIterator[tuple[GatewayProcess, AgentClient]]:
    """A gateway in a process of its own."""
    async with serve(Board) as served:
        process = GatewayProcess(
            MODULE,
            address=served.address,
            data_dir=served.data_dir,
            task_queue=served.task_queue,
        )
        await process.start()
        try:
            yield process, served.client
        finally:
            await process.stop()


async def test_a_subscription_survives_a_killed_gateway(
    gateway: tuple[GatewayProcess, AgentClient],
) -> None:
    """It goes on with all that it has missed, once and in order."""
    process, others = gateway
    name = uuid4().hex
    other = others.agent("Board", name)
    async with (
        GatewayClient(f"http://{process.host}") as client,
        client.agent("Board", name).subscribe() as states,
    ):
        versions = [(await following(states)).version]
        await other.merge_state({"score": 2})
        versions.append((await following(states)).version)
        await process.kill()
        for score in range(3, 6):
            await other.merge_state({"score": score})
        await process.start()
        await other.merge_state({"score": 6})
        found = [await following(states) for _ in range(4)]

    assert versions + [one.version for one in found] == [1, 2, 3, 4, 5, 6]
    assert [one.value["score"] for one in found] == [3, 4, 5, 6]
    assert found[-1].value["items"] == Board.initial_state["items"]


async def test_who_missed_much_gets_the_newest(
    gateway: tuple[GatewayProcess, AgentClient],
) -> None:
    """Nothing older is shown after it."""
    process, others = gateway
    other = others.agent("Board", "much")
    async with (
        GatewayClient(f"http://{process.host}") as client,
        client.agent("Board", "much").subscribe() as states,
    ):
        await following(states)
        await process.kill()
        for score in range(2, 122):
            await other.merge_state({"score": score})
        await process.start()
        newest = await following(states)
        await other.merge_state({"score": 122})
        after = await following(states)

    assert (newest.version, newest.value["score"]) == (121, 121)
    assert (after.version, after.value["score"]) == (122, 122)


async def test_mutations_survive_a_killed_gateway(
    gateway: tuple[GatewayProcess, AgentClient],
) -> None:
    """Each is stored once, whether it was sent before or not; a call is not repeated."""
    process, others = gateway
    other = others.agent("Board", "b")
    async with GatewayClient(f"http://{process.host}") as client:
        board = client.agent("Board", "b")
        await board.set_state({"score": 0})
        calling = asyncio.create_task(board.call("wait"))
        writes = [asyncio.create_task(board.merge_state({f"k{n}": n})) for n in range(40)]
        await writes[0]
        await process.kill()
        late = asyncio.create_task(board.merge_state({"score": 1}))
        with pytest.raises(UnavailableError):
            await asyncio.wait_for(calling, 60)
        await process.start()
        receipts = await asyncio.gather(*writes, late)
    state = await other.get_state()

    assert len({receipt.version for receipt in receipts}) == 41
    assert state.value == {"score": 1, **{f"k{n}": n for n in range(40)}}
    assert state.version == max(receipt.version for receipt in receipts)


async def test_a_mutation_does_not_wait_for_ever() -> None:
    """Where no gateway answers."""
    async with GatewayClient("http://127.0.0.1:9", timeout=timedelta(seconds=0.3)) as client:
        with pytest.raises(CallTimeoutError):
            await client.agent("Board", "a").reset_state()
