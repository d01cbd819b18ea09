"""The HTTP API over a real socket: state, history, calls, listings, problems, readiness."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from openapi_spec_validator import validate

from agent_runtime.errors import error_types
from agent_runtime.gateway import http_api
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.http_api import HttpApi
from agent_runtime.gateway.openapi import document
from agent_runtime.gateway.problems import STATUS
from tests.conftest import Serve
from tests.support.agents import COUNTER, Bare, Calls, Counter
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

STATE = "/api/agents/Bare/a/state"
TWICE = {name: [(name, '"1"'), (name, '"2"')] for name in ("Idempotency-Key", "If-Match")}


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of three agent classes."""
    async with live_gateway(serve, Bare, Calls, Counter) as started:
        yield started


@pytest.fixture
def http(live: LiveGateway) -> httpx.AsyncClient:
    """A client of it."""
    return live.http


def problem(answer: httpx.Response) -> tuple[int, str, str]:
    """Return what is fixed about a problem: status, content type and kind."""
    kind = answer.json()["type"].rpartition(":")[2]
    return answer.status_code, answer.headers["content-type"], kind


def expected_problem(status: int, kind: str) -> tuple[int, str, str]:
    """Return what `problem` returns for one."""
    return status, "application/problem+json", kind


async def test_what_was_put_is_got_with_its_version(http: httpx.AsyncClient) -> None:
    """PUT replaces, GET returns the bare value, and both name the version."""
    put = await http.put(STATE, json={"a": 1})
    got = await http.get(STATE)

    assert put.json() == {"version": 1, "applied": True, "duplicate": False}
    assert (got.json(), got.headers["etag"], put.headers["etag"]) == ({"a": 1}, '"1"', '"1"')


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, "text", [1, {"a": None}]])
async def test_any_json_is_a_state(http: httpx.AsyncClient, value: Any) -> None:
    """Presence, not truth, says that it is set."""
    await http.put(STATE, content=json.dumps(value))

    got = await http.get(STATE)

    assert (got.status_code, got.json()) == (200, value)


async def test_reading_shows_initial_state(http: httpx.AsyncClient) -> None:
    """Nothing is stored, so version 0 is the one to replace; the kebab form is as good."""
    for method, version in (("PUT", 1), ("PATCH", 2)):
        place = f"/api/agents/counter/{method}/state"
        got = await http.get(place)
        matched = {"If-Match": got.headers["etag"]}
        changed = await http.request(method, place, json={"count": 7}, headers=matched)

        assert (got.json(), got.headers["etag"]) == (COUNTER, '"0"')
        assert changed.json()["version"] == version


async def test_a_state_never_set_is_not_found(http: httpx.AsyncClient) -> None:
    """There is nothing to show, and null would be a value."""
    got = await http.get("/api/agents/Bare/never/state")

    assert problem(got) == expected_problem(404, "NoState")
    assert got.headers["etag"] == '"0"'


async def test_patch_merges_shallowly(http: httpx.AsyncClient) -> None:
    """Null is a value; nested objects are replaced."""
    await http.put(STATE, json={"a": {"x": 1}, "b": 2, "c": 3})

    await http.patch(STATE, json={"a": {"y": 2}, "b": None})

    assert (await http.get(STATE)).json() == {"a": {"y": 2}, "b": None, "c": 3}


async def test_delete_resets(http: httpx.AsyncClient) -> None:
    """The initial state is back, as a new version."""
    place = "/api/agents/Counter/reset/state"
    await http.put(place, json={"count": 7})

    deleted = await http.delete(place)

    assert (deleted.json()["version"], (await http.get(place)).json()) == (2, COUNTER)


async def test_an_agent_is_destroyed_once(http: httpx.AsyncClient) -> None:
    """A repeat with the key leaves the next agent alone; another version than given is refused."""
    place, headers = "/api/agents/counter/destroyed", {"Idempotency-Key": "d"}
    await http.put(f"{place}/state", json={"count": 7})

    refused = await http.delete(place, headers={"If-Match": '"9"'})
    first = await http.delete(place, headers=headers)
    fresh = await http.get(f"{place}/state")
    next_one = await http.put(f"{place}/state", json={"count": 8})
    again = await http.delete(place, headers=headers)

    assert problem(refused) == expected_problem(412, "VersionConflictError")
    assert first.json() == {"version": 1, "applied": True, "duplicate": False}
    assert (fresh.json(), fresh.headers["etag"]) == (COUNTER, '"0"')
    assert next_one.json()["version"] == 1
    assert again.json() == {"version": 1, "applied": False, "duplicate": True}
    assert (await http.get(f"{place}/state")).headers["etag"] == '"1"'
    assert [row["version"] for row in (await http.get("/api/agents")).json()["agents"]] == [1]


