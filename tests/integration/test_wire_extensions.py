"""What clients of ours may ask for, and that stock clients never see any of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection

from agent_runtime import Agent
from agent_runtime.agent_connection import Connection, Message
from agent_runtime.gateway.access import Tokens
from agent_runtime.http_message import Request
from agent_runtime.identity import AgentRef
from tests.conftest import Serve
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

EXTENDED = "/agents/board/a?agent_runtime=1"
STOCK = "/agents/board/a"
FULL, READONLY = "a-token-that-may-do-everything", "a-token-that-may-only-read"


class Board(Agent):
    """Refuses negative scores, and echoes what is no frame of the protocol."""

    initial_state = {"score": 0, "items": list(range(40))}

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Scores are not negative."""
        if next_state.get("score", 0) < 0:
            raise ValueError("below zero")

    def should_send_protocol_messages(self, connection: Connection, request: Request) -> bool:
        """Quiet clients ask for none."""
        return "quiet" not in request.url

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Send it back."""
        assert isinstance(message, str)
        await connection.send({"type": "heard", "text": message})


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of boards."""
    async with live_gateway(serve, Board) as started:
        yield started


async def greeting(socket: ClientConnection) -> list[Any]:
    """Return the frames up to the one that ends every greeting."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        while not found or found[-1]["type"] != "cf_agent_mcp_servers":
            found.append(orjson.loads(await socket.recv()))
    return found


async def mutate(socket: ClientConnection, kind: str, value: Any = None, **fields: Any) -> Any:
    """Send a mutation and return its answer; state frames before it are left out."""
    frame = {"type": "agent_runtime_mutate", "id": "m", "kind": kind, "value": value, **fields}
    await socket.send(orjson.dumps(frame).decode())
    async with asyncio.timeout(60):
        while True:
            answer = orjson.loads(await socket.recv())
            if answer.get("id") == "m":
                return answer


async def life(live: LiveGateway) -> int:
    """Return what tells this agent from a former one of its name."""
    stored = await live.gateway.storage.read_state(AgentRef("Board", "a"))
    assert stored is not None
    return stored.agent_id


async def test_state_frames_have_versions(live: LiveGateway) -> None:
    """In the greeting and on each update, one's own too."""
    async with live.connect(EXTENDED) as socket:
        first = await greeting(socket)
        own = {"type": "cf_agent_state", "state": {"score": 1}}
        await socket.send(orjson.dumps(own).decode())
        second = await next_frame(socket, "cf_agent_state")
        await live.served.client.agent("Board", "a").merge_state({"score": 2})
        third = await next_frame(socket, "cf_agent_state")

    assert [frame["type"] for frame in first] == [
        "cf_agent_identity",
        "cf_agent_state",
        "cf_agent_mcp_servers",
    ]
    assert (first[0]["stateFollows"], first[1]["version"]) == (True, 1)
    assert (second["version"], second["state"]) == (2, {"score": 1})
    assert (third["version"], third["state"]) == (3, {"score": 2})


async def test_stock_clients_see_nothing_of_it(live: LiveGateway) -> None:
    """No version, no delta, no receipt: a mutation of theirs is a message to the author."""
    async with live.connect(f"{STOCK}?deltas=1&resume_from=1") as stock:
        first = await greeting(stock)
        async with live.connect(f"{EXTENDED}&deltas=1") as extended:
            await greeting(extended)
            await mutate(extended, "merge", {"score": 1})
            told = await next_frame(stock, "cf_agent_state")
        await stock.send('{"type":"agent_runtime_mutate","id":"1","kind":"reset"}')
        heard = await next_frame(stock, "heard")

    assert set(first[1]) == set(told) == {"type", "state"}
    assert "agent_runtime_mutate" in heard["text"]


