"""Conversations over the HTTP API: a real gateway, a real agent behind it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.http_api import HttpApi
from agent_runtime.session.message import text_message
from agent_runtime.session.session_segment import session_segment
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.live_gateway import LiveGateway, live_gateway

PAGE = Path(__file__).parents[2] / "docs" / "sessions-http.md"
READONLY, FULL = "r" * 20, "f" * 20


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of an agent that talks."""
    async with live_gateway(serve, Chat) as started:
        yield started


@pytest.fixture
def http(live: LiveGateway) -> httpx.AsyncClient:
    """A client of it."""
    return live.http


@pytest.fixture
def place() -> str:
    """The default session of a new agent."""
    return f"/api/agents/chat/{uuid4().hex[:12]}/sessions/~default"


def message(identity: str, text: str = "hello", role: str = "user") -> dict[str, Any]:
    """Return a message of one text."""
    return text_message(role, text, id=identity)


async def append(http: httpx.AsyncClient, place: str, *ids: str, **fields: Any) -> Any:
    """Append messages with these ids and return what was done."""
    body = {"messages": [message(each) for each in ids], **fields}
    answer = await http.post(f"{place}/messages", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


async def ids(http: httpx.AsyncClient, place: str, **params: Any) -> list[str]:
    """Return the ids of a history."""
    got = await http.get(f"{place}/messages", params=params)
    return [each["id"] for each in got.json()["messages"]]


def kind(answer: httpx.Response) -> tuple[int, str]:
    """Return a problem's status and kind."""
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


async def test_every_route_is_on_the_page(live: LiveGateway) -> None:
    """docs/sessions-http.md has a row for each, and no other."""
    sessions = "/api/agents/{agent}/{name}/session"
    routes = HttpApi(build_app(live.gateway), live.gateway).endpoints
    served = {path for path in routes if path.startswith(sessions)}

    rows = re.findall(r"^\| `(/[^`]+)` \|", PAGE.read_text(), re.MULTILINE)
    written = {row if row.startswith("/api") else f"{sessions}s{row}" for row in rows}

    assert written == served


async def test_what_was_appended_is_read(http: httpx.AsyncClient, place: str) -> None:
    """Several at once make a chain; the messages come back as they were sent."""
    odd = {**message("m1", role="assistant"), "metadata": {"a": None}, "createdAt": "yesterday"}
    results = (
        await http.post(f"{place}/messages", json={"messages": [message("m0"), odd]})
    ).json()["results"]

    got = (await http.get(f"{place}/messages")).json()

    assert results == [{"inserted": True, "parentId": None}, {"inserted": True, "parentId": "m0"}]
    assert got == {"messages": [message("m0"), odd], "next": None}


async def test_an_agent_s_handlers_and_the_api_share_the_default_session(
    live: LiveGateway, place: str
) -> None:
    """What a method says is read, what is appended is the method's history."""
    name = place.split("/")[4]
    agent = live.served.client.agent("Chat", name)
    await agent.call("say", "hi")
    await append(live.http, place, "x")

    assert await agent.call("say", "again") == 3
    assert await ids(live.http, place) == ["m0", "x", "m2"]


async def test_a_parent_left_out_is_the_latest_leaf_and_null_a_new_root(
    http: httpx.AsyncClient, place: str
) -> None:
    """The three kinds of parents stay apart; branches and paths are read by any of their ends."""
    await append(http, place, "m0", "m1")
    regenerated = await append(http, place, "m1b", parentId="m0")
    children = (await http.get(f"{place}/messages/m0/branches")).json()["messages"]

    assert regenerated == [{"inserted": True, "parentId": "m0"}]
    assert [each["id"] for each in children] == ["m1", "m1b"]
    assert await ids(http, place) == ["m0", "m1b"]
    assert await ids(http, place, leaf="m1") == ["m0", "m1"]
    assert await append(http, place, "new", parentId=None) == [{"inserted": True, "parentId": None}]
    assert await ids(http, place) == ["new"]


async def test_a_repeat_with_the_key_gives_the_first_answer(
    http: httpx.AsyncClient, place: str
) -> None:
    """Nothing is stored twice; another payload under the key is refused."""
    body = {"messages": [message("m0")]}
    headers = {"Idempotency-Key": "k"}
    first = await http.post(f"{place}/messages", json=body, headers=headers)
    again = await http.post(f"{place}/messages", json=body, headers=headers)
    other = {"messages": [message("m1")]}
    refused = await http.post(f"{place}/messages", json=other, headers=headers)

    assert first.json() == again.json() == {"results": [{"inserted": True, "parentId": None}]}
    assert kind(refused) == (422, "IdempotencyConflictError")
    assert await ids(http, place) == ["m0"]


async def test_one_message_is_read_replaced_and_removed(
    http: httpx.AsyncClient, place: str
) -> None:
    """Under its own address, whatever its id is."""
    await append(http, place, "m0", "a/b ü", "m2")
    one = f"{place}/messages/a%2Fb%20%C3%BC"

    put = await http.put(one, json=message("a/b ü", "changed"))
    got = await http.get(one)
    gone = await http.delete(one)

    assert (put.json(), got.json()) == ({"updated": True}, message("a/b ü", "changed"))
    assert (gone.status_code, gone.content) == (204, b"")
    assert await ids(http, place) == ["m0", "m2"]
    assert kind(await http.get(one)) == (404, "UnknownMessageError")
    assert kind(await http.put(one, json=message("a/b ü"))) == (404, "UnknownMessageError")


async def test_some_or_all_messages_are_removed(http: httpx.AsyncClient, place: str) -> None:
    """By their ids, or all; never all because nothing was said."""
    await append(http, place, "m0", "m1", "m2", "m3")

    some = await http.delete(f"{place}/messages", params={"id": ["m1", "m2", "unknown"]})
    left = await ids(http, place)
    unsaid = await http.delete(f"{place}/messages")
    both = await http.delete(f"{place}/messages", params={"id": "m0", "all": "true"})
    everything = await http.delete(f"{place}/messages", params={"all": "true"})

    assert (some.status_code, left, everything.status_code) == (204, ["m0", "m3"], 204)
    assert kind(unsaid) == kind(both) == (400, "InvalidRequestError")
    assert await ids(http, place) == []


async def test_the_newest_messages_within_a_budget(http: httpx.AsyncClient, place: str) -> None:
    """`max_bytes` cuts the old end off and says so, on any path."""
    await append(http, place, "m0", "m1", "m2")

    got = (await http.get(f"{place}/messages", params={"max_bytes": 0})).json()
    more = (await http.get(f"{place}/messages", params={"max_bytes": 0, "min_messages": 2})).json()
    path = (await http.get(f"{place}/messages", params={"max_bytes": 9999, "leaf": "m1"})).json()

    assert [each["id"] for each in got["messages"]] == ["m2"]
    assert (got["truncated"], got["totalContentBytes"]) == (True, 198)
    assert [each["id"] for each in more["messages"]] == ["m1", "m2"]
    assert ([each["id"] for each in path["messages"]], path["truncated"]) == (["m0", "m1"], False)


async def test_the_tree_is_read_page_by_page(http: httpx.AsyncClient, place: str) -> None:
    """All branches, in the order they came, each with its place."""
    await append(http, place, "m0", "m1")
    await append(http, place, "m1b", parentId="m0")
    nodes, after = [], 0
    while after is not None:
        params = {"after": after, "limit": 2}
        page = (await http.get(f"{place}/tree", params=params)).json()
        nodes += page["nodes"]
        after = page["next"]

    seqs = {each["seq"]: each["id"] for each in nodes}
    placed = [(each["id"], seqs.get(each["parentSeq"]), each["depth"]) for each in nodes]
    assert placed == [("m0", None, 0), ("m1", "m0", 1), ("m1b", "m0", 1)]
    assert nodes[0]["message"] == message("m0")
    assert (nodes[0]["bytes"], nodes[0]["tokens"]) == (66, 6)


async def test_messages_are_found_by_their_words(http: httpx.AsyncClient, place: str) -> None:
    """All words must be there, in any order; blank finds nothing."""
    text = "The deployment is scheduled for Friday"
    await http.post(f"{place}/messages", json={"messages": [message("m0", text), message("m1")]})

    found = (await http.get(f"{place}/search", params={"q": "friday deployment"})).json()["hits"]
    none = (await http.get(f"{place}/search", params={"q": " ", "limit": 5})).json()["hits"]

    assert [(each["id"], each["content"], each["sessionId"]) for each in found] == [
        ("m0", text, "")
    ]
    assert none == []


async def test_summaries_are_stored_listed_and_shown(http: httpx.AsyncClient, place: str) -> None:
    """One's own, and the agent's on demand."""
    await append(http, place, *(f"m{number}" for number in range(4)))
    own = {"summary": "first two", "fromMessageId": "m0", "toMessageId": "m1"}
    stored = (await http.post(f"{place}/compactions", json=own)).json()
    listed = (await http.get(f"{place}/compactions")).json()["compactions"]

    assert {name: stored[name] for name in own} == own
    assert listed == [stored]
    assert await ids(http, place) == [f"compaction_{stored['id']}", "m2", "m3"]


async def test_the_agent_summarizes_when_it_is_told_to(http: httpx.AsyncClient, place: str) -> None:
    """The answer names the range; null says that nothing was stored."""
    nothing = await http.post(f"{place}/compact")
    long = [message(f"m{number}", "x" * 60) for number in range(8)]
    await http.post(f"{place}/messages", json={"messages": long})
    done = (await http.post(f"{place}/compact", json={"leafId": None})).json()["compaction"]
    [stored] = (await http.get(f"{place}/compactions")).json()["compactions"]

    assert (nothing.status_code, nothing.json()) == (200, {"compaction": None})
    assert (done["summary"], done["fromMessageId"]) == ("what was said", "m1")
    assert done == {name: stored[name] for name in done}


async def test_blocks_are_read_and_written(http: httpx.AsyncClient, place: str) -> None:
    """As the agent has set them up."""
    put = await http.put(f"{place}/context/memory", json={"content": "tea"})
    added = await http.post(f"{place}/context/memory", json={"content": "no milk"})
    blocks = (await http.get(f"{place}/context")).json()["blocks"]
    one = (await http.get(f"{place}/context/memory")).json()

    assert (put.json()["content"], added.json()["content"]) == ("tea", "tea\nno milk")
    assert blocks == [one]
    assert one == {
        "label": "memory",
        "description": "Facts",
        "content": "tea\nno milk",
        "tokens": 4,
        "maxTokens": 1100,
        "writable": True,
        "isSkill": False,
        "isSearchable": False,
        "available": True,
    }
    assert kind(await http.get(f"{place}/context/soul")) == (404, "NoContextBlock")
    unknown = await http.put(f"{place}/context/soul", json={"content": "x"})
    assert kind(unknown) == (422, "ContextBlockError")


async def test_the_prompt_is_frozen_until_it_is_refreshed(
    http: httpx.AsyncClient, place: str
) -> None:
    """GET gives the same text, POST makes it anew, or only if there is none."""
    created = (await http.post(f"{place}/prompt?refresh=false")).json()["prompt"]
    frozen = (await http.get(f"{place}/prompt")).json()["prompt"]
    await http.put(f"{place}/context/memory", json={"content": "coffee"})
    same = (await http.get(f"{place}/prompt")).json()["prompt"]
    kept = (await http.post(f"{place}/prompt?refresh=false")).json()["prompt"]
    fresh = (await http.post(f"{place}/prompt")).json()["prompt"]

    assert "MEMORY" in frozen and created == frozen == same
    assert "coffee" in fresh and kept == same
    assert (await http.get(f"{place}/prompt")).json()["prompt"] == fresh


async def test_tools_are_listed_and_run(http: httpx.AsyncClient, place: str) -> None:
    """As a model would; an agent that is not there has none to tell of."""
    missing = await http.get(f"{place}/tools")
    await append(http, place, "m0")
    tools = (await http.get(f"{place}/tools")).json()["tools"]
    arguments = {"label": "memory", "content": "tea"}
    ran = await http.post(f"{place}/tools/set_context", json={"arguments": arguments})
    unknown = await http.post(f"{place}/tools/rm_rf", json={})

    assert kind(missing) == (404, "NoAgent")
    assert [each["name"] for each in tools] == ["set_context"]
    assert ran.json()["result"].startswith("Written to memory")
    assert kind(unknown) == (400, "InvalidRequestError")


async def test_a_session_tells_how_long_it_is(http: httpx.AsyncClient, place: str) -> None:
    """Its latest leaf, its path and the agent's estimate; of an earlier message too."""
    empty = (await http.get(place)).json()
    await append(http, place, "m0", "m1")
    got = (await http.get(place)).json()
    earlier = (await http.get(place, params={"leaf": "m0"})).json()

    assert (empty["latestLeafId"], empty["pathLength"]) == (None, 0)
    assert (got["sessionId"], got["latestLeafId"], got["pathLength"]) == ("", "m1", 2)
    assert got["tokenEstimate"] > earlier["tokenEstimate"] > 0
    assert earlier["pathLength"] == 1


@pytest.mark.parametrize(
    "session_id", ["", "a", "a/b c", "~", "~default", "~~default", "default", "ü?#&%41", "x" * 512]
)
async def test_any_id_has_one_address(http: httpx.AsyncClient, place: str, session_id: str) -> None:
    """The default session too, and an id that looks like its spelling."""
    there = place.replace("~default", session_segment(session_id))
    await append(http, there, "m0")

    assert (await http.get(there)).json()["sessionId"] == session_id
    assert await ids(http, there) == ["m0"]


async def test_a_read_only_token_reads_and_changes_nothing(serve: Serve, place: str) -> None:
    """Nor does it freeze a prompt, since that stores it."""
    tokens = Tokens(full=[FULL], readonly=[READONLY])
    async with live_gateway(serve, Chat, tokens=tokens) as live:
        http = live.http
        http.headers["Authorization"] = f"Bearer {FULL}"
        await append(http, place, "m0")
        http.headers["Authorization"] = f"Bearer {READONLY}"
        reads = ["", "/messages", "/messages/m0", "/tree", "/context", "/tools", "/compactions"]
        answers = [await http.get(place + each) for each in reads]
        refused = [
            await http.get(f"{place}/prompt"),
            await http.post(f"{place}/prompt"),
            await http.post(f"{place}/messages", json={"messages": []}),
            await http.delete(f"{place}/messages?all=true"),
            await http.put(f"{place}/context/memory", json={"content": "x"}),
            await http.post(f"{place}/compact"),
        ]

        assert {each.status_code for each in answers} == {200}
        assert {kind(each) for each in refused} == {(403, "ReadonlyToken")}
        assert await ids(http, place) == ["m0"]


async def test_many_messages_are_removed_at_once(http: httpx.AsyncClient, place: str) -> None:
    """By a body, where a URL has no room for their ids."""
    await append(http, place, "a", "b", "c")

    answer = await http.post(f"{place}/deletions", json={"messageIds": ["a", "c", "no"]})

    assert answer.status_code == 204
    assert await ids(http, place) == ["b"]


async def test_reading_what_is_not_there_says_nothing_of_storing(
    http: httpx.AsyncClient, place: str
) -> None:
    """A replacement does."""
    read = await http.get(f"{place}/messages/no")
    written = await http.put(f"{place}/messages/no", json=message("no"))

    assert read.json()["detail"] == "the session has no message 'no'"
    assert written.json()["detail"] == "the session has no message 'no'; nothing was stored"


REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/messages", {"json": {}}, 400, "InvalidRequestError"),
    ("POST", "/messages", {"json": {"messages": "x"}}, 400, "InvalidRequestError"),
    ("POST", "/deletions", {"json": {"messageIds": "x"}}, 400, "InvalidRequestError"),
    ("POST", "/deletions", {"json": {"messageIds": [1]}}, 400, "InvalidRequestError"),
    ("POST", "/messages", {"json": {"messages": [1]}}, 400, "InvalidMessageError"),
    ("POST", "/messages", {"json": {"messages": [{"id": "a"}]}}, 400, "InvalidMessageError"),
    ("POST", "/messages", {"json": {"messages": [], "parent": 1}}, 400, "InvalidRequestError"),
    ("POST", "/messages", {"json": {"messages": [], "parentId": 1}}, 400, "InvalidRequestError"),
    (
        "POST",
        "/messages",
        {"json": {"messages": [message("compaction_x")]}},
        400,
        "InvalidMessageError",
    ),
    (
        "POST",
        "/messages",
        {"json": {"messages": [message("m", "x" * 2_000_000)]}},
        413,
        "MessageTooLargeError",
    ),
    ("POST", "/messages", {"data": {"a": "b"}}, 415, "UnsupportedBody"),
    ("GET", "/messages?max_bytes=x", {}, 400, "InvalidRequestError"),
    ("DELETE", "/messages?all=yes", {}, 400, "InvalidRequestError"),
    ("PUT", "/messages/m0", {"json": message("m1")}, 400, "InvalidRequestError"),
    ("PUT", "/messages/m0", {"json": [1]}, 400, "InvalidMessageError"),
    ("GET", "/tree?limit=0", {}, 400, "InvalidRequestError"),
    ("GET", "/search", {}, 400, "InvalidRequestError"),
    ("GET", "/search?q=x&limit=1001", {}, 400, "InvalidRequestError"),
    (
        "POST",
        "/compactions",
        {"json": {"summary": "s", "fromMessageId": "no", "toMessageId": "no"}},
        404,
        "UnknownMessageError",
    ),
    ("POST", "/compactions", {"json": {"summary": "s"}}, 400, "InvalidRequestError"),
    ("POST", "/compact", {"json": {"leafId": 1}}, 400, "InvalidRequestError"),
    ("POST", "/tools/set_context", {"json": {"arguments": 1}}, 400, "InvalidRequestError"),
    ("PATCH", "/messages", {"json": {}}, 405, "MethodNotAllowed"),
    ("GET", "/nothing", {}, 404, "NoSuchRoute"),
]


