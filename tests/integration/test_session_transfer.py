"""Whole conversations as JSON Lines over the HTTP API and `GatewayClient`."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest

from agent_runtime import GatewayClient, open_session_store
from agent_runtime.errors import (
    ConfigurationError,
    InvalidImportError,
    InvalidRequestError,
    ReadonlyConnectionError,
    UnavailableError,
    UnknownSessionError,
)
from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.limits import Limits
from agent_runtime.local.temporal_server import free_port
from agent_runtime.session.message import text_message
from agent_runtime.session.session_import import ImportedSession, import_session
from agent_runtime.session.session_spool import SessionSpool
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.live_gateway import LiveGateway, live_gateway

READONLY, FULL = "r" * 20, "f" * 20
LINES = {"Content-Type": "application/jsonl"}
ODD = "one\u2028two\x85three\r\nfour"


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway whose bodies are short, but for what is imported."""
    limits = Limits(max_body_bytes=50_000, max_import_bytes=1_000_000)
    async with live_gateway(serve, Chat, limits=limits) as started:
        yield started


async def filled(live: LiveGateway) -> tuple[str, list[str]]:
    """Return an agent's name, and the lines of a session in which there is something of all."""
    name = uuid4().hex[:12]
    agent = live.served.client.agent("Chat", name)
    session = agent.session()
    await session.append_messages([text_message("user", f"{ODD} {n}", id=f"m{n}") for n in "012"])
    await session.append_message(text_message("assistant", "other", id="m1b"), "m0")
    await session.add_compaction("short", "m0", "m1")
    await session.replace_context_block("memory", "tea")
    await session.freeze_system_prompt()
    return name, [line async for line in agent.sessions().export("")]


def path(name: str, rest: str) -> str:
    """Return a path of an agent."""
    return f"/api/agents/chat/{name}/{rest}"


def kind(answer: httpx.Response) -> tuple[int, str]:
    """Return a problem's status and kind."""
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def body_of(lines: list[str]) -> bytes:
    """Return lines as they are sent."""
    return "".join(f"{line}\n" for line in lines).encode()


async def test_an_export_is_what_a_handle_exports(live: LiveGateway) -> None:
    """Line by line; HEAD says of what kind it is, without them."""
    name, lines = await filled(live)
    got = await live.http.get(path(name, "sessions/~default/export"))
    head = await live.http.head(path(name, "sessions/~default/export"))

    assert got.status_code == head.status_code == 200
    assert got.headers["content-type"] == head.headers["content-type"] == "application/jsonl"
    assert (got.content, head.content) == (body_of(lines), b"")


async def test_nothing_is_not_exported(live: LiveGateway) -> None:
    """As the program refuses it: an export of nothing would hide a wrong name."""
    assert kind(await live.http.get(path("no", "sessions/x/export"))) == (
        404,
        "UnknownSessionError",
    )


@pytest.mark.parametrize(("query", "session_id"), [("", ""), ("?session=~~a%2Fb", "~a/b")])
async def test_what_was_exported_is_imported(
    live: LiveGateway, query: str, session_id: str
) -> None:
    """Into another agent, under its id or another; a repeat passes over what is there."""
    _, lines = await filled(live)
    name = uuid4().hex[:12]
    place = path(name, f"session-import{query}")
    first = await live.http.post(place, content=body_of(lines), headers=LINES)
    again = await live.http.post(place, content=body_of(lines), headers=LINES)
    exported = live.served.client.agent("Chat", name).sessions().export(session_id)
    found = [line async for line in exported]

    counts = {"messages": 4, "compactions": 1, "contexts": 1, "entries": 0}
    assert first.json() == again.json() == {"sessionId": session_id, **counts}
    assert found[1:] == lines[1:]


async def test_an_import_is_longer_than_other_bodies(live: LiveGateway) -> None:
    """It has a limit of its own, announced or not; within it bodies come in chunks too."""
    session = [orjson.dumps(line).decode() for line in session_lines(20, "x" * 10_000)]
    name = uuid4().hex[:12]

    async def chunks(lines: list[str]) -> AsyncIterator[bytes]:
        for line in lines:
            yield body_of([line])

    done = await live.http.post(
        path(name, "session-import"), content=chunks(session), headers=LINES
    )
    long = await live.http.post(
        path(name, "session-import?session=other"),
        content=b"x" * 1_000_001,
        headers=LINES,
    )
    elsewhere = await live.http.put(path(name, "state"), content=b" " * 60_000)

    assert (done.status_code, done.json()["messages"]) == (200, 20)
    assert kind(long) == kind(elsewhere) == (413, "BodyTooLarge")


WRONG: list[tuple[dict[str, str], bytes, int, str]] = [
    ({}, b"", 415, "UnsupportedBody"),
    ({"Content-Type": "application/json"}, b"{}", 415, "UnsupportedBody"),
    (LINES, b"", 422, "InvalidImportError"),
    (LINES, b"{", 422, "InvalidImportError"),
    (LINES, b"\xff\n", 422, "InvalidImportError"),
    (LINES, b'{"type": "message"}', 422, "InvalidImportError"),
]


@pytest.mark.parametrize(("headers", "body", "status", "wanted"), WRONG)
async def test_what_is_no_export_is_refused(
    live: LiveGateway, headers: dict[str, str], body: bytes, status: int, wanted: str
) -> None:
    """Before anything is stored, the agent included."""
    answer = await live.http.post(path("a", "session-import"), content=body, headers=headers)

    assert kind(answer) == (status, wanted)
    assert await live.gateway.storage.list_agents(class_name=None, after=None, limit=1) == []


