"""Routes, identity and HTTP: the contract's cases 176 to 190, and the router's options."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from agent_runtime.gateway.admission import Answer
from agent_runtime.http_message import Request, Response
from agent_runtime.identity import AgentRef
from tests.e2e.agents import AGENTS
from tests.e2e.agents.cases import COUNTER
from tests.e2e.wire import WireClient
from tests.support.gateway_server import GatewayServer


@asynccontextmanager
async def _http(gateway: GatewayServer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=f"http://{gateway.host}", timeout=60) as client:
        yield client


def _name() -> str:
    return f"room-{uuid4().hex[:8]}"


@pytest.mark.parametrize("name", ["my-room", "default", "user-123-abc"])
async def test_w176_w177_w187_names_connect(gateway: GatewayServer, name: str) -> None:
    """The identity has the name, at the first and every later connection."""
    for _ in "ab":
        async with WireClient(gateway.host, f"/agents/state-agent/{name}") as client:
            assert (await client.first(1))[0]["name"] == name


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/agents/no-such-agent/room", 400),
        ("/agents/StateAgent/room", 400),
        ("/agents/state-agent", 404),
        ("/agents/", 404),
        ("/agents", 404),
        ("/api/something", 404),
    ],
)
async def test_w178_to_w181_what_is_no_route(
    gateway: GatewayServer, path: str, status: int
) -> None:
    """Is refused alike for requests and upgrades."""
    body = {400: "Invalid request", 404: "Not found"}[status]
    async with _http(gateway) as http:
        answer = await http.get(path)
        assert (answer.status_code, answer.text) == (status, body)
    with pytest.raises(InvalidStatus) as refused:
        async with WireClient(gateway.host, path):
            pass
    assert refused.value.response.status_code == status


async def test_w182_w183_the_rest_of_the_url_reaches_the_agent(gateway: GatewayServer) -> None:
    """Path and query, for requests and upgrades; doubled slashes do not matter."""
    name = _name()
    async with _http(gateway) as http:
        answer = await http.post(
            f"/agents//counter-agent/{name}/deep/er/echo?x=1&y=%20", content="b"
        )
        assert answer.json() == {
            "method": "POST",
            "path": f"/agents//counter-agent/{name}/deep/er/echo",
            "query": "?x=1&y=%20",
            "body": "b",
        }
    path = f"/agents/readonly-agent/{name}/some/sub?readonly=true&_pk=me"
    async with WireClient(gateway.host, path) as client:
        assert await client.result("flags", "me") == {
            "state": None,
            "readonly": True,
            "protocol": True,
        }


async def test_w184_w185_requests_reach_the_hook(gateway: GatewayServer) -> None:
    """GET shows the state, POST is echoed."""
    path = f"/agents/state-agent/{_name()}"
    async with _http(gateway) as http:
        shown = await http.get(f"{path}/state")
        echoed = await http.post(f"{path}/echo", content="hello")

    assert (shown.status_code, shown.json()) == (200, {"state": COUNTER})
    assert echoed.json() == {"method": "POST", "body": "hello", "path": "echo"}


async def test_w186_agents_are_apart(gateway: GatewayServer) -> None:
    """Two names and two classes are separate agents."""
    one, other = _name(), _name()
    async with WireClient(gateway.host, f"/agents/counter-agent/{one}") as client:
        assert await client.result("increment") == 1
    for path in (f"/agents/counter-agent/{other}", f"/agents/protocol-agent/{one}"):
        async with WireClient(gateway.host, path) as client:
            await client.greeted()
            assert client.states == [{"count": 0}]


async def test_w188_the_application_s_own_route(gateway: GatewayServer) -> None:
    """It reaches the same agent, whose identity has the name that the application chose."""
    async with WireClient(gateway.host, "/user") as client:
        identity = (await client.first(1))[0]
        assert (identity["name"], identity["agent"]) == ("auth-user", "counter-agent")
        count = await client.result("increment")
    async with WireClient(gateway.host, "/agents/counter-agent/auth-user") as client:
        await client.greeted()
        assert client.states == [{"count": count}]
    async with _http(gateway) as http:
        assert (await http.get("/user/state")).json() == {"state": {"count": count}}


async def test_w190_an_agent_knows_its_name(gateway: GatewayServer) -> None:
    """Also one that was first reached by a service."""
    name = _name()
    agent = gateway.gateway.client.agent("StateAgent", name)

    assert await agent.call("whoAmI") == name


async def test_names_are_not_decoded(gateway: GatewayServer) -> None:
    """The name is what stands in the URL."""
    async with WireClient(gateway.host, "/agents/state-agent/a%20b") as client:
        assert (await client.first(1))[0]["name"] == "a%20b"
        assert await client.result("whoAmI") == "a%20b"


async def test_the_application_sees_requests_first(gateway: GatewayServer) -> None:
    """It may answer, replace or let go what is for an agent, and refuse an upgrade."""
    asked: list[Any] = []

    async def before(request: Request, ref: AgentRef) -> Answer:
        asked.append(ref)
        if request.query.get("token") != ["secret"]:
            return Response("who are you?", 401, {"www-authenticate": "Bearer"})
        return Request(request.method, request.url, request.headers, b"replaced")

    async with GatewayServer(
        gateway.gateway.client,
        AGENTS,
        prefix="v1/rooms",
        cors={"access-control-allow-origin": "https://example.org"},
        before_connect=before,
        before_request=before,
    ) as server:
        path = f"/v1/rooms/state-agent/{_name()}"
        async with _http(server) as http:
            refused = await http.get(f"{path}/state")
            let_in = await http.post(f"{path}/echo?token=secret", content="original")
            preflight = await http.options(path)
            elsewhere = await http.get("/agents/state-agent/x")
        with pytest.raises(InvalidStatus) as upgrade:
            async with WireClient(server.host, path):
                pass
        async with WireClient(server.host, f"{path}?token=secret") as client:
            await client.greeted()

    origin = "access-control-allow-origin"
    assert (refused.status_code, refused.text) == (401, "who are you?")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.headers[origin] == let_in.headers[origin] == "https://example.org"
    assert let_in.json()["body"] == "replaced"
    assert (preflight.status_code, preflight.headers[origin]) == (200, "https://example.org")
    assert elsewhere.status_code == 404
    assert upgrade.value.response.status_code == 401
    assert asked == [AgentRef("StateAgent", path.split("/")[-1])] * 4


async def test_without_cors_options_reaches_the_agent(gateway: GatewayServer) -> None:
    """As any other method, and answers have no headers for other origins."""
    async with GatewayServer(gateway.gateway.client, AGENTS) as server, _http(server) as http:
        answer = await http.options(f"/agents/state-agent/{_name()}/echo")

    assert answer.json()["method"] == "OPTIONS"
    assert "access-control-allow-origin" not in answer.headers
