"""No client can use up a gateway: sizes, rates and numbers of connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import orjson
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from agent_runtime.gateway import client_session
from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.limits import Limits
from agent_runtime.gateway.request_rate import MAX_CLIENTS, RequestRate
from agent_runtime.gateway.token_bucket import TokenBucket
from tests.conftest import Serve
from tests.support.agents import Bare, Calls
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

LIMITS = Limits(
    max_frame_bytes=5_000,
    max_body_bytes=5_000,
    frames_per_second=5,
    max_connections_per_agent=2,
    max_connections=3,
)
STATE = "/api/agents/Bare/a/state"
FULL = "a-token-that-may-do-everything"
OTHER = "another-that-may-do-everything"


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway with small limits."""
    async with live_gateway(serve, Bare, limits=LIMITS) as started:
        yield started


def state_text(state: object) -> str:
    """Return a frame that sets the state."""
    return orjson.dumps({"type": "cf_agent_state", "state": state}).decode()


async def closed(socket: ClientConnection) -> tuple[int, str]:
    """Read on until the server closes, and return code and reason."""
    with pytest.raises(ConnectionClosed) as end:
        while True:
            await socket.recv()
    assert end.value.rcvd is not None
    return end.value.rcvd.code, end.value.rcvd.reason


async def test_a_long_frame_closes_its_sender_alone(live: LiveGateway) -> None:
    """1009; others of the agent are still told what changes."""
    async with live.connect("/agents/bare/a") as other, live.connect("/agents/bare/a") as big:
        await next_frame(other, "cf_agent_mcp_servers")
        await big.send(state_text("x" * 6_000))
        code, _ = await closed(big)
        await live.http.put(STATE, json=1)
        told = await next_frame(other, "cf_agent_state")

    assert (code, told["state"]) == (1009, 1)


async def test_a_long_frame_in_parts_is_as_long(live: LiveGateway) -> None:
    """Fragments are counted together."""
    async with live.connect("/agents/bare/a") as socket:
        await socket.send("x" * 1_000 for _ in range(6))

        assert (await closed(socket))[0] == 1009


async def test_a_flood_of_frames_closes_its_sender_alone(live: LiveGateway) -> None:
    """1008, on which stock clients stay away; a client within the rate goes on."""
    async with live.connect("/agents/bare/a") as other, live.connect("/agents/bare/a") as fast:
        for number in range(100):
            await fast.send(state_text(number))
        end = await closed(fast)
        for number in range(3):
            await other.send(state_text(f"other {number}"))

        agent = live.served.client.agent("Bare", "a")

        async def all_are_set() -> None:
            # What the fast one had sent before may be stored in between, and after them.
            values = [entry.value for entry in await agent.state_history()]
            assert {"other 0", "other 1", "other 2"} <= {str(value) for value in values}

        await assert_eventually(all_are_set)

    assert end == (1008, "too many frames")


