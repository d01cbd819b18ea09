"""Who gets into a gateway: tokens, origins, host names, and where it may listen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import orjson
import pytest
from websockets.exceptions import InvalidStatus

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection
from agent_runtime.errors import ConfigurationError, ReadonlyConnectionError
from agent_runtime.gateway import http_api
from agent_runtime.gateway.access import Tokens, check_bind, check_origin, read_token_file
from agent_runtime.http_message import Request
from agent_runtime.identity import AgentRef
from tests.conftest import Serve
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

FULL = "a-token-that-may-do-everything"
READONLY = "a-token-that-may-only-read"
ELSEWHERE = "https://elsewhere.example"
PAGE = "https://page.example"


class Room(Agent):
    """Notes how clients came in."""

    initial_state = {"n": 0}
    may_go_on: ClassVar[asyncio.Event]
    said: ClassVar[list[str]]

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Tell the client what is stored of its request."""
        await connection.send(
            {"type": "seen", "url": request.url, "headers": dict(request.headers)}
        )

    async def on_request(self, request: Request) -> Any:
        """Answer with what is seen of the request."""
        return {"method": request.method, "headers": dict(request.headers)}

    @callable()
    async def set(self, n: int) -> int:
        """Change the state from code."""
        await self.set_state({"n": n})
        return n

    @callable()
    async def leave(self) -> None:
        """Destroy the agent."""
        await self.destroy()

    @callable(exclusive=True)
    async def hold(self) -> None:
        """Keep those who wait for their turn waiting."""
        await self.may_go_on.wait()

    @callable(exclusive=True)
    async def set_in_turn(self, n: int) -> None:
        """Change the state when it is its turn, and tell how that went."""
        try:
            await self.set_state({"n": n})
        except ReadonlyConnectionError as error:
            self.said.append(error.message)
        else:
            self.said.append("done")

    @callable()
    async def free(self, is_readonly: bool) -> list[bool]:
        """Change what all connections may do, and tell what is noted of them."""
        for connection in await self.connections():
            await connection.set_readonly(is_readonly)
        return [connection.is_readonly for connection in await self.connections()]


ROOM = "/agents/room/a"
STATE = "/api/agents/Room/a/state"


@pytest.fixture
async def guarded(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway with a full and a read-only token, and an allowed origin."""
    tokens = Tokens([FULL], [READONLY])
    async with live_gateway(serve, Room, tokens=tokens, origins=[PAGE]) as live:
        yield live


@pytest.fixture
async def unguarded(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway without tokens."""
    async with live_gateway(serve, Room) as live:
        yield live


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}


def kind(answer: httpx.Response) -> tuple[int, str]:
    """Return status and kind of a problem."""
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def refusal(live: LiveGateway, path: str, **options: Any) -> int:
    """Return the status that a WebSocket is refused with."""
    with pytest.raises(InvalidStatus) as refused:
        async with live.connect(path, **options):
            pass
    return refused.value.response.status_code