@pytest.mark.parametrize(("method", "path", "options", "status", "wanted"), REFUSALS)
async def test_what_cannot_be_done_is_a_problem(
    http: httpx.AsyncClient,
    place: str,
    method: str,
    path: str,
    options: Any,
    status: int,
    wanted: str,
) -> None:
    """Each has its status and its kind."""
    assert kind(await http.request(method, place + path, **options)) == (status, wanted)


@pytest.mark.parametrize("segment", ["", "~", "~x", "%00", "x" * 513, "%ff"])
async def test_a_segment_that_names_no_session_is_refused(
    http: httpx.AsyncClient, place: str, segment: str
) -> None:
    """So that none means two sessions."""
    answer = await http.get(place.replace("~default", segment) + "/messages")

    assert answer.status_code == 400


async def test_sessions_are_listed_page_by_page(http: httpx.AsyncClient, place: str) -> None:
    """In order of their ids, the default one first, with their records where there are any."""
    sessions = place.removesuffix("/~default")
    for session_id in ("", "b", "a/x"):
        await append(http, f"{sessions}/{session_segment(session_id)}", "m0")
    record = (await http.post(sessions, json={"name": "n", "model": "m"})).json()
    found, after = [], None
    for _ in range(3):
        params = {"limit": 2} | ({} if after is None else {"after": after})
        page = (await http.get(sessions, params=params)).json()
        found += page["sessions"]
        after = page["next"]
        if after is None:
            break

    assert [each["sessionId"] for each in found] == sorted(["", "b", "a/x", record["id"]])
    assert [each["record"] for each in found if each["record"]] == [record]
    assert (record["name"], record["model"], record["inputTokens"]) == ("n", "m", 0)