@pytest.mark.parametrize("query", ["", "?agent_runtime=1"])
async def test_a_client_has_so_much_under_way(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """One that never waits for answers is closed with 1008; others go on."""
    monkeypatch.setattr(client_session, "MAX_UNDER_WAY", 10)
    async with (
        live_gateway(serve, Calls) as live,
        live.connect("/agents/calls/a") as other,
        live.connect(f"/agents/calls/a{query}") as greedy,
    ):
        call = {"type": "rpc", "id": "1", "method": "endless", "args": []}
        for _ in range(10):
            await greedy.send(orjson.dumps(call).decode())
        await greedy.send('{"type":"agent_runtime_mutate","id":"2","kind":"reset"}')
        end = await closed(greedy)
        await other.send(orjson.dumps({**call, "method": "slow", "args": [0]}).decode())
        answer = await next_frame(other, "rpc")

    assert (end, answer["result"]) == ((1008, "too much under way"), "done")


async def test_an_agent_has_a_number_of_connections(live: LiveGateway) -> None:
    """One more is refused with 429; once one has left, there is room again."""
    async with live.connect("/agents/bare/a"):
        async with live.connect("/agents/bare/a"):
            with pytest.raises(InvalidStatus) as refused:
                await live.connect("/agents/bare/a")

        async def is_let_in() -> None:
            try:
                async with live.connect("/agents/bare/a"):
                    pass
            except InvalidStatus:
                raise AssertionError from None

        await assert_eventually(is_let_in)

    assert refused.value.response.status_code == 429
    assert refused.value.response.headers["Retry-After"] == "1"


async def test_a_gateway_has_a_number_of_connections(live: LiveGateway) -> None:
    """One more is refused with 503, whatever its agent; probes still answer."""
    async with (
        live.connect("/agents/bare/a"),
        live.connect("/agents/bare/b"),
        live.connect("/agents/bare/c"),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await live.connect("/agents/bare/d")
        alive = await live.http.get("/healthz")

    assert (refused.value.response.status_code, alive.status_code) == (503, 200)


@pytest.mark.parametrize("path", [STATE, "/agents/bare/a"])
async def test_a_long_body_is_refused(live: LiveGateway, path: str) -> None:
    """413 for the API and for agents' own routes, announced or in chunks."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b"x" * 1_000

    announced = await live.http.put(path, content=b"x" * 6_000)
    chunked = await live.http.put(path, content=chunks())

    assert [announced.status_code, chunked.status_code] == [413, 413]
    assert announced.json()["type"].endswith(":BodyTooLarge")


async def test_a_body_in_chunks_arrives_whole(live: LiveGateway) -> None:
    """Counting loses nothing."""

    async def chunks() -> AsyncIterator[bytes]:
        yield b'{"a":'
        yield b" 1}"

    put = await live.http.put(STATE, content=chunks())

    assert (put.status_code, (await live.http.get(STATE)).json()) == (200, {"a": 1})


def test_a_bucket_allows_its_rate_and_twice_as_much_at_once() -> None:
    """After a pause it is full again, and never fuller."""
    now = [0.0]
    bucket = TokenBucket(5, lambda: now[0])

    def taken(tries: int) -> int:
        return sum(bucket.take() for _ in range(tries))

    first = taken(50)
    now[0] = 1.0
    second = taken(50)
    now[0] = 1_000.0
    third = taken(50)

    assert (first, second, third) == (10, 5, 10)


@pytest.mark.parametrize("path", [STATE, "/agents/bare/a"])
async def test_a_flood_of_requests_gets_429(serve: Serve, path: str) -> None:
    """The client of one token is told when to go on; others and probes are served."""
    tokens, limits = Tokens([FULL, OTHER]), Limits(requests_per_second=0.01)
    async with live_gateway(serve, Bare, tokens=tokens, limits=limits) as live:
        http, shown = live.http, {"Authorization": f"Bearer {FULL}"}
        first = await http.get(path, headers=shown)
        second = await http.get(path, headers=shown)
        other = await http.get(path, headers={"Authorization": f"Bearer {OTHER}"})
        alive = await http.get("/healthz")

    assert 429 not in (first.status_code, other.status_code)
    assert second.status_code == 429
    assert 1 <= int(second.headers["Retry-After"]) <= 100
    assert second.json()["type"].endswith(":TooManyRequests")
    assert alive.status_code == 200


def test_requests_are_counted_by_address() -> None:
    """Where no token is shown; the addresses of one IPv6 network are one client."""
    rate = RequestRate(1, lambda: 0.0)

    def taken(*hosts: str) -> int:
        return sum(rate.pause({"client": (host, 1)}) == 0 for host in hosts)

    one = taken(*["192.0.2.1"] * 5)
    another = taken(*["192.0.2.2"] * 5)
    network = taken(*(f"2001:db8::{number}" for number in range(1, 6)))
    unknown = sum(rate.pause({}) == 0 for _ in range(5))

    assert (one, another, network, unknown) == (2, 2, 2, 2)


def test_only_so_many_clients_are_remembered() -> None:
    """The one seen longest ago begins anew; the others do not."""
    rate = RequestRate(0.5, lambda: 0.0)
    pauses = [rate.pause({"client": (str(number), 1)}) for number in range(MAX_CLIENTS + 1)]

    assert not any(pauses)
    assert rate.pause({"client": (str(MAX_CLIENTS), 1)}) == 2
    assert rate.pause({"client": ("0", 1)}) == 0


@pytest.mark.parametrize("line", [b"X-Part: " + b"a" * 4096 + b"\r\n", b"a" * 4096])
async def test_a_head_without_end_is_given_up(live: LiveGateway, line: bytes) -> None:
    """Lines without end as well as one line without end; no token is needed to send them."""
    host, port = live.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /api/agents HTTP/1.1\r\nHost: localhost\r\nX-First: ")

    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(line)
                await writer.drain()
    writer.close()

    assert (await live.http.get("/healthz")).status_code == 200
