"""A session as JSON Lines, and back."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.errors import InvalidImportError
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.message import Message
from agent_runtime.session.session_export import export_session
from agent_runtime.session.session_import import ImportedSession, import_session
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.session.stored_context import StoredSearchProvider
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.storage.message_tree import MessageTree
from agent_runtime.storage.sqlite import FILE_NAME
from tests.support.json_values import json_values
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, ids, open_stores, texts, u

Line = dict[str, Any]


@pytest.fixture(params=ENGINES)
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresDatabases
) -> AsyncIterator[list[DirectSessionStore]]:
    """Two owners' stores in a fresh database of either engine."""
    async with open_stores(request.param, tmp_path, postgres, "from", "to") as opened:
        yield opened


async def lines_of(store: SessionStore, session_id: str) -> list[str]:
    """All lines of a session's export."""
    return [line async for line in export_session(store, session_id)]


def managed(store: SessionStore) -> SessionManager:
    """A manager of sessions with all kinds of content."""
    return (
        SessionManager.create(store)
        .with_context("memory")
        .with_context("facts", provider=StoredSearchProvider(store))
        .with_cached_prompt()
    )


async def full_session(store: SessionStore) -> str:
    """Make a session that has something of everything."""
    manager = managed(store)
    record = await manager.create("Chat", "some-parent", "some-model", "web")
    await manager.add_usage(record.id, 100, 20, 0.5)
    session = manager.get_session(record.id)
    await manager.append_all(record.id, [u(f"m{index}") for index in range(6)])
    await manager.append(record.id, u("other root"), None)
    await manager.append(record.id, u("branch", "über\u2028 \x00 line\nend"), "m3")
    await manager.delete_messages(record.id, ["m1"])
    await manager.add_compaction(record.id, "First", "m2", "m3")
    await manager.add_compaction(record.id, "Second", "m2", "m4")
    await session.replace_context_block("memory", "likes tea")
    tools = await session.tools()
    for title in ("One", "Two"):
        arguments = {"label": "facts", "content": f"{title} word", "metadata": {"title": title}}
        await tools["set_context"].execute(arguments)
    await session.refresh_system_prompt()
    return record.id


async def test_a_session_comes_back_as_it_was(stores: list[DirectSessionStore]) -> None:
    """Tree, order, times, summaries, blocks, entries, prompt and record, to the byte."""
    source, target = stores
    session_id = await full_session(source)
    lines = await lines_of(source, session_id)

    done = await import_session(target, lines)

    assert done == ImportedSession(session_id, 7, 2, 1, 2)
    assert await lines_of(target, session_id) == lines
    before, after = managed(source), managed(target)
    assert await after.get(session_id) == await before.get(session_id)
    for leaf in (None, "m5", "branch", "m3", "other root"):
        expected = await before.get_history(session_id, leaf)
        assert await after.get_history(session_id, leaf) == expected
    assert texts(await after.get_history(session_id, "m5")) == [
        "m0 message",
        "Second",
        "m5 message",
    ]
    assert ids(await after.get_branches(session_id, "m3")) == ["m4", "branch"]
    assert [hit.id for hit in await after.search("über line")] == ["branch"]
    session = after.get_session(session_id)
    original = before.get_session(session_id)
    assert await session.freeze_system_prompt() == await original.freeze_system_prompt()
    found = await (await session.tools())["search_context"].execute(
        {"label": "facts", "query": "word"}
    )
    assert set(found.split("\n\n")) == {"[one]\nOne word", "[two]\nTwo word"}


async def test_an_imported_session_goes_on(stores: list[DirectSessionStore]) -> None:
    """The next message goes below the latest one, and the record's counters go on."""
    source, target = stores
    session_id = await full_session(source)
    await import_session(target, await lines_of(source, session_id))
    manager = managed(target)

    await manager.append(session_id, u("next"))
    await manager.add_usage(session_id, 1, 1, 0.0)

    assert ids(await manager.get_history(session_id))[-2:] == ["branch", "next"]
    record = await manager.get(session_id)
    assert record is not None and (record.input_tokens, record.output_tokens) == (101, 21)


async def test_a_session_of_nothing(stores: list[DirectSessionStore]) -> None:
    """Has a header and an end, and can be imported, unregistered as it was."""
    source, target = stores

    lines = await lines_of(source, "")

    assert [orjson.loads(line) for line in lines] == [
        {"type": "session", "format": 1, "session_id": "", "record": None},
        {"type": "end", "messages": 0, "left_out": 0},
    ]
    assert await import_session(target, lines) == ImportedSession("", 0, 0, 0, 0)
    assert await SessionManager.create(target).list() == []