async def test_a_session_is_registered_once_renamed_counted_and_removed(
    http: httpx.AsyncClient, place: str
) -> None:
    """Its record says so; removed, it is not found."""
    sessions = place.removesuffix("/~default")
    headers = {"Idempotency-Key": "k"}
    made = (await http.post(sessions, json={"name": "a"}, headers=headers)).json()
    again = (await http.post(sessions, json={"name": "a"}, headers=headers)).json()
    one = f"{sessions}/{made['id']}"
    await http.patch(f"{one}/record", json={"name": "b"})
    usage = {"inputTokens": 10, "outputTokens": 5, "cost": 0.5}
    used = (await http.post(f"{one}/usage", json=usage)).json()
    got = (await http.get(f"{one}/record")).json()
    await append(http, one, "m0")
    removed = await http.delete(one)

    assert made == again
    assert used == got
    assert (got["name"], got["inputTokens"], got["outputTokens"], got["estimatedCost"]) == (
        *("b", 10, 5),
        0.5,
    )
    assert removed.status_code == 204
    assert kind(await http.get(f"{one}/record")) == (404, "UnknownSessionError")
    assert await ids(http, one) == []
    assert (await http.delete(one)).status_code == 204


async def test_a_session_is_forked_split_and_searched(http: httpx.AsyncClient, place: str) -> None:
    """Both make a registered session, which the search over all of them finds."""
    sessions = place.removesuffix("/~default")
    made = (await http.post(sessions, json={"name": "a"})).json()
    one = f"{sessions}/{made['id']}"
    await append(http, one, "m0", "m1")
    forked = (await http.post(f"{one}/fork", json={"atMessageId": "m0", "name": "f"})).json()
    split = (await http.post(f"{one}/split", json={"summary": "they said hello"})).json()
    search = sessions.removesuffix("s") + "-search"
    hits = (await http.get(search, params={"q": "hello"})).json()["hits"]
    params = {"q": "hello", "session": split["id"]}
    in_one = (await http.get(search, params=params)).json()["hits"]
    unknown = await http.post(f"{one}/fork", json={"atMessageId": "no", "name": "f"})

    assert forked["parentSessionId"] == split["parentSessionId"] == made["id"]
    assert (forked["name"], split["name"]) == ("f", "a")
    assert len(await ids(http, f"{sessions}/{forked['id']}")) == 1
    assert {each["sessionId"] for each in hits} == {made["id"], forked["id"], split["id"]}
    assert [each["sessionId"] for each in in_one] == [split["id"]]
    assert kind(unknown) == (404, "UnknownMessageError")
    ended = (await http.get(f"{one}/record")).json()
    assert ended["endReason"] == "compaction"


