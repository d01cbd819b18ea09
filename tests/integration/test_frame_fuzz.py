"""Whatever a client sends, nobody else's connection suffers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection, Message
from tests.conftest import Serve
from tests.support.live_gateway import LiveGateway, live_gateway

FUZZ = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
numbers = itertools.count(1)


class Target(Agent):
    """An agent with all that frames can reach."""

    initial_state = {"n": 0}

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Fail in its own way for many values."""
        if next_state["n"] < 0:
            raise ValueError("below zero")

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Answer with its length."""
        await connection.send(str(len(message)))

    @callable()
    async def add(self, a: float, b: float = 1) -> float:
        """A plain method."""
        return a + b


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)
methods = st.sampled_from(["add", "on_message", "__init__", "set_state", "sql", ""]) | st.text()
types = st.sampled_from(["cf_agent_state", "rpc", "agent_runtime_mutate", "x"]) | json_values
kinds = st.sampled_from(["set", "merge", "reset", "call", "update"]) | json_values
frames = st.fixed_dictionaries(
    {"type": types},
    optional={
        "state": json_values,
        "id": st.text(max_size=10) | json_values,
        "method": methods,
        "args": st.lists(json_values, max_size=4) | json_values,
        "kind": kinds,
        "value": json_values,
        "expected_version": json_values,
        "key": json_values,
    },
).map(lambda frame: orjson.dumps(_fitting(frame)).decode())
odd = st.sampled_from(
    [
        "[" * 5_000,
        '{"type":"cf_agent_state","state":' + "[" * 300 + "]" * 300 + "}",
        '{"type":"rpc","id":"1","method":"add","args":' + "[" * 200 + "]" * 200 + "}",
        '{"type":"cf_agent_state","state":"\\ud800"}',
        '{"type":"cf_agent_state","state":1e999}',
        '{"type":"cf_agent_state","state":NaN}',
        '{"type":"cf_agent_state","state":{"n":0},"state":-1}',
        '{"type":"rpc","id":"\\u0000","method":"\\u0000","args":[]}',
    ]
)
messages = frames | odd | st.text(max_size=50) | st.binary(max_size=50)


def _fitting(value: Any) -> Any:
    """Return a JSON value that can be written: integers of 64 bits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(-(2**63), min(2**63 - 1, value))
    if isinstance(value, list):
        return [_fitting(each) for each in value]
    if isinstance(value, dict):
        return {key: _fitting(each) for key, each in value.items()}
    return value


@pytest.fixture
async def live(serve: Serve, caplog: pytest.LogCaptureFixture) -> AsyncIterator[LiveGateway]:
    """A gateway in which nothing fails in a way that nobody has thought of."""
    with caplog.at_level(logging.ERROR):
        async with live_gateway(serve, Target) as started:
            yield started
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.fixture
async def bystanders(live: LiveGateway) -> AsyncIterator[list[ClientConnection]]:
    """Clients of the same agent and of another one."""
    async with (
        live.connect("/agents/target/shared") as same,
        live.connect("/agents/target/other") as other,
    ):
        yield [same, other]


async def assert_unharmed(bystanders: list[ClientConnection]) -> None:
    """Each gets its answer, over the connection that it always had."""
    for socket in bystanders:
        number = next(numbers)
        call = {"type": "rpc", "id": f"mine-{number}", "method": "add", "args": [number]}
        await socket.send(orjson.dumps(call).decode())
        assert await answer_to(socket, f"mine-{number}") == number + 1


async def answer_to(socket: ClientConnection, call_id: str) -> Any:
    """Read on until a call's answer comes, and return its result."""
    async with asyncio.timeout(60):
        while True:
            frame = orjson.loads(await socket.recv())
            if isinstance(frame, dict) and frame.get("id") == call_id:
                return frame.get("result")


@FUZZ
@given(
    sent=st.lists(messages, min_size=1, max_size=12),
    query=st.sampled_from(["", "?agent_runtime=1", "?agent_runtime=1&deltas=1&resume_from=1"]),
)
async def test_no_frame_harms_others(
    live: LiveGateway, bystanders: list[ClientConnection], sent: list[str | bytes], query: str
) -> None:
    """Frames of all shapes, on the stock wire and the extended one; the sender too may go on."""
    async with live.connect(f"/agents/target/shared{query}") as attacker:
        for message in sent:
            await attacker.send(message)
        await assert_unharmed(bystanders)
        await assert_unharmed([attacker])


@FUZZ
@given(sent=st.binary(min_size=1, max_size=200))
async def test_no_bytes_harm_others(
    live: LiveGateway, bystanders: list[ClientConnection], sent: bytes
) -> None:
    """After a sound handshake anything, which is mostly no WebSocket frame at all."""
    place = urlsplit(live.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(
        f"GET /agents/target/shared HTTP/1.1\r\nHost: {place.netloc}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    status = await reader.readline()
    writer.write(sent)
    await assert_unharmed(bystanders)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()

    assert status.startswith(b"HTTP/1.1 101 ")


@FUZZ
@given(path=st.text(st.characters(codec="ascii"), max_size=40), query=st.text(max_size=20))
async def test_no_address_harms_others(
    live: LiveGateway, bystanders: list[ClientConnection], path: str, query: str
) -> None:
    """Any path and query is answered, by an upgrade or by a status that is no failure."""
    place = urlsplit(live.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    target = f"/agents/target/{path}?{query}".encode().translate(None, b" \r\n\t\v\f\0")
    writer.write(
        b"GET " + target + b" HTTP/1.1\r\nHost: " + place.netloc.encode() + b"\r\n"
        b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    status = await reader.readline()
    await assert_unharmed(bystanders)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()

    assert status.split()[1:2] in ([b"101"], [b"400"], [b"404"]), (target, status)


async def test_a_client_that_is_gone_in_the_middle_harms_nobody(
    live: LiveGateway, bystanders: list[ClientConnection]
) -> None:
    """Calls under way when it drops are answered to nobody."""
    for _ in range(10):
        async with live.connect("/agents/target/shared") as leaver:
            for number in range(20):
                call = {"type": "rpc", "id": str(number), "method": "add", "args": [number]}
                await leaver.send(orjson.dumps(call).decode())
            leaver.transport.abort()
            with contextlib.suppress(ConnectionClosed):
                await leaver.recv()

    await assert_unharmed(bystanders)
