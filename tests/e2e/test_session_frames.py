"""The status of an agent's conversations, as its clients are told (sessions 10.1)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from agent_runtime.session.message import text_message
from tests.e2e.conftest import Shell
from tests.e2e.wire import WireClient
from tests.support.eventually import assert_eventually
from tests.support.gateway_server import GatewayServer

STATUS = "cf_agent_session"
ERROR = "cf_agent_session_error"
LISTENING = """
    const a = connect("SummaryAgent", name);
    const told = [];
    a.addEventListener("message", ({ data }) => {
      const { type, phase, tokenEstimate, compacted, error } = JSON.parse(data);
      if (type === "cf_agent_session_error") told.push(error);
      const from = compacted ? ` from ${compacted.tokensBefore}` : "";
      if (type === "cf_agent_session") told.push(`${phase} ${tokenEstimate}${from}`);
    });
    await a.ready;
"""
"""A stock client that notes the frames in short."""
BEGINS = ["idle 24", "idle 48", "idle 72", "compacting 72"]
FAILED = "The model's provider refused the request as written; correct it or the configuration."
"""What clients are told in place of the provider's words."""

ENDS = [
    ("short", ["idle 7 from 72"], 0),
    ("idle", ["idle 72"], 0),
    ("lost", ["idle 72"], 1),
    ("failing", [FAILED, "idle 72"], 1),
]
"""What becomes of a compaction, how that is told, and how many errors the handler is given."""


def _room() -> str:
    return f"room-{uuid4().hex[:8]}"


class Room:
    """A fresh agent and clients of it."""

    def __init__(self, gateway: GatewayServer) -> None:
        self.name = _room()
        self._gateway = gateway
        self.agent = gateway.gateway.client.agent("SummaryAgent", self.name)

    def client(self, flags: str = "") -> WireClient:
        """Return a client with flags, to be entered."""
        path = f"/agents/summary-agent/{self.name}?_pk={uuid4()}{flags}"
        return WireClient(self._gateway.host, path)


def phases(client: WireClient) -> list[str]:
    """Return what a client was told so far, in a word each; a plus sign tells of a compaction."""
    return [_in_a_word(frame) for frame in client.frames if frame["type"] in (STATUS, ERROR)]


def _in_a_word(frame: dict[str, Any]) -> str:
    if frame["type"] == ERROR:
        return "error"
    return f"{frame['phase']}{'+' if 'compacted' in frame else ''}"


async def assert_phases(client: WireClient, *expected: str) -> None:
    """Wait until a client was told all of it, and no more than that."""

    async def are_told() -> None:
        assert phases(client) == [*expected]

    await assert_eventually(are_told)


@pytest.mark.parametrize(("outcome", "ends", "errors"), ENDS)
async def test_a_stock_client_is_told_before_an_inline_append_returns(
    shell: Shell, outcome: str, ends: list[str], errors: int
) -> None:
    """Each append is idle, the one above the threshold goes on with its compaction."""
    found = await shell.run(
        LISTENING
        + """await a.call("append", [which, "m0", "m1", "m2"]);
        return [[...told], await a.call("countErrors")];""",
        name=_room(),
        which=f"{outcome}-inline",
    )

    assert found == [[*BEGINS, *ends], errors]


@pytest.mark.parametrize(("outcome", "ends", "errors"), ENDS)
async def test_a_stock_client_is_told_of_a_compaction_in_the_background(
    shell: Shell, outcome: str, ends: list[str], errors: int
) -> None:
    """The same frames in the same order, only later."""
    found = await shell.run(
        LISTENING
        + """await a.call("append", [which, "m0", "m1", "m2"]);
        await until(() => told.length >= count);
        return [told, await a.call("countErrors")];""",
        name=_room(),
        which=f"{outcome}-background",
        count=len(BEGINS) + len(ends),
    )

    assert found == [[*BEGINS, *ends], errors]