async def test_a_reader_that_has_the_version_is_told_so(http: httpx.AsyncClient) -> None:
    """304 without a body, for strong and weak tags, lists and `*`; not for another version."""
    await http.put(STATE, json=1)
    tags = ['"1"', 'W/"1"', '"7", "1"', "*", '"2"']

    answers = [await http.get(STATE, headers={"If-None-Match": tag}) for tag in tags]

    assert [each.status_code for each in answers] == [304, 304, 304, 304, 200]
    assert (answers[0].content, answers[0].headers["etag"]) == (b"", '"1"')


async def test_an_earlier_version_can_be_read(http: httpx.AsyncClient) -> None:
    """With its own tag; one that does not exist is not found."""
    for value in (1, 2, 3):
        await http.put(STATE, json=value)

    earlier = await http.get(STATE, params={"version": 2})
    missing = await http.get(STATE, params={"version": 9})

    assert (earlier.json(), earlier.headers["etag"]) == (2, '"2"')
    assert problem(missing) == expected_problem(404, "NoSuchVersion")


@pytest.mark.parametrize("key", ["once", '"once"', '"with \\"quotes\\""'])
async def test_a_repeat_with_the_key_gives_the_first_answer(
    http: httpx.AsyncClient, key: str
) -> None:
    """Bare or quoted: version and tag are those of the first time, and nothing is changed."""
    headers = {"Idempotency-Key": key}
    first = await http.put(STATE, json=1, headers=headers)
    await http.put(STATE, json=2)

    again = await http.put(STATE, json=1, headers=headers)

    assert (first.json()["duplicate"], again.json()) == (
        False,
        {"version": 1, "applied": False, "duplicate": True},
    )
    assert (again.headers["etag"], (await http.get(STATE)).json()) == ('"1"', 2)


async def test_the_key_stands_for_one_payload(http: httpx.AsyncClient) -> None:
    """Another payload or another method under it is 422, as the draft of the header says."""
    headers = {"Idempotency-Key": "k"}
    await http.put(STATE, json={"a": 1}, headers=headers)

    other_value = await http.put(STATE, json={"a": 2}, headers=headers)
    other_method = await http.patch(STATE, json={"a": 1}, headers=headers)

    expected = expected_problem(422, "IdempotencyConflictError")
    assert [problem(other_value), problem(other_method)] == [expected, expected]


async def test_another_version_fails_the_precondition(http: httpx.AsyncClient) -> None:
    """412 names both versions, for every changing method, and nothing is changed."""
    await http.put(STATE, json={"a": 1})
    await http.put(STATE, json={"a": 2})
    headers = {"If-Match": '"1"'}

    answers = [
        await http.put(STATE, json={}, headers=headers),
        await http.patch(STATE, json={}, headers=headers),
        await http.delete(STATE, headers=headers),
    ]

    assert {problem(each) for each in answers} == {expected_problem(412, "VersionConflictError")}
    assert answers[0].json()["details"] == {"expected": 1, "actual": 2}
    assert (await http.get(STATE)).json() == {"a": 2}


async def test_the_present_version_passes_and_a_repeat_too(http: httpx.AsyncClient) -> None:
    """A repeat of a request that was applied is answered, though the version has moved on."""
    await http.put(STATE, json=1)
    headers = {"If-Match": '"1"', "Idempotency-Key": "k"}

    first = await http.put(STATE, json=2, headers=headers)
    again = await http.put(STATE, json=2, headers=headers)

    assert [first.json()["version"], again.json()["version"]] == [2, 2]
    assert [first.json()["duplicate"], again.json()["duplicate"]] == [False, True]


@pytest.mark.parametrize(
    ("tag", "status"), [("*", 200), ('W/"1"', 412), ('"abc"', 412), ('"1", "2"', 400), ("1", 400)]
)
async def test_other_forms_of_if_match(http: httpx.AsyncClient, tag: str, status: int) -> None:
    """`*` is any state; weak and foreign tags never match; lists and bare words are refused."""
    await http.put(STATE, json=1)

    assert (await http.put(STATE, json=2, headers={"If-Match": tag})).status_code == status


async def test_any_version_needs_a_state(http: httpx.AsyncClient) -> None:
    """`*` fails where there is none, and stores none."""
    place = "/api/agents/Bare/nothing/state"

    refused = await http.put(place, json=1, headers={"If-Match": "*"})

    assert refused.status_code == 412
    assert (await http.get(place)).status_code == 404