async def test_a_session_is_imported_under_another_id(stores: list[DirectSessionStore]) -> None:
    """Also from lines that come by and by, with line ends and blank lines."""
    source, _ = stores
    session_id = await full_session(source)

    async def slowly() -> AsyncIterator[str]:
        for line in await lines_of(source, session_id):
            yield line + "\r\n"
            yield "\n"

    done = await import_session(source, slowly(), session_id="copy")

    manager = managed(source)
    assert done.session_id == "copy"
    record, copy = await manager.get(session_id), await manager.get("copy")
    assert record is not None and copy is not None
    assert {**record.to_json(), "id": "copy"} == copy.to_json()
    assert await manager.get_history("copy") == await manager.get_history(session_id)


async def test_a_registered_empty_session_keeps_its_record(
    stores: list[DirectSessionStore],
) -> None:
    """The content comes into it."""
    source, target = stores
    lines = await lines_of(source, await full_session(source))
    manager = managed(target)
    mine = await manager.create("Mine")

    await import_session(target, lines, session_id=mine.id)

    record = await manager.get(mine.id)
    assert record is not None and record.name == "Mine"
    assert await manager.get_message_count(mine.id) > 0


@pytest.mark.parametrize("content", ["message", "block", "entry"])
async def test_a_session_that_holds_something_is_not_overwritten(
    stores: list[DirectSessionStore], content: str
) -> None:
    """It stays as it was."""
    source, target = stores
    lines = await lines_of(source, await full_session(source))
    manager = managed(target)
    session = manager.get_session("busy")
    if content == "message":
        await session.append_message(u("mine"))
    elif content == "block":
        await session.replace_context_block("memory", "mine")
    else:
        tools = await session.tools()
        await tools["set_context"].execute({"label": "facts", "content": "mine"})
    before = await lines_of(target, "busy")

    with pytest.raises(InvalidImportError, match="'busy' holds something"):
        await import_session(target, lines, session_id="busy")

    assert await lines_of(target, "busy") == before


async def test_of_imports_at_once_one_is_done(stores: list[DirectSessionStore]) -> None:
    """They never mix."""
    source, target = stores
    lines = await lines_of(source, await full_session(source))

    results = await asyncio.gather(
        *(import_session(target, lines, session_id="s") for _ in range(5)), return_exceptions=True
    )

    assert sum(isinstance(each, ImportedSession) for each in results) == 1
    assert sum(isinstance(each, InvalidImportError) for each in results) == 4