@pytest.mark.parametrize("headers", [{}, bearer("x" * 32), {"Authorization": "Basic x"}])
@pytest.mark.parametrize("path", [STATE, ROOM, "/api/agents", "/x", f"/api/agents?token={FULL}"])
async def test_nothing_is_told_without_a_token(
    guarded: LiveGateway, path: str, headers: dict[str, str]
) -> None:
    """Neither state nor listing nor the agent; a token in the URL of a request is none."""
    answer = await guarded.http.get(path, headers=headers)

    assert kind(answer) == (401, "TokenNeeded")
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_probes_and_the_document_need_none(
    guarded: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say nothing about agents."""
    monkeypatch.setattr(http_api, "_CHECK_SECONDS", 60.0)
    paths = ("/healthz", "/readyz", "/openapi.json")

    assert [(await guarded.http.get(path)).status_code for path in paths] == [200, 200, 200]


async def test_a_full_token_does_everything(guarded: LiveGateway) -> None:
    """It reads, writes and calls."""
    http, headers = guarded.http, bearer(FULL)

    put = await http.put(STATE, json={"n": 1}, headers=headers)
    called = await http.post("/api/agents/Room/a/call/set", json={"args": [2]}, headers=headers)
    got = await http.get(STATE, headers=headers)

    assert (put.status_code, called.json(), got.json()) == (200, {"result": 2}, {"n": 2})


async def test_a_readonly_token_reads(guarded: LiveGateway) -> None:
    """GET answers; whatever may change something is refused, the agent's own routes too."""
    http, headers = guarded.http, bearer(READONLY)
    refused = [
        await http.put(STATE, json={"n": 9}, headers=headers),
        await http.delete(STATE, headers=headers),
        await http.delete("/api/agents/Room/a", headers=headers),
        await http.post("/api/agents/Room/a/call/set", json={"args": [9]}, headers=headers),
        await http.post(ROOM, headers=headers),
    ]

    assert {kind(each) for each in refused} == {(403, "ReadonlyToken")}
    assert (await http.get(STATE, headers=headers)).json() == {"n": 0}
    assert (await http.get(ROOM, headers=headers)).json()["method"] == "GET"


async def test_agents_never_see_a_token(guarded: LiveGateway) -> None:
    """What they are given is stored: neither header nor query has it, the rest is untouched."""
    path = f"{ROOM}?a=1&token={FULL}&b=%20x"
    async with guarded.connect(path, additional_headers={"X-Own": "y"}) as socket:
        seen = await next_frame(socket, "seen")
    requested = (await guarded.http.get(ROOM, headers=bearer(FULL))).json()

    assert seen["url"].endswith(f"{ROOM}?a=1&b=%20x")
    assert seen["headers"]["x-own"] == "y"
    assert "authorization" not in requested["headers"]


@pytest.mark.parametrize("path", [ROOM, f"{ROOM}?token={'x' * 32}", f"{ROOM}?token="])
async def test_a_websocket_needs_a_token(guarded: LiveGateway, path: str) -> None:
    """The upgrade is refused with 401."""
    assert await refusal(guarded, path) == 401


async def test_a_refused_upgrade_is_no_error_in_the_log(
    guarded: LiveGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """Strangers cannot fill the log."""
    await refusal(guarded, ROOM)

    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_readonly_token_makes_a_readonly_connection(guarded: LiveGateway) -> None:
    """It is told the state; its own is refused, and so is one set by what it calls."""
    async with guarded.connect(ROOM, additional_headers=bearer(READONLY)) as socket:
        shown = await next_frame(socket, "cf_agent_state")
        await socket.send(orjson.dumps({"type": "cf_agent_state", "state": {"n": 9}}).decode())
        error = await next_frame(socket, "cf_agent_state_error")
        call = {"type": "rpc", "id": "1", "method": "set", "args": [9]}
        await socket.send(orjson.dumps(call).decode())
        answer = await next_frame(socket, "rpc")

    expected = ({"n": 0}, "Connection is readonly", False, "Connection is readonly")
    assert (shown["state"], error["error"], answer["success"], answer["error"]) == expected


async def test_a_readonly_client_cannot_destroy(guarded: LiveGateway) -> None:
    """Neither can what it calls."""
    async with guarded.connect(ROOM, additional_headers=bearer(READONLY)) as socket:
        await next_frame(socket, "cf_agent_state")
        await socket.send('{"type":"rpc","id":"1","method":"leave","args":[]}')
        answer = await next_frame(socket, "rpc")

    assert (answer["success"], answer["error"]) == (False, "Connection is readonly")
    assert len(await guarded.gateway.storage.list_agents()) == 1


async def test_a_readonly_client_that_hangs_up_gets_no_more_done(guarded: LiveGateway) -> None:
    """What it asked for is run when it has gone, and may still change nothing."""
    Room.may_go_on, Room.said = asyncio.Event(), []
    storage, ref = guarded.gateway.storage, AgentRef("Room", "a")
    async with guarded.connect(ROOM, additional_headers=bearer(READONLY)) as socket:
        await next_frame(socket, "seen")
        held = await guarded.served.client.agent(*ref).start_call("hold")
        await socket.send('{"type":"rpc","id":"1","method":"set_in_turn","args":[9]}')
        stored = await storage.read_state(ref)
        assert stored is not None

        async def is_taken() -> None:
            inbox = await storage.read_inbox(stored.agent_id, 0, 10)
            assert {"hold", "set_in_turn"} <= {row.method for row in inbox}

        await assert_eventually(is_taken)

    async def has_gone() -> None:
        assert await storage.read_connections(ref) == []

    await assert_eventually(has_gone)
    Room.may_go_on.set()
    await held.result()

    async def has_run() -> None:
        assert Room.said == ["Connection is readonly"]

    await assert_eventually(has_run)


async def test_an_agent_cannot_lift_what_a_readonly_token_forbids(guarded: LiveGateway) -> None:
    """`set_readonly(False)` frees connections that the agent made read-only, and no others."""
    async with (
        guarded.connect(ROOM, additional_headers=bearer(FULL)) as full,
        guarded.connect(ROOM, additional_headers=bearer(READONLY)) as limited,
    ):
        told = []
        for number, is_readonly in enumerate([True, False]):
            call = {"type": "rpc", "id": str(number), "method": "free", "args": [is_readonly]}
            await full.send(orjson.dumps(call).decode())
            told.append((await next_frame(full, "rpc"))["result"])
        await limited.send(orjson.dumps({"type": "cf_agent_state", "state": {"n": 9}}).decode())
        error = await next_frame(limited, "cf_agent_state_error")
        call = {"type": "rpc", "id": "1", "method": "set", "args": [9]}
        await limited.send(orjson.dumps(call).decode())
        refused = await next_frame(limited, "rpc")
        await full.send(orjson.dumps({**call, "args": [7]}).decode())
        done = await next_frame(full, "rpc")

    assert told == [[True, True], [False, True]]
    assert (error["error"], refused["error"]) == ("Connection is readonly",) * 2
    assert done["result"] == 7


async def test_a_full_token_in_the_query_makes_a_full_connection(guarded: LiveGateway) -> None:
    """Browsers cannot set headers of a WebSocket."""
    async with guarded.connect(f"{ROOM}?token={FULL}") as socket:
        await next_frame(socket, "seen")
        call = {"type": "rpc", "id": "1", "method": "set", "args": [9]}
        await socket.send(orjson.dumps(call).decode())
        answer = await next_frame(socket, "rpc")

    assert (answer["success"], answer["result"]) == (True, 9)


async def test_pages_of_other_origins_are_kept_out(unguarded: LiveGateway) -> None:
    """No WebSocket and no change; a forged form or script of a page gets nothing done."""
    for origin in (ELSEWHERE, "null", "http://127.0.0.1:1", "http://["):
        assert await refusal(unguarded, ROOM, origin=origin) == 403
        changed = await unguarded.http.put(STATE, json={"n": 9}, headers={"Origin": origin})
        assert kind(changed) == (403, "ForeignOrigin")

    assert (await unguarded.http.get(STATE)).json() == {"n": 0}


async def test_of_several_origins_none_counts(unguarded: LiveGateway) -> None:
    """The gateway's own does not open the door to another."""
    headers = [("Origin", unguarded.url), ("Origin", ELSEWHERE)]

    changed = await unguarded.http.put(STATE, json={"n": 9}, headers=headers)

    assert kind(changed) == (403, "ForeignOrigin")


async def test_its_own_pages_and_programs_come_in(unguarded: LiveGateway) -> None:
    """The same origin, in any case of letters, or none at all."""
    for headers in ({"Origin": unguarded.url}, {"Origin": unguarded.url.upper()}, {}):
        answer = await unguarded.http.put(STATE, json={"n": 1}, headers=headers)
        assert answer.status_code == 200
    async with unguarded.connect(ROOM, origin=unguarded.url) as socket:
        assert (await next_frame(socket, "cf_agent_state"))["state"] == {"n": 1}


async def test_allowed_origins_come_in(guarded: LiveGateway) -> None:
    """Their pages may read the answer, and preflights are answered without a token."""
    headers = {**bearer(FULL), "Origin": PAGE}
    changed = await guarded.http.put(STATE, json={"n": 1}, headers=headers)
    asked = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "if-match"}
    preflight = await guarded.http.options(STATE, headers={"Origin": PAGE, **asked})
    async with guarded.connect(f"{ROOM}?token={FULL}", origin=PAGE) as socket:
        await next_frame(socket, "cf_agent_state")

    assert (changed.status_code, changed.headers["access-control-allow-origin"]) == (200, PAGE)
    assert "etag" in changed.headers["access-control-expose-headers"].lower()
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, PAGE)


