"""Readonly connections and those without protocol frames: the contract's cases 41 to 75."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from tests.e2e.wire import PROTOCOL, WireClient
from tests.support.gateway_server import GatewayServer

REFUSED = {"type": "cf_agent_state_error", "error": "Connection is readonly"}
READONLY = "&readonly=true"
SILENT = "&protocol=false"
ZERO = {"count": 0}


class Room:
    """A fresh agent whose connections have flags."""

    def __init__(self, gateway: GatewayServer, agent: str = "protocol-agent") -> None:
        self._path = f"/agents/{agent}/room-{uuid4().hex[:8]}"
        self._host = gateway.host

    def client(self, name: str = "", flags: str = "") -> WireClient:
        """Return a client with a connection id and flags, to be entered."""
        return WireClient(self._host, f"{self._path}?_pk={name or uuid4()}{flags}")


async def _refused(client: WireClient, count: int = 1) -> None:
    await client.set_state({"count": 999})
    assert await client.got("cf_agent_state_error", count) == REFUSED


async def _increment_fails(client: WireClient) -> None:
    answer = await client.call("increment")
    assert (answer["success"], answer["error"]) == (False, "Connection is readonly")


async def test_w041_w051_a_readonly_client_is_told_everything(gateway: GatewayServer) -> None:
    """It gets the state at connect and the changes of others."""
    room = Room(gateway)
    async with room.client("w") as writer, room.client("r", READONLY) as reader:
        await writer.greeted()
        await reader.greeted()
        assert writer.states == reader.states == [ZERO]

        await writer.result("increment")
        await reader.told({"count": 1})


async def test_w042_w043_a_readonly_client_s_state_is_refused(gateway: GatewayServer) -> None:
    """With an error frame, which a writer does not get."""
    room = Room(gateway)
    async with room.client("w") as writer, room.client("r", READONLY) as reader:
        await _refused(reader)
        await writer.set_state({"count": 5})

        assert await writer.result("getState") == {"count": 5}
        assert writer.of("cf_agent_state_error") == []


async def test_w044_to_w046_calls_of_readonly_clients(gateway: GatewayServer) -> None:
    """Methods that read work, those that set the state fail; a writer's succeed."""
    room = Room(gateway)
    async with room.client("w") as writer, room.client("r", READONLY) as reader:
        await _increment_fails(reader)
        assert await reader.result("getState") == ZERO
        assert await writer.result("increment") == 1


async def test_w047_to_w050_the_flag_can_be_changed(gateway: GatewayServer) -> None:
    """Another client makes one readonly and lets it write again; the flag is told by id."""
    room = Room(gateway)
    async with room.client("first") as first, room.client("second") as second:
        await first.greeted()
        assert (await second.result("flags", "first"))["readonly"] is False
        made = await second.result("setReadonly", "first", True)
        assert made["readonly"] is True
        assert (await second.result("flags", "first"))["readonly"] is True
        assert (await second.result("flags", "second"))["readonly"] is False
        await _increment_fails(first)
        await _refused(first)

        await second.result("setReadonly", "first", False)
        assert await first.result("increment") == 1


async def test_w052_w053_the_hook_is_asked_for_each_connection(gateway: GatewayServer) -> None:
    """A readonly client that comes back is readonly; a writer beside it is not."""
    room = Room(gateway)
    async with room.client("r", READONLY) as reader:
        await _refused(reader)
    async with room.client("r", READONLY) as reader, room.client("w") as writer:
        await _refused(reader)
        assert await writer.result("increment") == 1


async def test_w054_to_w056_the_flag_is_no_part_of_the_attached_state(
    gateway: GatewayServer,
) -> None:
    """What the author attaches is all that is read back, and the flag stays."""
    room = Room(gateway)
    async with room.client("r", READONLY) as reader:
        await _attached_keeps_flags(reader, "r", readonly=True, protocol=True)


async def test_w057_refusals_change_nothing(gateway: GatewayServer) -> None:
    """Three refused calls, then the state is as before."""
    async with Room(gateway).client("r", READONLY) as reader:
        for _ in range(3):
            await _increment_fails(reader)
        assert await reader.result("getState") == ZERO


async def test_w058_w059_an_ordinary_client_gets_the_protocol(gateway: GatewayServer) -> None:
    """All three types, the state once."""
    async with Room(gateway).client() as client:
        await client.greeted()
        await client.result("getState")
        assert client.kinds == list(PROTOCOL)
        assert client.states == [ZERO]


async def test_w061_w064_w065_a_silent_client_gets_none_of_it(gateway: GatewayServer) -> None:
    """No frame of the three types, and its calls work."""
    async with Room(gateway).client(flags=SILENT) as client:
        assert await client.result("getState") == ZERO
        assert await client.result("increment") == 1
        assert client.kinds == []


async def test_w062_w063_the_flag_is_told_by_id(gateway: GatewayServer) -> None:
    """On for an ordinary connection, off for a silent one."""
    room = Room(gateway)
    async with room.client("on") as on, room.client("off", SILENT) as off:
        await on.greeted()
        assert (await off.result("flags", "on"))["protocol"] is True
        assert (await on.result("flags", "off"))["protocol"] is False


async def test_w066_to_w068_changes_reach_ordinary_clients_only(gateway: GatewayServer) -> None:
    """Whoever makes them."""
    room = Room(gateway)
    async with room.client() as one, room.client() as two, room.client(flags=SILENT) as silent:
        await two.greeted()
        assert await one.result("getState") == await silent.result("getState") == ZERO
        assert await silent.result("increment") == 1
        assert await one.result("increment") == 2

        await two.told({"count": 2})
        await silent.result("getState")
        assert two.states == [ZERO, {"count": 1}, {"count": 2}]
        assert silent.kinds == []


async def test_w069_w070_what_was_before_does_not_matter(gateway: GatewayServer) -> None:
    """An ordinary client after a silent one gets all types, a silent one after it none."""
    room = Room(gateway)
    async with room.client(flags=SILENT) as silent:
        await silent.result("increment")
    async with room.client() as ordinary:
        await ordinary.greeted()
        await ordinary.result("increment")
        assert ordinary.kinds == [*PROTOCOL, "cf_agent_state"]
    async with room.client(flags=SILENT) as silent:
        assert await silent.result("getState") == {"count": 2}
        assert silent.kinds == []


async def test_w071_to_w073_attached_state_beside_the_flag(gateway: GatewayServer) -> None:
    """As for readonly connections."""
    async with Room(gateway).client("s", SILENT) as silent:
        await _attached_keeps_flags(silent, "s", readonly=False, protocol=False)


async def test_w074_w075_both_flags(gateway: GatewayServer) -> None:
    """They combine, and stay with what is attached."""
    async with Room(gateway).client("both", SILENT + READONLY) as client:
        await _attached_keeps_flags(client, "both", readonly=True, protocol=False)
        await _increment_fails(client)
        assert await client.result("getState") == ZERO
        await _refused(client)
        assert client.kinds == []


async def _attached_keeps_flags(
    client: WireClient, name: str, *, readonly: bool, protocol: bool
) -> None:
    async def check(state: Any) -> None:
        flags = {"state": state, "readonly": readonly, "protocol": protocol}
        assert await client.result("flags", name) == flags

    await check(None)
    assert await client.result("attach", name, {"myData": "hello"}) == {"myData": "hello"}
    await check({"myData": "hello"})
    await client.result("attach", name, {"existing": "data"})
    await client.result("attach", name, {"extra": "info"}, True)
    await check({"existing": "data", "extra": "info"})