async def test_history_is_read_page_by_page(http: httpx.AsyncClient) -> None:
    """Newest first; `next` leads on and ends with null."""
    for value in range(5):
        await http.put(STATE, json=value, headers={"Idempotency-Key": f"k{value}"})
    versions, newest = [], None
    for _ in range(3):
        params = {"limit": 2} | ({} if newest is None else {"newest": newest})
        page = (await http.get("/api/agents/Bare/a/history", params=params)).json()
        versions.append([row["version"] for row in page["history"]])
        newest = page["next"]

    assert (versions, newest) == ([[5, 4], [3, 2], [1]], None)
    assert {k: page["history"][0][k] for k in ("kind", "value", "key", "source", "is_full")} == {
        "kind": "set",
        "value": 0,
        "key": "k0",
        "source": "server",
        "is_full": True,
    }


async def test_agents_are_listed_page_by_page(http: httpx.AsyncClient) -> None:
    """In order of class and name, or of one class; decoded names come whole."""
    names = ["a", "b/c", "ü?&"]
    for name in names:
        await http.put(f"/api/agents/bare/{quote(name, safe='')}/state", json=1)
    await http.put("/api/agents/Counter/z/state", json={"count": 1})
    found, after = [], None
    for _ in range(2):
        params = {"limit": "2"} | ({} if after is None else {"after": after})
        page = (await http.get("/api/agents", params=params)).json()
        found += [(row["agent"], row["name"], row["version"]) for row in page["agents"]]
        after = page["next"]
    of_class = (await http.get("/api/agents", params={"class": "counter"})).json()["agents"]

    assert found == [*(("Bare", name, 1) for name in names), ("Counter", "z", 1)]
    assert (after, [row["name"] for row in of_class]) == (None, ["z"])


async def test_names_are_percent_decoded(live: LiveGateway) -> None:
    """A slash in a name is a part of it, and an encoded percent sign is one."""
    await live.http.put("/api/agents/Bare/a%2Fb%2520c/state", json=5)

    assert (await live.served.client.agent("Bare", "a/b%20c").get_state()).value == 5


async def test_line_breaks_in_names_are_no_ends(live: LiveGateway) -> None:
    """Neither in the API nor in agents' own addresses, where nothing is decoded."""
    put = await live.http.put("/api/agents/Bare/a%0Ab/state", json=1)
    async with live.connect("/agents/bare/a%0Ab") as socket:
        identity = await next_frame(socket, "cf_agent_identity")
    requested = await live.http.get("/agents/bare/a%0Ab")

    assert (put.status_code, identity["name"]) == (200, "a%0Ab")
    assert requested.text == "Not implemented"


async def test_a_method_is_called(http: httpx.AsyncClient) -> None:
    """Its result comes back; without a body field there are no arguments."""
    added = await http.post("/api/agents/calls/c/call/add", json={"args": [2, 3]})
    void = await http.post("/api/agents/calls/c/call/void", json={})

    assert (added.json(), void.json()) == ({"result": 5}, {"result": None})


async def test_a_repeated_call_runs_once(http: httpx.AsyncClient) -> None:
    """The recorded result is returned; another call under the key is refused."""
    headers = {"Idempotency-Key": "k"}
    place = "/api/agents/calls/repeated/call/slow"
    for _ in range(2):
        answer = await http.post(place, json={"args": [0, "x"]}, headers=headers)
        assert answer.json() == {"result": "x"}

    other = await http.post(place, json={"args": [0, "y"]}, headers=headers)

    assert Calls.runs["repeated"] == 1
    assert problem(other) == expected_problem(422, "IdempotencyConflictError")


async def test_a_method_that_raises_tells_its_text(http: httpx.AsyncClient) -> None:
    """The author's words reach the caller."""
    answer = await http.post("/api/agents/calls/c/call/throw", json={"args": ["no luck"]})

    assert problem(answer) == expected_problem(500, "HandlerError")
    assert "no luck" in answer.json()["detail"]