async def test_an_import_that_fails_in_the_middle_leaves_nothing(
    stores: list[DirectSessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither messages nor a record; the next one does it all."""
    source, target = stores
    session_id = await full_session(source)
    lines = await lines_of(source, session_id)

    async def fail(*args: object) -> None:
        raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(MessageTree, "add_overlay", fail)
        with pytest.raises(OSError, match="no more"):
            await import_session(target, lines)

    assert await target.reads.session_ids(target.agent) == []
    assert await SessionManager.create(target).list() == []
    await import_session(target, lines)
    assert await lines_of(target, session_id) == lines


async def test_a_row_that_is_no_message_is_left_out(tmp_path: Path) -> None:
    """Its children go to its parent; the end tells that something is missing."""
    async with await open_session_store(tmp_path) as store:
        await StoredSessionProvider(store, "s").append_messages([u("m0"), u("m1"), u("m2")])
        with contextlib.closing(sqlite3.connect(tmp_path / FILE_NAME)) as database:
            database.execute("UPDATE messages SET content = '{' WHERE message_id = 'm1'")
            database.commit()

        lines = await lines_of(store, "s")
        await import_session(store, lines, session_id="mended")

        assert orjson.loads(lines[-1]) == {"type": "end", "messages": 2, "left_out": 1}
        mended = StoredSessionProvider(store, "mended")
        assert ids(await mended.get_history()) == ["m0", "m2"]


HEADER: Line = {"type": "session", "format": 1, "session_id": "s", "record": None}
TIME = "2026-01-01T00:00:00.000Z"
ROOT: Line = {"type": "message", "parent_id": None, "created_at": TIME, "message": u("m0")}
END: Line = {"type": "end", "messages": 1}
SUMMARY: Line = {
    "type": "compaction",
    "id": "c",
    "summary": "S",
    "from_message_id": "m0",
    "to_message_id": "m0",
    "created_at": TIME,
}


CONTEXT: Line = {"type": "context", "label": "memory", "content": "tea"}


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "line 0: .*ends the session is missing"),
        ([HEADER, ROOT], "line 2: .*cut off"),
        ([ROOT, END], "line 1: a session begins"),
        ([HEADER, HEADER, END], "line 2: a session begins"),
        ([{**HEADER, "format": 2}], "line 1: the format is 2"),
        ([{**HEADER, "record": {"name": "x"}}], "line 1: session.record.parent_session_id"),
        ([HEADER, ROOT, {"type": "end", "messages": 2}], "line 3: there are 1 messages"),
        ([HEADER, ROOT, END, ROOT], "line 4: something follows"),
        ([HEADER, {**ROOT, "parent_id": "nope"}], "line 2: the parent 'nope'"),
        ([HEADER, ROOT, {**ROOT, "parent_id": "m0"}], "line 3: the message 'm0' is there twice"),
        ([HEADER, {**ROOT, "parent_id": "m0"}], "line 2: the parent 'm0'"),
        ([HEADER, {**ROOT, "message": {"id": "x"}}], "line 2: a message needs a string `role`"),
        ([HEADER, {**ROOT, "message": u("compaction_x")}], "line 2: ids beginning with"),
        ([HEADER, {**ROOT, "message": []}], "line 2: message.message"),
        ([HEADER, {**ROOT, "created_at": "yesterday"}], "line 2: message.created_at"),
        ([HEADER, {**ROOT, "created_at": 5}], "line 2: message.created_at"),
        ([HEADER, {"type": "message"}], "line 2: message.parent_id"),
        ([HEADER, {"type": "poem"}], "line 2: .*poem"),
        ([HEADER, [1]], "line 2: "),
        ([HEADER, SUMMARY, SUMMARY], "line 3: the compaction 'c' is there twice"),
        ([HEADER, {**SUMMARY, "summary": None}], "line 2: compaction.summary"),
        ([HEADER, {**SUMMARY, "to_message_id": "x" * 2001}], "line 2: .*to_message_id: .*2001"),
        ([HEADER, {**CONTEXT, "label": "x" * 501}], "line 2: context.label: .*501"),
        ([HEADER, {**CONTEXT, "type": "entry", "key": "x" * 2001}], "line 2: entry.key: .*2001"),
    ],
)
async def test_a_wrong_line_is_named(tmp_path: Path, lines: list[Line], expected: str) -> None:
    """And nothing is stored."""
    async with await open_session_store(tmp_path) as store:
        with pytest.raises(InvalidImportError, match=expected):
            await import_session(store, [orjson.dumps(line).decode() for line in lines])
        assert await store.reads.session_ids(store.agent) == []


@pytest.mark.parametrize("text", ["{", "[1", "NaN", "nonsense", '{"type": "\ud800"}'])
async def test_a_line_that_is_no_json_is_named(tmp_path: Path, text: str) -> None:
    """Blank lines count too, as editors count them."""
    async with await open_session_store(tmp_path) as store:
        with pytest.raises(InvalidImportError, match="line 3: "):
            await import_session(store, [orjson.dumps(HEADER).decode(), "", text])


_MESSAGES = st.builds(
    lambda role, text, extra: {
        "role": role,
        "parts": [{"type": "text", "text": text}, {"type": "data-x", "value": extra}],
    },
    st.sampled_from(["user", "assistant"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    json_values,
)

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _MESSAGES, st.integers(0, 30)),
        st.tuples(st.just("root"), _MESSAGES, st.just(0)),
        st.tuples(st.just("delete"), st.just(None), st.integers(0, 30)),
        st.tuples(st.just("compact"), st.integers(0, 30), st.integers(0, 30)),
    ),
    max_size=25,
)


async def _grow(provider: StoredSessionProvider, steps: list[tuple[str, Any, int]]) -> list[str]:
    made: list[str] = []
    for number, (kind, what, at) in enumerate(steps):
        if kind in ("append", "root"):
            message: Message = {"id": f"m{number}", **what}
            parent = made[at % len(made)] if kind == "append" and made else None
            await provider.append_message(message, parent)
            made.append(message["id"])
        elif kind == "delete" and made:
            await provider.delete_messages([made.pop(at % len(made))])
        elif kind == "compact" and made:
            ends = made[what % len(made)], made[at % len(made)]
            await provider.add_compaction(f"Summary {number}", *ends)
    return made


async def _round_trip(steps: list[tuple[str, Any, int]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with await open_session_store(directory) as store:
            original = StoredSessionProvider(store, "original")
            made = await _grow(original, steps)
            lines = await lines_of(store, "original")

            await import_session(store, lines, session_id="copy")

            copy = StoredSessionProvider(store, "copy")
            assert (await lines_of(store, "copy"))[1:] == lines[1:]
            for leaf in [None, *made]:
                assert await copy.get_history(leaf) == await original.get_history(leaf)
                assert await copy.get_path_length(leaf) == await original.get_path_length(leaf)
                tokens = await original.estimate_visible_tokens(leaf)
                assert await copy.estimate_visible_tokens(leaf) == tokens
            rows = [
                await store.reads.tree(session_ref(store, each), 0, 100)
                for each in ("original", "copy")
            ]
            assert [_without_seq(each) for each in rows[0]] == [
                _without_seq(each) for each in rows[1]
            ]


def _without_seq(row: Any) -> tuple[Any, ...]:
    return row.id, row.role, row.depth, row.bytes, row.tokens, row.created_at, row.content


@settings(max_examples=40, deadline=None)
@given(_STEPS)
def test_any_tree_comes_back(steps: list[tuple[str, Any, int]]) -> None:
    """Whatever was appended, deleted and summarized before."""
    asyncio.run(_round_trip(steps))