async def test_a_token_does_not_open_foreign_origins(guarded: LiveGateway) -> None:
    """A page that got hold of a token still may not use it from elsewhere."""
    headers = {**bearer(FULL), "Origin": ELSEWHERE}

    assert kind(await guarded.http.put(STATE, json=1, headers=headers)) == (403, "ForeignOrigin")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example"])
async def test_without_tokens_foreign_names_are_refused(unguarded: LiveGateway, host: str) -> None:
    """A page whose name was made to point here is of the same origin, but not of this name."""
    headers = {"Host": host, "Origin": f"http://{host}"}

    assert kind(await unguarded.http.get(STATE, headers=headers)) == (403, "ForeignHost")


@pytest.mark.parametrize("host", ["localhost:1", "app.localhost", "192.168.1.7", "[::1]:8787"])
async def test_addresses_and_localhost_are_no_foreign_names(
    unguarded: LiveGateway, host: str
) -> None:
    """No page can make those its own."""
    assert (await unguarded.http.get(STATE, headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.com", ""])
def test_others_are_reached_with_tokens_only(host: str) -> None:
    """A gateway without tokens listens on the loopback interface."""
    with pytest.raises(ConfigurationError, match="--token-file"):
        check_bind(host, Tokens())
    check_bind(host, Tokens([FULL]))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_none(host: str) -> None:
    """Only this machine reaches it."""
    check_bind(host, Tokens())


def test_a_token_file_is_read(tmp_path: Path) -> None:
    """Comments and empty lines do not count."""
    path = tmp_path / "tokens"
    path.write_text(f"# ours\n\nfull {FULL}  # the service\nreadonly {READONLY}\n")

    tokens = read_token_file(path)

    assert [tokens.grant(each) for each in (FULL, READONLY, "other")] == ["full", "readonly", None]


@pytest.mark.parametrize(
    "text", [f"admin {FULL}", FULL, f"full {FULL} x", "full short", f"full {FULL}\nreadonly {FULL}"]
)
def test_a_wrong_token_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    """No token gets into an error message."""
    path = tmp_path / "tokens"
    path.write_text(text)

    with pytest.raises(ConfigurationError) as refused:
        read_token_file(path)

    assert FULL not in refused.value.message
    assert "short" not in refused.value.message


def test_a_missing_token_file_is_refused(tmp_path: Path) -> None:
    """It must not count as no tokens."""
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        read_token_file(tmp_path / "none")


@pytest.mark.parametrize(
    "origin", ["example.com", "https://example.com/path", "", "https://", "http://["]
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    """It would never match, and nobody would know why."""
    with pytest.raises(ConfigurationError, match="is no origin"):
        check_origin(origin)


async def test_files_are_served_beside_the_agents(serve: Serve, tmp_path: Path) -> None:
    """Without a token, as browsers load pages; agents' routes are never files."""
    folder = tmp_path / "static"
    (folder / "api").mkdir(parents=True)
    (folder / "index.html").write_text("<p>page")
    (folder / "api" / "agents").write_text("not served")
    (tmp_path / "secret").write_text("outside")
    tokens = Tokens([FULL])
    async with live_gateway(serve, Room, tokens=tokens, static_folder=folder) as live:
        page = await live.http.get("/")
        listing = await live.http.get("/api/agents", headers=bearer(FULL))
        outside = await live.http.get("/%2e%2e/secret")

    assert (page.text, page.headers["x-content-type-options"]) == ("<p>page", "nosniff")
    assert (listing.json()["next"], outside.status_code) == (None, 401)