@pytest.mark.parametrize("line", [2, -1])
async def test_all_lines_are_checked_before_any_is_stored(live: LiveGateway, line: int) -> None:
    """One that is wrong in the middle, or the end that is missing, stores nothing."""
    _, lines = await filled(live)
    name = uuid4().hex[:12]
    lines[line] = "" if line == -1 else "{}"
    answer = await live.http.post(
        path(name, "session-import"), content=body_of(lines), headers=LINES
    )

    assert kind(answer) == (422, "InvalidImportError")
    assert await live.served.client.agent("Chat", name).session().get_path_length() == 0


async def test_an_import_keeps_out_of_other_sessions(live: LiveGateway) -> None:
    """One that holds something else is left as it is."""
    _, lines = await filled(live)
    name = uuid4().hex[:12]
    session = live.served.client.agent("Chat", name).session()
    await session.append_message(text_message("user", "mine", id="other"))
    answer = await live.http.post(
        path(name, "session-import"), content=body_of(lines), headers=LINES
    )

    assert kind(answer) == (422, "InvalidImportError")
    assert await session.get_path_length() == 1


async def test_a_gateway_client_exports_and_imports(live: LiveGateway) -> None:
    """Lines as a handle gives and takes them, from a file too; errors are those of a handle."""
    name, lines = await filled(live)
    async with GatewayClient(live.url) as client:
        source = client.agent("Chat", name).sessions()
        target = client.agent("Chat", uuid4().hex[:12]).sessions()
        exported = [line async for line in source.export("")]
        done = await target.import_lines(iter(exported), session_id="~copy")
        filed = await target.import_file(io.BytesIO(body_of(lines)), session_id="filed")
        copied = [[line async for line in target.export(each)][1:] for each in ("~copy", "filed")]
        with pytest.raises(UnknownSessionError):
            await anext(target.export("nothing"))
        with pytest.raises(InvalidImportError, match="line 2") as refused:
            await target.import_lines([lines[0], "{}"])
        with pytest.raises(InvalidImportError, match="UTF-8"):
            await target.import_lines(["\ud800"])
        with pytest.raises(InvalidRequestError, match="AgentClient"):
            await target.import_reference("x")

    assert exported == lines
    assert done == ImportedSession("~copy", 4, 1, 1, 0)
    assert filed == ImportedSession("filed", 4, 1, 1, 0)
    assert copied == [lines[1:], lines[1:]]
    assert refused.value.details_map == {"line": 2}


async def test_a_read_only_token_exports_only(serve: Serve) -> None:
    """It takes out what it may read, and brings nothing in."""
    async with live_gateway(serve, Chat, tokens=Tokens([FULL], [READONLY])) as live:
        name, lines = await filled(live)
        async with GatewayClient(live.url, token=READONLY) as client:
            sessions = client.agent("Chat", name).sessions()
            assert [line async for line in sessions.export("")] == lines
            with pytest.raises(ReadonlyConnectionError):
                await sessions.import_lines(lines, session_id="copy")


async def test_an_export_that_is_cut_off_says_so(
    live: LiveGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it does not take a part for the whole."""
    name, _ = await filled(live)
    reads = type(live.gateway.storage.sessions)

    async def fail(*args: Any) -> Any:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(reads, "context_labels", fail)
    async with GatewayClient(live.url) as client:
        with pytest.raises(UnavailableError):
            async for _ in client.agent("Chat", name).sessions().export(""):
                pass


async def test_a_lost_gateway_ends_a_transfer() -> None:
    """Neither is sent again by itself."""
    async with GatewayClient(f"http://127.0.0.1:{free_port()}") as client:
        sessions = client.agent("Chat", "a").sessions()
        with pytest.raises(UnavailableError):
            await anext(sessions.export(""))
        with pytest.raises(UnavailableError):
            await sessions.import_lines(["{}"])
    with pytest.raises(ConfigurationError, match="closed"):
        await anext(sessions.export(""))


def session_lines(count: int, text: str) -> Iterator[dict[str, Any]]:
    """Give the lines of a session of messages with a text."""
    moment = "2026-01-01T00:00:00.000Z"
    yield {"type": "session", "format": 1, "session_id": "", "record": None}
    for number in range(count):
        yield {
            "type": "message",
            "parent_id": f"m{number - 1}" if number else None,
            "created_at": moment,
            "message": text_message("user", text, id=f"m{number}"),
        }
    yield {"type": "end", "messages": count}


def many_lines() -> Iterator[str]:
    """Give a session of 40 MB, a line at a time."""
    for line in session_lines(400, "x" * 100_000):
        yield orjson.dumps(line).decode()


async def lines_as_they_come() -> AsyncIterator[str]:
    """Give the same session to who waits for its lines."""
    for line in many_lines():
        yield line


def test_an_import_holds_one_part_at_a_time() -> None:
    """Of 40 MB a few are in memory, to check them and to part them."""
    tracemalloc.start()
    try:
        with SessionSpool() as spool:
            spool.read_all(many_lines())
            sizes = [len(part) for part in spool.parts()]
            again = [len(part) for part in spool.parts()]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (spool.lines.counts["message"], sum(sizes), again) == (400, 400, sizes)
    assert peak < 5_000_000


async def test_a_direct_import_holds_one_part_at_a_time(tmp_path: Path) -> None:
    """Though it is one transaction, and its lines are given as they come."""
    async with await open_session_store(tmp_path / "sessions.db") as store:
        tracemalloc.start()
        try:
            done = await import_session(store, lines_as_they_come())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert done.messages == 400
    assert peak < 15_000_000