REGISTRY_REFUSALS: list[tuple[str, str, Any, int, str]] = [
    ("POST", "", {"json": {}}, 400, "InvalidRequestError"),
    ("POST", "", {"json": {"name": 1}}, 400, "InvalidRequestError"),
    ("GET", "?limit=1001", {}, 400, "InvalidRequestError"),
    ("PATCH", "/no/record", {"json": {"name": "x"}}, 404, "UnknownSessionError"),
    ("POST", "/no/usage", {"json": {"inputTokens": 1.5}}, 400, "InvalidRequestError"),
    ("POST", "/no/usage", {"json": {"cost": "x"}}, 400, "InvalidRequestError"),
    ("POST", "/no/usage", {"json": {"inputTokens": 1}}, 404, "UnknownSessionError"),
    ("POST", "/no/fork", {"json": {"atMessageId": "m", "name": "x"}}, 404, "UnknownSessionError"),
    ("POST", "/no/split", {"json": {"summary": "x"}}, 404, "UnknownSessionError"),
]


@pytest.mark.parametrize(("method", "path", "options", "status", "wanted"), REGISTRY_REFUSALS)
async def test_what_the_registry_cannot_do_is_a_problem(
    http: httpx.AsyncClient,
    place: str,
    method: str,
    path: str,
    options: Any,
    status: int,
    wanted: str,
) -> None:
    """Each has its status and its kind."""
    sessions = place.removesuffix("/~default")

    assert kind(await http.request(method, sessions + path, **options)) == (status, wanted)
