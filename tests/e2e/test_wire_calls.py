"""Messages, calls and streams over the wire: the contract's cases 76 to 107, 292 and 298."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.wire import PROTOCOL, WireClient
from tests.support.eventually import assert_eventually
from tests.support.gateway_server import GatewayServer


def _client(gateway: GatewayServer, agent: str = "rpc-agent", query: str = "") -> WireClient:
    return WireClient(gateway.host, f"/agents/{agent}/room-{uuid4().hex[:8]}{query}")


async def test_w076_w077_the_identity_comes_first(gateway: GatewayServer) -> None:
    """Then the state, then the servers."""
    path = f"/agents/rpc-agent/room-{uuid4().hex[:8]}"
    async with WireClient(gateway.host, path) as client:
        identity = (await client.first(3))[0]

        assert (identity["name"], identity["agent"]) == (path.split("/")[-1], "rpc-agent")
        assert client.kinds == list(PROTOCOL)


async def test_w078_w189_without_identity(gateway: GatewayServer) -> None:
    """The first frame is the state."""
    async with _client(gateway, "no-identity-agent") as client:
        await client.greeted()

        assert client.kinds == ["cf_agent_state", "cf_agent_mcp_servers"]
        assert client.states == [{"count": 0}]


@pytest.mark.parametrize(
    "frames",
    [
        ["this is not json {{{", "{incomplete json", "null", "undefined"],
        [{"type": "UNKNOWN_MESSAGE_TYPE"}, {"type": 999}, {"type": None}],
        [{"type": "rpc", "method": "add", "args": [1, 2]}, {"type": "rpc", "id": "x", "args": []}],
        ["", {}, []],
        [{"type": "rpc", "id": "x", "method": "add", "args": None}],
        [{"type": "rpc", "id": "x", "method": "add"}],
        ['{"type":"rpc","id":"x","method":"add","args":[1' + "0" * 400 + "]}", "[" * 5000],
    ],
    ids=["w079", "w080", "w081", "w082", "w083", "w084", "hostile"],
)
async def test_w079_to_w084_what_is_no_frame_harms_nothing(
    gateway: GatewayServer, frames: list[Any]
) -> None:
    """The next call is answered, and nothing else."""
    async with _client(gateway) as client:
        for frame in frames:
            await client.send(frame)

        assert await client.result("add", 7, 8) == 15
        assert [frame["id"] for frame in client.of("rpc")] == ["call-1"]


async def test_w085_extra_keys_are_ignored(gateway: GatewayServer) -> None:
    """A call with more keys than it needs is a call."""
    async with _client(gateway) as client:
        frame = {"type": "rpc", "id": "x", "method": "add", "args": [1, 2], "more": {"a": 1}}
        await client.send(frame)

        assert (await client.got("rpc"))["result"] == 3


async def test_half_a_character_is_replaced(gateway: GatewayServer) -> None:
    """What a browser writes of a text cut in the middle of a character is a call all the same."""
    async with _client(gateway) as client:
        call = '{"type":"rpc","id":"x","method":"add","args":["half \\ud83d","+"]}'
        await client.send(call)

        assert (await client.got("rpc"))["result"] == "half \ufffd+"


async def test_w086_no_message_overtakes_the_connect_hook(gateway: GatewayServer) -> None:
    """Frames sent at once are answered after the greeting, by what the hook has attached."""
    async with _client(gateway, "tag-agent") as client:
        for number in range(25):
            await client.send(str(number))
        await client.got("echo", 25)

        assert [frame["type"] for frame in client.frames[:3]] == list(PROTOCOL)
        echoes = client.of("echo")
        assert [echo["text"] for echo in echoes] == [str(number) for number in range(25)]
        assert [echo["state"] for echo in echoes] == [{"tagged": True}] * 25


@pytest.mark.parametrize("method", ["note", "notePlain"])
async def test_calls_begin_in_order(gateway: GatewayServer, method: str) -> None:
    """Each runs to its first wait before the next one begins, and a plain one to its end."""
    async with _client(gateway, "tag-agent") as client:
        for number in range(50):
            call = {"type": "rpc", "id": f"n{number}", "method": method, "args": [number]}
            await client.send(call)
        await client.got("rpc", 50)

        assert await client.result("notes") == list(range(50))


async def test_a_waiting_call_holds_up_no_other(gateway: GatewayServer) -> None:
    """What came later is answered while it waits."""
    async with _client(gateway) as client:
        await client.send({"type": "rpc", "id": "long", "method": "hang", "args": []})

        assert await client.result("add", 1, 2) == 3


async def test_tags_find_connections(gateway: GatewayServer) -> None:
    """The id is the first tag; connections are found by each."""
    path = f"/agents/tag-agent/room-{uuid4().hex[:8]}"
    one = WireClient(gateway.host, f"{path}?_pk=one&tag=red&tag=big")
    two = WireClient(gateway.host, f"{path}?_pk=two&tag=red")
    async with one as first, two as second:
        await second.greeted()
        assert await first.result("tagged", "red") == [["one", "red", "big"], ["two", "red"]]
        assert await first.result("tagged", "big") == [["one", "red", "big"]]
        assert await first.result("tagged", "two") == [["two", "red"]]


async def test_too_many_tags_are_refused(gateway: GatewayServer) -> None:
    """Ten with the id; the connection is not set up with more."""
    query = "?" + "&".join(f"tag={number}" for number in range(10))
    async with _client(gateway, "tag-agent", query) as client:
        assert await client.ended() == (1011, "Uncaught exception during session setup")


async def test_broadcasts_leave_out_who_is_named(gateway: GatewayServer) -> None:
    """By connection id."""
    path = f"/agents/tag-agent/room-{uuid4().hex[:8]}"
    one, two = (WireClient(gateway.host, f"{path}?_pk={name}") for name in ("one", "two"))
    async with one as first, two as second:
        await second.greeted()
        await first.result("shoutWithout", "one")
        await second.got("shout")

        await first.result("tagged", "one")
        assert first.of("shout") == []


@pytest.mark.parametrize(
    ("method", "args", "chunks", "end"),
    [
        ("streamNumbers", [5], [0, 1, 2, 3, 4], {"result": 5}),
        ("streamSlow", [["a", "b", "c"], 10], ["a", "b", "c"], {"result": "complete"}),
        ("streamThrows", [], ["chunk1"], {"error": "Stream failed"}),
        ("streamThrowsAtOnce", [], [], {"error": "Immediate failure"}),
        ("streamDoubleClose", [], ["chunk1"], {"error": "First close"}),
        ("streamGraceful", [], ["chunk1"], {"error": "Graceful error"}),
        ("streamSlow", [["a", "b", "c"], 50], ["a", "b", "c"], {"result": "complete"}),
        ("streamNoFinal", [], ["only"], {}),
    ],
    ids=["w096", "w097", "w098", "w099", "w100", "w105", "w107", "no-final"],
)
async def test_w096_to_w107_streams(
    gateway: GatewayServer, method: str, args: list[Any], chunks: list[Any], end: dict[str, Any]
) -> None:
    """The parts in order, then the end or the error, and nothing more."""
    async with _client(gateway) as client:
        *parts, last = await client.call_stream(method, *args)
        await client.result("add", 1, 1)

        assert [part["result"] for part in parts] == chunks
        assert all(part["done"] is False and part["success"] for part in parts)
        status = {"success": False} if "error" in end else {"success": True, "done": True}
        assert last == {"type": "rpc", "id": "call-1", **status, **end}
        assert len([one for one in client.of("rpc") if one["id"] == "call-1"]) == len(chunks) + 1


async def test_w089_a_caller_that_leaves_breaks_nothing(gateway: GatewayServer) -> None:
    """A method that fails after its caller has gone is heard of by nobody."""
    path = f"/agents/rpc-agent/room-{uuid4().hex[:8]}"
    async with WireClient(gateway.host, path) as client:
        frame = {"type": "rpc", "id": "x", "method": "failLater", "args": ["late", 25]}
        await client.send(frame)
    async with WireClient(gateway.host, path) as client:
        assert await client.result("add", 1, 2) == 3


async def test_w292_a_failing_connect_hook_closes_with_1011(gateway: GatewayServer) -> None:
    """One frame with an error that tells nothing of the inside, then the close."""
    async with _client(gateway, "throws-on-connect-agent") as client:
        assert await client.ended() == (1011, "Uncaught exception during session setup")
        assert client.frames == [{"error": "Uncaught exception during session setup"}]


async def test_w273_a_connect_hook_greets_and_messages_are_echoed(gateway: GatewayServer) -> None:
    """`connected:{name}` before anything is sent, then `echo:hello`."""
    path = f"/agents/greet-agent/room-{uuid4().hex[:8]}"
    async with WireClient(gateway.host, path) as client:
        greeting = await client.got("text")
        await client.send("hello")
        echo = await client.got("text", 2)

        name = path.split("/")[-1]
        assert (greeting["text"], echo["text"]) == (f"connected:{name}", "echo:hello")


async def test_w298_the_close_hook_is_told_how(gateway: GatewayServer) -> None:
    """Code and reason of the client, which sees them come back."""
    path = f"/agents/echo-agent/room-{uuid4().hex[:8]}"
    async with WireClient(gateway.host, path) as client:
        await client.socket.close(4321, "bye")
        assert (client.socket.close_code, client.socket.close_reason) == (4321, "bye")
    async with WireClient(gateway.host, path) as client:

        async def told() -> None:
            expected = [{"code": 4321, "reason": "bye", "wasClean": True}]
            assert await client.result("closes") == expected

        await assert_eventually(told)
