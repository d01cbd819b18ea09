"""State over the wire: the contract's cases 9 to 21 and 283 to 286 that need a client."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from agent_runtime.gateway import feed
from tests.e2e.agents.cases import COUNTER
from tests.e2e.wire import WireClient
from tests.support.eventually import assert_eventually
from tests.support.gateway_server import GatewayServer

REJECTED = {"type": "cf_agent_state_error", "error": "State update rejected"}


def _state(count: int, items: list[str], updated: str) -> dict[str, Any]:
    return {"count": count, "items": items, "lastUpdated": updated}


class Room:
    """A fresh agent and clients of it."""

    def __init__(self, gateway: GatewayServer) -> None:
        self.name = f"room-{uuid4().hex[:8]}"
        self._gateway = gateway
        self.agent = gateway.gateway.client.agent("StateAgent", self.name)

    def client(self, query: str = "") -> WireClient:
        """Return a client, to be entered."""
        return WireClient(self._gateway.host, f"/agents/state-agent/{self.name}{query}")


async def test_w009_a_client_is_told_what_was_set_before(gateway: GatewayServer) -> None:
    """First the identity, then the state."""
    room, state = Room(gateway), _state(77, ["synced"], "sync-test")
    await room.agent.set_state(state)
    async with room.client() as client:
        identity, told = await client.first(2)

        assert identity == {
            "name": room.name,
            "agent": "state-agent",
            "type": "cf_agent_identity",
            "stateFollows": True,
        }
        assert told == {"state": state, "type": "cf_agent_state"}


async def test_w010_w016_code_s_change_is_told_once(gateway: GatewayServer) -> None:
    """One frame with the new state."""
    room, state = Room(gateway), _state(88, ["broadcast"], "broadcast-test")
    async with room.client() as client:
        assert await client.result("setState", state) == "set"

        assert client.states == [COUNTER, state]


async def test_w011_a_client_s_state_becomes_the_agent_s(gateway: GatewayServer) -> None:
    """The agent has what the client sent."""
    room, state = Room(gateway), _state(123, ["from-client"], "client-initiated")
    async with room.client() as client:
        await client.greeted()
        await client.set_state(state)

        assert await client.result("getState") == state


async def test_w015_a_refused_change_of_code_is_not_told(gateway: GatewayServer) -> None:
    """The caller gets the validator's text, nobody a frame."""
    room = Room(gateway)
    async with room.client() as client, room.client() as other:
        answer = await client.call("setState", _state(-1, [], ""))

        assert answer["error"] == "count cannot be -1"
        await other.result("getState")
        assert client.states == other.states == [COUNTER]


async def test_w017_a_failing_hook_hides_nothing(gateway: GatewayServer) -> None:
    """The state is told, and the error hook has the error."""
    room = Room(gateway)
    async with room.client() as client:
        await client.result("setState", _state(-2, [], ""))

        assert client.states[1:] == [_state(-2, [], "")]

        async def reported() -> None:
            [error] = (await client.result("noted"))["errors"]
            assert "onStateChanged failed" in error

        await assert_eventually(reported)


async def test_w018_w019_only_the_refused_sender_is_told_so(gateway: GatewayServer) -> None:
    """A refused state comes back as an error frame to its sender; an accepted one does not."""
    room = Room(gateway)
    async with room.client() as client, room.client() as other:
        await client.greeted()
        await other.greeted()
        await client.set_state(_state(10, ["valid"], "client"))
        await client.set_state(_state(-1, ["invalid"], "client"))

        assert await client.got("cf_agent_state_error") == REJECTED
        await client.result("getState")
        await other.result("getState")
        assert len(client.of("cf_agent_state_error")) == 1
        assert other.of("cf_agent_state_error") == []
        assert other.states == [COUNTER, _state(10, ["valid"], "client")]


async def test_w021_the_source_is_the_connection(gateway: GatewayServer) -> None:
    """The change hook of a client's state is given the client's id."""
    room = Room(gateway)
    async with room.client("?_pk=client-one") as client:
        await client.set_state(_state(99, [], ""))

        async def noted() -> None:
            assert (await client.result("noted"))["changes"][-1] == [99, "client-one"]

        await assert_eventually(noted)


@pytest.mark.usefixtures("unhurried_echo")
async def test_w283_a_sender_is_not_told_its_own_state(gateway: GatewayServer) -> None:
    """B gets what A sends; A gets nothing."""
    room, state = Room(gateway), _state(5, [], "")
    async with room.client() as a, room.client() as b:
        await a.greeted()
        await a.result("getState")
        await a.set_state(state)
        await b.told(state)
        await a.result("getState")

        assert a.states == [COUNTER]


async def test_w284_w285_states_come_before_the_answer(gateway: GatewayServer) -> None:
    """The caller reads the states that its call made first, equal ones too."""
    room, state = Room(gateway), _state(5, [], "")
    async with room.client() as a, room.client() as b:
        await b.greeted()
        for _ in "ab":
            await a.result("setState", state)

        kinds = [frame["type"] for frame in a.frames]
        assert kinds[3:] == ["cf_agent_state", "rpc", "cf_agent_state", "rpc"]
        await b.result("getState")
        assert b.states == [COUNTER, state, state]


async def test_a_crossed_writer_converges(gateway: GatewayServer) -> None:
    """Fault 4: whoever wrote while another's state was on its way ends with what is stored.

    Also when it writes again before it has read the echo.
    """
    room = Room(gateway)
    async with room.client() as a, room.client() as b:
        await a.greeted()
        await b.result("setState", _state(1, [], ""))
        for count in (2, 3, 4):
            await a.set_state(_state(count, [], ""))

        await a.told(_state(4, [], ""))
        assert a.states[-1] == await b.result("getState")


@pytest.mark.usefixtures("unhurried_echo")
async def test_a_typing_writer_is_not_interrupted(gateway: GatewayServer) -> None:
    """The echo waits until the writer is quiet: it never shows an older state."""
    room = Room(gateway)
    async with room.client() as a, room.client() as b:
        await a.greeted()
        await b.result("setState", _state(1, [], ""))
        for count in range(2, 12):
            await a.set_state(_state(count, [], ""))
            await b.told(_state(count, [], ""))

        await a.told(_state(11, [], ""))
        assert a.states == [COUNTER, _state(1, [], ""), _state(11, [], "")]


async def test_w289_a_write_from_before_a_reconnect_is_echoed(
    gateway: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 5: a client that comes back and writes first ends with what is stored."""
    # Longer than a slow machine takes between a connection and its first frame.
    monkeypatch.setattr(feed, "_REOPENED_SECONDS", 60.0)
    room = Room(gateway)
    async with room.client("?_pk=again") as first:
        await first.greeted()
    await room.agent.set_state(_state(500, [], ""))
    async with room.client("?_pk=again") as back:
        await back.set_state(_state(1, [], ""))
        await back.told(_state(1, [], ""))

        assert back.states == [_state(500, [], ""), _state(1, [], "")]
        assert (await room.agent.get_state()).value == _state(1, [], "")
