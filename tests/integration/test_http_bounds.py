"""No answer of the HTTP API is without bounds: lists come in pages, however long items are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agent_runtime import GatewayClient
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.client.sessions_handle import SessionsHandle
from agent_runtime.gateway import bounded_answer, session_routes
from agent_runtime.gateway.openapi import document
from agent_runtime.session.message import text_message
from tests.conftest import Serve
from tests.integration.test_http_reading import resolved, value_of
from tests.support.agents import Bare
from tests.support.live_gateway import LiveGateway, live_gateway

BOUND = 3_000
ITEM = 800
"""No item of these tests is longer, with what is around a list."""

PATHS: dict[str, Any] = document(["Bare"])["paths"]
WHOLE = ("/openapi.json", "/api/agents/{agent}/{name}/sessions/{session}/export")
"""The API's own description, and what is a stream."""

LISTS = [path for path, item in PATHS.items() if "get" in item and path not in WHOLE]


@pytest.fixture
async def live(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LiveGateway]:
    """A gateway whose answers are short."""
    for module in (bounded_answer, session_routes):
        monkeypatch.setattr(module, "MAX_ANSWER_BYTES", BOUND)
    async with live_gateway(serve, Bare) as started:
        yield started


async def fill(live: LiveGateway) -> str:
    """Return the name of an agent that has much of everything."""
    name = uuid4().hex[:12]
    agent = live.served.client.agent("Bare", name)
    session = agent.session()
    text = "coffee " * 40
    await session.append_messages([text_message("user", text, id=f"m{n}") for n in range(30)])
    branches = [text_message("user", text, id=f"b{n}") for n in range(20)]
    await asyncio.gather(*(session.append_message(each, "m5") for each in branches))
    await session.append_messages(
        [text_message("user", text, id=f"x{n}") for n in range(30)], "m29"
    )
    await asyncio.gather(
        *(session.add_compaction(f"{n} {text}", f"m{n}", f"m{n + 2}") for n in range(15)),
        *(agent.sessions().create(f"{n} {text}") for n in range(20)),
        *(agent.set_state({"n": n, "text": text}) for n in range(20)),
    )
    return name


def largest(parameter: Any, name: str) -> str:
    """Return the value of a parameter that asks for the most."""
    known = {"name": name, "message": "m5", "leaf": "x29", "q": "coffee", "session": "~default"}
    if parameter["name"] in known:
        return known[parameter["name"]]
    if parameter["name"] in ("limit", "max_bytes", "min_messages", "page_bytes"):
        return str(parameter["schema"]["maximum"])
    return value_of(parameter, "Bare")


def urls_of(path: str, name: str) -> list[str]:
    """Return addresses that ask for all there is: by defaults, and by each optional parameter."""
    item = PATHS[path]
    parameters = [
        resolved(each) for each in (*item.get("parameters", []), *item["get"].get("parameters", []))
    ]
    for each in parameters:
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", largest(each, name))
    query = {each["name"]: each for each in parameters if each["in"] == "query"}
    always = [each for each in query if query[each].get("required")]
    asked = [each for each in query if each not in ("after", "offset", "newest", "version", "wait")]
    some = [always, *([*always, each] for each in asked), [*always, "max_bytes", "min_messages"]]
    return [
        f"{path}?" + "&".join(f"{each}={largest(query[each], name)}" for each in names)
        for names in some
        if {*names} <= query.keys()
    ]


async def test_no_get_answers_with_more_than_the_bound(live: LiveGateway) -> None:
    """Whatever is asked for by whichever route; of what there is more, only a part comes."""
    name = await fill(live)
    for url in (url for path in LISTS for url in urls_of(path, name)):
        answer = await live.http.get(url)
        assert answer.status_code in (200, 404), (url, answer.text)
        assert len(answer.content) <= BOUND + ITEM, url


async def test_the_pages_of_a_history_are_the_history(live: LiveGateway) -> None:
    """Read by `next` as the leaf, from the end up, summaries included."""
    name = await fill(live)
    session = live.served.client.agent("Bare", name).session()
    place = f"/api/agents/bare/{name}/sessions/~default/messages"
    for leaf in ("x29", "m29", "b7"):
        found: list[Any] = []
        sizes: list[int] = []
        following: str | None = leaf
        while following is not None:
            page = (await live.http.get(place, params={"leaf": following})).json()
            found[:0], following = page["messages"], page["next"]
            sizes.append(len(page["messages"]))

        assert found == await session.get_history(leaf)
        assert min(sizes) > 0
        assert (len(sizes) > 1) == (leaf != "b7")


async def test_a_page_of_a_size(live: LiveGateway) -> None:
    """As many of the newest as fit it; one that is longer comes alone."""
    name = await fill(live)
    place = f"/api/agents/bare/{name}/sessions/~default/messages?leaf=x29&page_bytes="
    small, none = [(await live.http.get(place + each)).json() for each in ("1000", "0")]

    assert [each["id"] for each in small["messages"]] == ["x28", "x29"]
    assert ([each["id"] for each in none["messages"]], none["next"]) == (["x29"], "x28")


async def test_a_gateway_client_puts_pages_together(live: LiveGateway) -> None:
    """Its methods give all of it, as those of a handle with the storage do."""
    name = await fill(live)
    direct = live.served.client.agent("Bare", name)
    session_readers: list[Callable[[SessionHandle], Awaitable[Any]]] = [
        lambda each: each.get_history("x29"),
        lambda each: each.get_history("nothing"),
        lambda each: each.get_history_page(1_000, leaf_id="m29"),
        lambda each: each.get_history_row_stats("x29"),
        lambda each: each.get_branches("m5"),
        lambda each: each.get_compactions(),
        lambda each: each.get_tree(),
        lambda each: each.get_tree(after=3, limit=40),
    ]
    registry_readers: list[Callable[[SessionsHandle], Awaitable[Any]]] = [
        lambda each: each.list(),
        lambda each: each.list(limit=15, offset=3),
        lambda each: each.list_all(),
        lambda each: each.list_all(limit=15),
    ]
    async with GatewayClient(live.url) as client:
        agent = client.agent("Bare", name)
        for number, read in enumerate(session_readers):
            assert await read(agent.session()) == await read(direct.session()), number
        for number, listing in enumerate(registry_readers):
            assert await listing(agent.sessions()) == await listing(direct.sessions()), number


async def test_the_pages_of_a_state_s_history_are_the_history(live: LiveGateway) -> None:
    """A page may have fewer entries than were asked for; `next` says whether there are more."""
    name = await fill(live)
    versions: list[int] = []
    query: dict[str, Any] | None = {"limit": 1000}
    while query is not None:
        page = (await live.http.get(f"/api/agents/bare/{name}/history", params=query)).json()
        versions += [each["version"] for each in page["history"]]
        query = None if page["next"] is None else {"limit": 1000, "newest": page["next"]}

    assert versions == list(range(20, 0, -1))


@pytest.mark.parametrize("list_path", ["messages/m5/branches", "compactions"])
async def test_a_place_that_is_gone_is_told(live: LiveGateway, list_path: str) -> None:
    """Nobody takes the end of a list that cannot be read on for its end."""
    name = await fill(live)
    place = f"/api/agents/bare/{name}/sessions/~default/{list_path}"
    answer: httpx.Response = await live.http.get(place, params={"after": "gone"})

    assert answer.status_code == 400
