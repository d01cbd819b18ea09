"""The example game's agent, spoken to by clients that do what no page of it would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection

from examples.game.agents import GameAgent
from tests.conftest import Serve
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame


class Client:
    """A client of one table, on a bare socket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def call(self, method: str, *args: Any) -> Any:
        """Call a method and return the frame that answers."""
        frame = {"type": "rpc", "id": method, "method": method, "args": args}
        await self.socket.send(orjson.dumps(frame).decode())
        return await next_frame(self.socket, "rpc")

    async def refused_state(self, state: Any) -> str:
        """Set the state and return why it is refused."""
        frame = {"type": "cf_agent_state", "state": state}
        await self.socket.send(orjson.dumps(frame).decode())
        answer = await next_frame(self.socket, "cf_agent_state_error")
        reason: str = answer["error"]
        return reason


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """The game behind a gateway."""
    async with live_gateway(serve, GameAgent) as opened:
        yield opened


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    """Closes the sockets of a test."""
    async with AsyncExitStack() as opened:
        yield opened


async def enter(live: LiveGateway, stack: AsyncExitStack, who: str, query: str = "") -> Client:
    """Connect to a table under a connection id."""
    path = f"/agents/game-agent/kitchen?_pk={who}{query}"
    return Client(await stack.enter_async_context(live.connect(path)))


async def sit_down_two(live: LiveGateway, stack: AsyncExitStack) -> tuple[Client, Client]:
    """Let Ada and Bob sit down, and wait until the game has begun."""
    ada, bob = await enter(live, stack, "ada"), await enter(live, stack, "bob")
    for client, name in ((ada, "Ada"), (bob, "Bob")):
        assert (await client.call("join", name))["success"]
    while (await next_frame(ada.socket, "cf_agent_state"))["state"]["status"] != "playing":
        pass
    return ada, bob


async def table(live: LiveGateway) -> Any:
    """Return the stored state."""
    return (await live.served.client.agent("GameAgent", "kitchen").get_state()).value


async def test_a_page_cannot_cheat_by_setting_the_state(
    live: LiveGateway, stack: AsyncExitStack
) -> None:
    """Discs, wins, seats and the other's name are not the page's to set; the own name is."""
    ada, _ = await sit_down_two(live, stack)
    before = await table(live)
    forged: list[Any] = []
    for path, value in (
        (("columns",), [[0], [0], [0], [], [], [], []]),
        (("turn",), 1),
        (("players", 0, "wins"), 9),
        (("players", 1, "seat"), before["players"][0]["seat"]),
        (("players", 1, "name"), "Mud"),
        (("players",), before["players"][:1]),
    ):
        forged.append(orjson.loads(orjson.dumps(before)))
        place = forged[-1]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    reasons = [await ada.refused_state(state) for state in forged]

    assert reasons == ["State update rejected"] * len(forged)
    assert await table(live) == before


async def test_a_spectator_cannot_change_the_game_in_any_way(
    live: LiveGateway, stack: AsyncExitStack
) -> None:
    """States and calls of a spectator are refused as read-only."""
    await sit_down_two(live, stack)
    before = await table(live)
    watcher = await enter(live, stack, "watcher", "&watch=1")

    assert await watcher.refused_state(before) == "Connection is readonly"
    for method, args in (("join", ["Eve"]), ("play", [0]), ("play_again", []), ("leave", [])):
        answer = await watcher.call(method, *args)
        assert not answer["success"], method
    assert await table(live) == before


async def test_a_player_moves_once_in_a_turn(live: LiveGateway, stack: AsyncExitStack) -> None:
    """Of two taps at the same moment one is a move and the other is refused."""
    await sit_down_two(live, stack)
    again = await enter(live, stack, "ada")
    other = await enter(live, stack, "ada")

    answers = await asyncio.gather(again.call("play", 2), other.call("play", 4))

    assert sorted(answer["success"] for answer in answers) == [False, True]
    assert {answer.get("error") for answer in answers} == {None, "It is Bob's turn"}
    assert sum(len(discs) for discs in (await table(live))["columns"]) == 1


async def test_one_seat_each(live: LiveGateway, stack: AsyncExitStack) -> None:
    """Who joins twice has one seat, and a third finds the table full."""
    ada, _ = await sit_down_two(live, stack)
    third = await enter(live, stack, "cy")

    assert (await ada.call("join", "Ada again"))["success"]
    assert (await third.call("join", "Cy"))["error"] == "The table is full"
    assert [player["name"] for player in (await table(live))["players"]] == ["Ada", "Bob"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ADA", "Somebody at the table has that name"),
        ("  ", "A name has 1 to 20 characters"),
        ("x" * 21, "A name has 1 to 20 characters"),
    ],
)
async def test_names_that_are_refused(
    live: LiveGateway, stack: AsyncExitStack, name: str, reason: str
) -> None:
    """A name is short, is there, and differs from the other's in more than its capitals."""
    ada, eve = await enter(live, stack, "ada"), await enter(live, stack, "eve")
    await ada.call("join", "Ada")

    answer = await eve.call("join", name)

    assert answer["error"] == reason
    assert [player["name"] for player in (await table(live))["players"]] == ["Ada"]
