"""What the Python client does where a gateway does what ours does not: sends written by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import orjson
import pytest
from websockets.asyncio.server import ServerConnection, serve

from agent_runtime import GatewayClient
from agent_runtime.errors import ConfigurationError, InvalidRequestError, UnavailableError

GREETED = {"type": "cf_agent_mcp_servers"}


def state(version: int, value: Any) -> dict[str, Any]:
    """Return a state frame."""
    return {"type": "cf_agent_state", "version": version, "state": value}


def delta(before: int, version: int, path: str, value: Any) -> dict[str, Any]:
    """Return a delta that replaces one place."""
    patch = [{"op": "replace", "path": path, "value": value}]
    return {
        "type": "agent_runtime_delta", "from_version": before, "version": version, "patch": patch,
    }  # fmt: skip


class Script:
    """Frames for each connection in turn, and the code that each but the last is closed with."""

    def __init__(self, *connections: list[Any], code: int = 1012) -> None:
        self._connections = list(connections)
        self._code = code
        self.resumed: list[str | None] = []

    async def play(self, socket: ServerConnection) -> None:
        """Serve one connection."""
        assert socket.request is not None
        query = parse_qs(urlsplit(socket.request.path).query)
        self.resumed.append(query.get("resume_from", [None])[0])
        for frame in self._connections.pop(0):
            await socket.send(frame if isinstance(frame, str) else orjson.dumps(frame).decode())
        if self._connections:
            await socket.recv() if self._code != 1012 else None
            await socket.close(self._code, "away")
        else:
            await socket.wait_closed()


@asynccontextmanager
async def playing(script: Script) -> AsyncIterator[GatewayClient]:
    """Return a client of a server that plays a script."""
    async with serve(script.play, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with GatewayClient(f"http://127.0.0.1:{port}") as client:
            yield client


async def versions(client: GatewayClient, count: int) -> list[tuple[int, Any]]:
    """Return the first states of a subscription."""
    found: list[tuple[int, Any]] = []
    async with asyncio.timeout(60), client.agent("Board", "a").subscribe() as states:
        while len(found) < count:
            snapshot = await anext(states)
            found.append((snapshot.version, snapshot.value))
    return found


async def test_nothing_older_is_shown() -> None:
    """Also where a gateway has fallen back behind what it told before."""
    script = Script(
        [state(1, "a"), state(5, "e"), GREETED],
        [state(3, "c"), GREETED, state(4, "d"), state(5, "e"), state(6, "f")],
    )
    async with playing(script) as client:
        found = await versions(client, 3)

    assert found == [(1, "a"), (5, "e"), (6, "f")]
    assert script.resumed == [None, "5"]


@pytest.mark.parametrize("wrong", [delta(7, 8, "/a", 2), delta(1, 2, "/b", 2)])
async def test_a_delta_that_does_not_fit_is_not_guessed_at(wrong: dict[str, Any]) -> None:
    """The client connects anew and asks for the whole state."""
    script = Script([state(1, {"a": 1}), GREETED, wrong], [state(9, {"a": 9}), GREETED])
    async with playing(script) as client:
        found = await versions(client, 2)

    assert found == [(1, {"a": 1}), (9, {"a": 9})]
    assert script.resumed == [None, None]


async def test_what_is_no_frame_is_left_out() -> None:
    """Agents send their clients what they like."""
    script = Script(["hello", [1], {"type": 5}, state(1, "a"), GREETED, delta(1, 2, "", "b")])
    async with playing(script) as client:
        found = await versions(client, 2)

    assert found == [(1, "a"), (2, "b")]


async def test_a_server_without_versions_is_refused() -> None:
    """It does not speak the extension, and no repetition mends that."""
    async with playing(Script([{"type": "cf_agent_state", "state": 1}, GREETED])) as client:
        with pytest.raises(ConfigurationError, match="tells no versions"):
            await versions(client, 1)


@pytest.mark.parametrize(("code", "error"), [(1008, UnavailableError), (1009, InvalidRequestError)])
async def test_what_sends_the_client_away_is_not_repeated(
    code: int, error: type[Exception]
) -> None:
    """Too many frames, or one too long."""
    async with playing(Script([GREETED], [GREETED], code=code)) as client:
        with pytest.raises(error):
            await client.agent("Board", "a").merge_state({"a": 1})


async def test_what_is_closed_at_once_is_repeated() -> None:
    """Under the same key."""
    heard: list[Any] = []

    async def answer(socket: ServerConnection) -> None:
        heard.append(orjson.loads(await socket.recv()))
        if len(heard) == 3:
            receipt = {"version": 2, "applied": False, "duplicate": True}
            frame = {"type": "agent_runtime_receipt", "id": heard[-1]["id"], **receipt}
            await socket.send(orjson.dumps(frame).decode())
            await socket.wait_closed()

    async with serve(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with GatewayClient(f"http://127.0.0.1:{port}") as client:
            receipt = await client.agent("Board", "a").merge_state({"a": 1})

    assert (receipt.version, receipt.duplicate) == (2, True)
    assert heard[0]["key"] and heard == [heard[0]] * 3