async def test_mutations_are_acknowledged(live: LiveGateway) -> None:
    """With version, applied and duplicate; the state comes before the receipt."""
    async with live.connect(EXTENDED) as socket:
        await greeting(socket)
        frame = {"type": "agent_runtime_mutate", "id": "1", "kind": "merge", "value": {"score": 5}}
        await socket.send(orjson.dumps({**frame, "key": "k"}).decode())
        frames = [orjson.loads(await socket.recv()) for _ in range(2)]
        again = await mutate(socket, "merge", {"score": 5}, key="k")
        reset = await mutate(socket, "reset")
        put = await mutate(socket, "set", {"score": 9}, expected_version=3)

    assert [frame["type"] for frame in frames] == ["cf_agent_state", "agent_runtime_receipt"]
    assert (frames[0]["version"], frames[0]["state"]["score"]) == (2, 5)
    receipt = {"type": "agent_runtime_receipt", "id": "1", "version": 2}
    assert frames[1] == {**receipt, "applied": True, "duplicate": False}
    assert again == {**receipt, "id": "m", "applied": False, "duplicate": True}
    assert (reset["version"], put["version"]) == (3, 4)


@pytest.mark.parametrize(
    ("kind", "value", "fields", "error"),
    [
        ("set", {"score": -1}, {}, "StateRejectedError"),
        ("merge", [1], {}, "StateRejectedError"),
        ("set", {}, {"expected_version": 7}, "VersionConflictError"),
        ("set", {}, {"expected_version": "7"}, "InvalidRequestError"),
        ("set", {}, {"key": ""}, "InvalidRequestError"),
        ("set", {}, {"key": 5}, "InvalidRequestError"),
        ("set", {}, {"expectedVersion": 1}, "InvalidRequestError"),
        ("call", {}, {}, "InvalidRequestError"),
        ("set", "x" * 2_000_001, {}, "StateTooLargeError"),
    ],
)
async def test_refusals_say_why(
    live: LiveGateway, kind: str, value: Any, fields: dict[str, Any], error: str
) -> None:
    """Type, message and details, to the sender alone; nothing is stored."""
    async with live.connect(EXTENDED) as socket:
        await greeting(socket)
        answer = await mutate(socket, kind, value, **fields)
    state = await live.served.client.agent("Board", "a").get_state()

    assert (answer["type"], answer["error"]["type"]) == ("agent_runtime_refused", error)
    assert (len(answer["error"]["message"]) > 5, state.version) == (True, 1)


async def test_a_readonly_connection_may_not(serve: Serve) -> None:
    """As with state frames."""
    tokens = Tokens([FULL], [READONLY])
    async with (
        live_gateway(serve, Board, tokens=tokens) as live,
        live.connect(f"{EXTENDED}&token={READONLY}") as socket,
    ):
        await greeting(socket)
        answer = await mutate(socket, "reset")

    assert answer["error"]["type"] == "ReadonlyConnectionError"


async def test_deltas_are_what_has_changed(live: LiveGateway) -> None:
    """From one version to the next, where that is shorter than the state."""
    agent = live.served.client.agent("Board", "a")
    async with live.connect(f"{EXTENDED}&deltas=1") as socket:
        first = await greeting(socket)
        await agent.merge_state({"score": 1})
        delta = await next_frame(socket, "agent_runtime_delta")
        await agent.set_state({"score": 2})
        whole = await next_frame(socket, "cf_agent_state")

    patch = [{"op": "replace", "path": "/score", "value": 1}]
    assert delta == {
        "type": "agent_runtime_delta", "from_version": 1, "version": 2, "patch": patch,
    }  # fmt: skip
    assert (first[1]["version"], whole["version"], whole["state"]) == (1, 3, {"score": 2})


@pytest.mark.parametrize(
    ("known", "versions", "follows"),
    [
        (2, [3, 4, 5], True),
        (5, [], None),
        (4, [5], True),
        (9, [5], True),
        (0, [5], True),
        ("x", [5], True),
    ],
)
async def test_a_client_resumes(
    live: LiveGateway, known: Any, versions: list[int], follows: bool | None
) -> None:
    """It is told what it missed, nothing if that is nothing, and the newest if it is not known."""
    agent = live.served.client.agent("Board", "a")
    await agent.get_state()
    for score in range(2, 6):
        await agent.merge_state({"score": score})
    async with live.connect(f"{EXTENDED}&resume_from={known}&life={await life(live)}") as socket:
        frames = await greeting(socket)
    states = [frame for frame in frames if frame["type"] == "cf_agent_state"]

    assert [frame["version"] for frame in states] == versions
    assert [frame["state"]["score"] for frame in states] == versions
    assert [len(frame["state"]["items"]) for frame in states] == [40] * len(versions)
    assert frames[0].get("stateFollows") == follows