REFUSALS = [
    ("GET", "/api/agents/Nobody/a/state", {}, 404, "UnknownAgentClassError"),
    ("GET", "/api/agents/Bare/%00/state", {}, 400, "InvalidAgentError"),
    ("GET", "/api/agents/Bare/%ff/state", {}, 400, "InvalidAgentError"),
    ("GET", "/api/agents/Bare//state", {}, 400, "InvalidAgentError"),
    ("GET", f"/api/agents/Bare/{'n' * 513}/state", {}, 400, "InvalidAgentError"),
    ("GET", f"{STATE}?version=x", {}, 400, "InvalidRequestError"),
    ("GET", f"{STATE}?version={10**30}", {}, 400, "InvalidRequestError"),
    ("GET", "/api/agents/Bare/a/history?limit=0", {}, 400, "InvalidRequestError"),
    ("GET", "/api/agents?class=Nobody", {}, 404, "UnknownAgentClassError"),
    ("PUT", STATE, {"content": b"{"}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"content": b"NaN"}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"content": b""}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"content": b"[" * 150 + b"]" * 150}, 400, "NotSerializableError"),
    ("PUT", STATE, {"data": {"a": "b"}}, 415, "UnsupportedBody"),
    ("PUT", STATE, {"json": "x" * 2_000_000}, 413, "StateTooLargeError"),
    ("PUT", STATE, {"json": "x" * 2_300_000}, 413, "BodyTooLarge"),
    ("PUT", STATE, {"json": 1, "headers": {"Idempotency-Key": ""}}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"json": 1, "headers": {"Idempotency-Key": '"x'}}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"json": 1, "headers": TWICE["Idempotency-Key"]}, 400, "InvalidRequestError"),
    ("PUT", STATE, {"json": 1, "headers": TWICE["If-Match"]}, 400, "InvalidRequestError"),
    ("PATCH", STATE, {"json": [1]}, 422, "StateRejectedError"),
    ("PUT", "/api/agents/Counter/a/state", {"json": {"count": -1}}, 422, "StateRejectedError"),
    ("POST", "/api/agents/Calls/a/call/none", {"json": {}}, 404, "UnknownMethodError"),
    ("POST", "/api/agents/Calls/a/call/unmarked", {"json": {}}, 404, "MethodNotCallableError"),
    ("POST", "/api/agents/Calls/a/call/add", {"json": {"args": [1]}}, 400, "InvalidRequestError"),
    ("POST", "/api/agents/Calls/a/call/add", {"json": {"arg": []}}, 400, "InvalidRequestError"),
    ("POST", "/api/agents/Calls/a/call/add", {"json": [1, 2]}, 400, "InvalidRequestError"),
    ("GET", "/api", {}, 404, "NoSuchRoute"),
    ("GET", "/api/agents/Bare/a", {}, 405, "MethodNotAllowed"),
    ("POST", STATE, {"json": 1}, 405, "MethodNotAllowed"),
]


@pytest.mark.parametrize(("method", "path", "options", "status", "kind"), REFUSALS)
async def test_what_cannot_be_done_is_a_problem(
    http: httpx.AsyncClient, method: str, path: str, options: Any, status: int, kind: str
) -> None:
    """Each has its status, its kind and a sentence."""
    answer = await http.request(method, path, **options)

    assert problem(answer) == expected_problem(status, kind)
    assert len(answer.json()["detail"]) > 10


async def test_a_wrong_method_is_told_the_right_ones(http: httpx.AsyncClient) -> None:
    """405 and OPTIONS name them."""
    allowed = "GET, PUT, PATCH, DELETE, HEAD, OPTIONS"

    assert (await http.post(STATE, json=1)).headers["allow"] == allowed
    assert (await http.options(STATE)).headers["allow"] == allowed


async def test_head_is_get_without_a_body(http: httpx.AsyncClient) -> None:
    """Headers are the same."""
    await http.put(STATE, json=[1, 2])

    head = await http.head(STATE)

    assert (head.status_code, head.headers["etag"], head.content) == (200, '"1"', b"")


async def test_it_says_that_it_is_alive_and_ready(
    live: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ready means that storage and Temporal answer; without the storage it is not."""
    monkeypatch.setattr(http_api, "_CHECK_SECONDS", 60.0)
    alive = await live.http.get("/healthz")
    ready = await live.http.get("/readyz")
    await live.served.runtime.storage.close()
    unready = await live.http.get("/readyz")

    assert (alive.json(), ready.status_code) == ({"status": "ok"}, 200)
    assert ready.json() == {"status": "ready", "storage": "ok", "temporal": "ok"}
    assert (unready.status_code, unready.json()["storage"]) == (503, "unavailable")


def test_every_error_has_a_status() -> None:
    """The table is complete and holds nothing else."""
    assert set(STATUS) == set(error_types())


async def test_the_document_is_valid_and_names_every_route(live: LiveGateway) -> None:
    """OpenAPI 3.1 as its own schema has it; paths and methods are those that are served."""
    served = (await live.http.get("/openapi.json")).json()
    validate(served)
    documented = {
        path: sorted(set(item) - {"parameters"}) for path, item in served["paths"].items()
    }
    existing = {
        path: sorted(method.lower() for method in handlers)
        for path, handlers in HttpApi(build_app(live.gateway), live.gateway).endpoints.items()
    }

    assert documented == existing
    assert served == document(["Bare", "Calls", "Counter"])