@pytest.mark.parametrize(("outcome", "ends", "errors"), ENDS)
async def test_a_stock_client_is_told_of_a_compaction_that_was_asked_for(
    shell: Shell, outcome: str, ends: list[str], errors: int
) -> None:
    """Two frames, or an error between them; the handler of automatic ones is told of nothing."""
    found = await shell.run(
        LISTENING
        + """await a.call("appendAll", [which, "m0", "m1"]);
        const isDone = await a.call("compact", [which]);
        return [told, isDone, await a.call("countErrors")];""",
        name=_room(),
        which=f"{outcome}-background",
    )

    told = [each.replace("72", "48") for each in ["compacting 72", *ends]]
    assert found == [["idle 48", *told], outcome == "short", 0]


async def test_every_client_of_the_agent_is_told_and_nobody_else(gateway: GatewayServer) -> None:
    """Whoever causes it: a client, or a service; a client of another agent hears nothing."""
    room, other = Room(gateway), Room(gateway)
    async with room.client() as one, room.client() as two, other.client() as stranger:
        for client in (one, two, stranger):
            await client.greeted()

        await one.result("append", "short-inline", "m0", "m1", "m2")
        await room.agent.session("plain").append_message(text_message("user", "hi", id="m0"))

        expected = ["idle", "idle", "idle", "compacting", "idle+", "idle"]
        await assert_phases(one, *expected)
        await assert_phases(two, *expected)
        assert one.of(STATUS) == two.of(STATUS)
        await stranger.result("append", "plain", "m0")
        assert phases(stranger) == ["idle"]


async def test_clients_without_rights_or_protocol_are_told_too(gateway: GatewayServer) -> None:
    """Read-only ones, and those that get no protocol frames (state-and-sync 10)."""
    room = Room(gateway)
    reader, silent = room.client("&readonly=true"), room.client("&protocol=false")
    async with room.client() as writer, reader, silent:
        await writer.greeted()
        await reader.greeted()

        await silent.result("append", "plain", "m0")
        await reader.result("append", "plain", "m1")
        await writer.result("append", "failing-inline", "m0", "m1", "m2")

        expected = ["idle"] * 5 + ["compacting", "error", "idle"]
        for client in (writer, reader, silent):
            await assert_phases(client, *expected)
        assert silent.kinds == []


async def test_frames_and_states_come_in_the_order_of_the_handler(gateway: GatewayServer) -> None:
    """The state set before an append is told before its frame, the one set after it after it."""
    async with Room(gateway).client() as client:
        await client.greeted()
        greeting = len(client.frames)

        await client.result("count", "m0", "m1")

        seen = [
            frame["state"]["count"] if frame["type"] == "cf_agent_state" else frame["type"]
            for frame in client.frames[greeting:]
        ]
        assert seen == [1, STATUS, 2, STATUS, 3, "rpc"]


async def test_a_greeting_s_frame_follows_the_protocol_s(gateway: GatewayServer) -> None:
    """A message that is appended as a client connects is told to that client, last."""
    async with Room(gateway).client("&greet=true") as client:
        frames = await client.first(4)

        assert [frame["type"] for frame in frames] == [
            "cf_agent_identity",
            "cf_agent_state",
            "cf_agent_mcp_servers",
            STATUS,
        ]
        assert frames[-1] == {
            "type": STATUS,
            "phase": "idle",
            "tokenEstimate": 6,
            "tokenThreshold": 60,
        }


async def test_each_operation_tells_its_frames(gateway: GatewayServer) -> None:
    """Row by row of the table; a list of messages is told once (19.3)."""
    async with Room(gateway).client() as client:

        async def told_of(method: str, *args: Any) -> list[str]:
            before = len(phases(client))
            await client.result(method, "plain", *args)
            return phases(client)[before:]

        assert await told_of("appendAll", "m0", "m1") == ["idle"]
        assert await told_of("append", "m1") == ["idle"]
        assert await told_of("change", "m1") == ["idle"]
        assert await told_of("drop", "m1") == ["idle"]
        assert await told_of("keepBusy", "m0") == []
        assert await told_of("clear") == ["idle"]
        assert await told_of("append", "m2") == ["idle"]
        assert await told_of("compact") == ["compacting", "idle+"]