async def test_a_client_resumes_with_deltas(live: LiveGateway) -> None:
    """The first one builds on what it knows already."""
    agent = live.served.client.agent("Board", "a")
    await agent.get_state()
    await agent.merge_state({"score": 2})
    async with live.connect(f"{EXTENDED}&resume_from=1&deltas=1&life={await life(live)}") as socket:
        frames = await greeting(socket)

    assert [frame["type"] for frame in frames][1] == "agent_runtime_delta"
    assert (frames[1]["from_version"], frames[1]["version"]) == (1, 2)


async def test_what_is_known_of_a_former_agent_is_no_base(live: LiveGateway) -> None:
    """After a destroy the newest state comes whole, whatever version the client had."""
    agent = live.served.client.agent("Board", "a")
    for score in (1, 2, 3):
        await agent.set_state({"score": score})
    async with live.connect(EXTENDED) as socket:
        former = (await greeting(socket))[0]["life"]
    await agent.destroy()
    for score in (7, 8, 9):
        await agent.set_state({"score": score})
    async with live.connect(f"{EXTENDED}&deltas=1&resume_from=2&life={former}") as socket:
        frames = await greeting(socket)

    assert frames[0]["life"] == await life(live) != former
    assert [(frame["version"], frame["state"]) for frame in frames[1:-1]] == [(3, {"score": 9})]


async def test_a_client_that_missed_much_gets_the_newest(live: LiveGateway) -> None:
    """One frame in place of hundreds."""
    agent = live.served.client.agent("Board", "a")
    for score in range(120):
        await agent.set_state({"score": score})
    async with live.connect(f"{EXTENDED}&resume_from=3&life={await life(live)}") as socket:
        frames = await greeting(socket)

    assert [frame.get("version") for frame in frames] == [None, 120, None]


async def test_under_writes_deltas_end_at_the_newest(live: LiveGateway) -> None:
    """Connecting in the middle of writes, each frame builds on the one before."""
    agent = live.served.client.agent("Board", "a")
    await agent.get_state()

    async def write() -> None:
        for score in range(1, 151):
            await agent.merge_state({"score": score})

    writing = asyncio.create_task(write())
    version, scores = 0, []
    async with live.connect(f"{EXTENDED}&deltas=1&resume_from=1&life={await life(live)}") as socket:
        while version < 151:
            frame = orjson.loads(await asyncio.wait_for(socket.recv(), 60))
            if frame["type"] == "agent_runtime_delta":
                assert frame["from_version"] == (version or 1)
                scores += [operation["value"] for operation in frame["patch"]]
            elif frame["type"] == "cf_agent_state":
                scores.append(frame["state"]["score"])
            else:
                continue
            version = frame["version"]
            assert scores[-1] == version - 1
    await writing


async def test_a_client_without_protocol_frames_gets_what_is_sent_to_it(live: LiveGateway) -> None:
    """There is no greeting to wait for."""
    async with live.connect(f"{EXTENDED}&quiet=1") as socket:
        await socket.send("hello")
        heard = await next_frame(socket, "heard")
        answer = await mutate(socket, "merge", {"score": 1})

    assert (heard["text"], answer["type"]) == ("hello", "agent_runtime_receipt")


async def test_half_characters_in_a_mutation_are_replaced(live: LiveGateway) -> None:
    """Browsers write them as escapes; the frame is answered and is no message of the author's."""
    async with live.connect(EXTENDED) as socket:
        await greeting(socket)
        frame = r'{"type":"agent_runtime_mutate","id":"m","kind":"set","value":{"cut":"\ud83d"}}'
        await socket.send(frame)
        state = await next_frame(socket, "cf_agent_state")
        answer = await next_frame(socket, "agent_runtime_receipt")

    assert state["state"] == {"cut": "\ufffd"}
    assert (answer["id"], answer["applied"]) == ("m", True)
