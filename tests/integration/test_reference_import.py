"""Conversations from an SQLite file that the reference wrote (sessions 20.1)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import InvalidImportError
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message
from agent_runtime.session.reference_import import ReferenceImport, import_reference_tables
from agent_runtime.session.reference_messages import ImportProblem, place_messages
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.session_store import session_ref
from agent_runtime.session.stored_context import StoredSearchProvider
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session_stores import ENGINES, ids, open_stores, texts, u

TABLES = """
CREATE TABLE assistant_messages (id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '',
    parent_id TEXT, role TEXT NOT NULL, content TEXT NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_compactions (id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '',
    summary TEXT NOT NULL, from_message_id TEXT NOT NULL, to_message_id TEXT NOT NULL,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE assistant_sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL, parent_session_id TEXT,
    model TEXT, source TEXT, input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
    estimated_cost REAL DEFAULT 0, end_reason TEXT, created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE cf_agents_context_blocks (label TEXT PRIMARY KEY, content TEXT NOT NULL,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE cf_agents_search_entries (label TEXT NOT NULL, key TEXT NOT NULL,
    content TEXT NOT NULL, created_at DATETIME DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (label, key));
"""

SECOND = "2026-03-01 12:00:0"


class Reference:
    """A file as the reference leaves one."""

    def __init__(self, path: Path, tables: str = TABLES) -> None:
        self.path = path
        self._number = 0
        self._run(tables)

    def message(
        self,
        message_id: str,
        parent_id: str | None,
        *,
        session_id: str = "",
        content: str | bytes | None = None,
        created_at: str | None = f"{SECOND}0",
    ) -> None:
        """Add a row; by default a sound one, all of one second."""
        text = orjson.dumps(u(message_id)).decode() if content is None else content
        self._run(
            "INSERT INTO assistant_messages VALUES (?, ?, ?, 'user', ?, ?)",
            (message_id, session_id, parent_id, text, created_at),
        )

    def compaction(self, compaction_id: str, first: str, last: str, session_id: str = "") -> None:
        """Add a row."""
        self._run(
            "INSERT INTO assistant_compactions VALUES (?, ?, ?, ?, ?, ?)",
            (compaction_id, session_id, f"Summary {compaction_id}", first, last, f"{SECOND}5"),
        )

    def session(self, session_id: str, name: str | bytes, updated_at: str = f"{SECOND}9") -> None:
        """Add a row."""
        self._run(
            """INSERT INTO assistant_sessions VALUES
            (?, ?, 'parent', 'some-model', 'web', 10, 20, 0.5, NULL, ?, ?)""",
            (session_id, name, f"{SECOND}0", updated_at),
        )

    def context(self, label: str, content: str) -> None:
        """Add a row."""
        self._run(
            "INSERT INTO cf_agents_context_blocks (label, content) VALUES (?, ?)", (label, content)
        )

    def entry(self, label: str, key: str, content: str) -> None:
        """Add a row."""
        self._run(
            "INSERT INTO cf_agents_search_entries (label, key, content) VALUES (?, ?, ?)",
            (label, key, content),
        )

    def _run(self, statement: str, params: tuple[object, ...] = ()) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as database:
            if params:
                database.execute(statement, params)
            else:
                database.executescript(statement)
            database.commit()


@pytest.fixture
def reference(tmp_path: Path) -> Reference:
    """A file with empty tables."""
    return Reference(tmp_path / "reference.sqlite")


@pytest.fixture(params=ENGINES)
async def store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresDatabases
) -> AsyncIterator[DirectSessionStore]:
    """A fresh session store of either engine."""
    async with open_stores(request.param, tmp_path / "store", postgres, "default") as [opened]:
        yield opened


async def test_a_sound_file_comes_over_whole(
    store: DirectSessionStore, reference: Reference
) -> None:
    """Messages, summaries, records, blocks, prompts and entries, to where they belong."""
    for number in range(5):
        parent = f"a{number - 1}" if number else None
        reference.message(f"a{number}", parent, session_id="chat-a", created_at=f"{SECOND}{number}")
    reference.message("branch", "a1", session_id="chat-a", created_at=f"{SECOND}9")
    reference.message("d0", None)
    reference.compaction("c1", "a1", "a3", "chat-a")
    reference.session("chat-b", "Older", f"{SECOND}1")
    reference.session("chat-a", "Newer", f"{SECOND}2")
    reference.context("memory_chat-a", "likes tea")
    reference.context("memory", "likes coffee")
    reference.context("_system_prompt_chat-a", "The prompt")
    reference.context("_system_prompt", "")
    reference.entry("facts", "one", "alpha beta")

    done = await import_reference_tables(store, reference.path)

    assert done == ReferenceImport(7, 1, 2, 2, 2, 1, [])
    manager = SessionManager.create(store).with_context("memory").with_cached_prompt()
    assert ids(await manager.get_history("chat-a")) == ["a0", "a1", "branch"]
    assert texts(await manager.get_history("chat-a", "a4")) == [
        "a0 message",
        "Summary c1",
        "a4 message",
    ]
    assert ids(await manager.get_history("")) == ["d0"]
    assert [each.name for each in await manager.list()] == ["Newer", "Older"]
    record = await manager.get("chat-a")
    assert record is not None
    assert record.to_json() == {
        "id": "chat-a",
        "name": "Newer",
        "parent_session_id": "parent",
        "model": "some-model",
        "source": "web",
        "input_tokens": 10,
        "output_tokens": 20,
        "estimated_cost": 0.5,
        "end_reason": None,
        "created_at": "2026-03-01T12:00:00.000Z",
        "updated_at": "2026-03-01T12:00:02.000Z",
    }
    for session_id, memory, prompt in (("chat-a", "tea", "The prompt"), ("", "coffee", "")):
        session = manager.get_session(session_id)
        block = await session.get_context_block("memory")
        assert block is not None and block.content == f"likes {memory}"
        assert await session.freeze_system_prompt() == prompt
    [row] = await store.reads.tree(session_ref(store, ""), 0, 10)
    assert row.created_at == 1772366400000
    [hit] = await manager.search("branch message")
    assert (hit.id, hit.created_at) == ("branch", "2026-03-01T12:00:09.000Z")
    provider = StoredSearchProvider(store, shared_as="facts")
    provider.init("facts")
    assert await provider.search("beta") == "[one]\nalpha beta"


async def test_a_deleted_message_leaves_a_tree_of_its_own(
    store: DirectSessionStore, reference: Reference
) -> None:
    """F01: as the reference shows it; nobody knows any more where it hung."""
    for message_id, parent_id in (("m0", None), ("m1", "m0"), ("m3", "m2"), ("m4", "m3")):
        reference.message(message_id, parent_id)

    done = await import_reference_tables(store, reference.path)

    manager = SessionManager.create(store)
    assert ids(await manager.get_history("")) == ["m3", "m4"]
    assert ids(await manager.get_history("", "m1")) == ["m0", "m1"]
    [problem] = done.problems
    assert (problem.table, problem.key) == ("assistant_messages", "m3")
    assert "'m2' is gone" in problem.reason


async def test_a_circle_is_opened(store: DirectSessionStore, reference: Reference) -> None:
    """F02: a message that was deleted and sent again below its own descendants."""
    for message_id, parent_id in (("m0", None), ("m2", "m1"), ("m3", "m2"), ("m1", "m3")):
        reference.message(message_id, parent_id)

    done = await import_reference_tables(store, reference.path)

    manager = SessionManager.create(store)
    assert ids(await manager.get_history("")) == ["m2", "m3", "m1"]
    assert [each.key for each in done.problems] == ["m2"]
    assert "own ancestor" in done.problems[0].reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "JSON object"),
        ('{"id":"m1","role":"user"}', "`parts`"),
        ('{"id":"other","role":"user","parts":[]}', "'other'"),
        (b"\xff\xfe", "no text"),
        ("\0", "no text"),
        ("\udcff", "no text"),
        ('{"id":"m1","role":"user","parts":[{"type":"text","text":"\udcff"}]}', "no text"),
    ],
)
async def test_a_damaged_message_is_left_out(
    store: DirectSessionStore, reference: Reference, content: str | bytes, reason: str
) -> None:
    """And told; what was below it goes to its parent."""
    reference.message("m0", None)
    if isinstance(content, str):
        # Bytes that are no UTF-8 are in the file as a text.
        raw = content.encode(errors="surrogateescape")
        reference.message("m1", "m0")
        with contextlib.closing(sqlite3.connect(reference.path)) as database:
            database.execute(
                "UPDATE assistant_messages SET content = CAST(? AS TEXT) WHERE id = 'm1'", (raw,)
            )
            database.commit()
    else:
        reference.message("m1", "m0", content=content)
    reference.message("m2", "m1")

    done = await import_reference_tables(store, reference.path)

    assert ids(await SessionManager.create(store).get_history("")) == ["m0", "m2"]
    [problem] = done.problems
    assert problem.key == "m1" and "left out" in problem.reason and reason in problem.reason


async def test_other_damaged_rows_are_left_out(
    store: DirectSessionStore, reference: Reference
) -> None:
    """Each is told with its table and key; the others come over."""
    reference.message("m0", None)
    reference.message("compaction_x", "m0")
    reference.compaction("c1", "m0", "m0")
    reference.compaction("c2", "gone", "m0")
    reference.compaction("c3", "m0", "compaction_c1")
    reference.session("s1", "Good")
    reference.session("s2", b"\x00")
    reference.context("_system_prompt_gone", "Old prompt")
    reference.context("_system_prompt_s1", "Prompt")

    done = await import_reference_tables(store, reference.path)

    assert [(each.table, each.key) for each in done.problems] == [
        ("cf_agents_context_blocks", "_system_prompt_gone"),
        ("assistant_sessions", "s2"),
        ("assistant_messages", "compaction_x"),
        ("assistant_compactions", "c2"),
        ("assistant_compactions", "c3"),
    ]
    assert (done.messages, done.compactions, done.records, done.prompts) == (1, 1, 1, 1)


async def test_keys_of_blocks_go_to_the_session_they_name(
    store: DirectSessionStore, reference: Reference
) -> None:
    """F33c: the longest id that fits; a key that names none is a label."""
    for session_id in ("b", "a_b"):
        reference.message(f"m-{session_id}", None, session_id=session_id)
    for key in ("memory_a_b", "memory_b", "memory_c", "_b"):
        reference.context(key, key)

    done = await import_reference_tables(store, reference.path)

    labels = {
        each: await store.reads.context_labels(session_ref(store, each))
        for each in ("", "b", "a_b")
    }
    assert labels == {"": ["_b", "memory_c"], "b": ["memory"], "a_b": ["memory"]}
    assert done.problems == []


async def test_a_session_may_be_called_prompt(
    store: DirectSessionStore, reference: Reference
) -> None:
    """The default session's prompt is not taken for a block of it."""
    reference.message("m", None, session_id="prompt")
    reference.context("_system_prompt", "of the default session")
    reference.context("_system_prompt_prompt", "its own")

    await import_reference_tables(store, reference.path)

    prompts = [await store.reads.prompt(session_ref(store, each)) for each in ("", "prompt")]
    assert [each and each.prompt for each in prompts] == ["of the default session", "its own"]


async def test_messages_of_one_second_keep_their_order(
    store: DirectSessionStore, reference: Reference
) -> None:
    """And one that is older than its parent by the clock comes after it all the same."""
    reference.message("m0", None, created_at=f"{SECOND}5")
    reference.message("m1", "m0", created_at=f"{SECOND}5")
    reference.message("m2", "m1", created_at=f"{SECOND}1")
    reference.message("m3", "m2", created_at=None)

    done = await import_reference_tables(store, reference.path)

    assert ids(await SessionManager.create(store).get_history("")) == ["m0", "m1", "m2", "m3"]
    assert done.problems == []


async def test_a_session_in_use_is_not_mixed_with(
    store: DirectSessionStore, reference: Reference
) -> None:
    """Then nothing at all is imported, and a second import of the same file neither."""
    manager = SessionManager.create(store)
    await manager.append("busy", u("mine"))
    reference.message("m0", None)
    reference.message("m1", None, session_id="busy")

    with pytest.raises(InvalidImportError, match="'busy'"):
        await import_reference_tables(store, reference.path)

    assert await manager.get_history("") == []
    await manager.delete("busy")
    await import_reference_tables(store, reference.path)
    with pytest.raises(InvalidImportError):
        await import_reference_tables(store, reference.path)
    assert ids(await manager.get_history("")) == ["m0"]


async def test_an_entry_that_is_there_is_not_overwritten(
    store: DirectSessionStore, reference: Reference
) -> None:
    """It is told; entries belong to no session, so nothing else is refused for them."""
    provider = StoredSearchProvider(store, shared_as="facts")
    provider.init("facts")
    await provider.set("one", "mine")
    reference.entry("facts", "one", "theirs")
    reference.entry("facts", "two", "new")

    done = await import_reference_tables(store, reference.path)

    assert (done.entries, [each.key for each in done.problems]) == (1, ["facts one"])
    assert await provider.search("mine") == "[one]\nmine"
    assert await provider.search("new") == "[two]\nnew"


async def test_some_tables_are_enough(store: DirectSessionStore, tmp_path: Path) -> None:
    """The reference makes each when it is first used."""
    statement = TABLES[: TABLES.index("CREATE TABLE assistant_compactions")]
    reference = Reference(tmp_path / "some.sqlite", statement)
    reference.message("m0", None)

    assert (await import_reference_tables(store, reference.path)).messages == 1


@pytest.mark.parametrize("kind", ["missing", "text", "other tables", "other columns"])
async def test_a_file_that_is_none_is_refused(
    store: DirectSessionStore, tmp_path: Path, kind: str
) -> None:
    """With the reason; nothing is made of it."""
    path = tmp_path / "file with ?#%.sqlite"
    if kind == "text":
        path.write_text("no database at all, just a text that is long enough to be one " * 20)
    elif kind == "other tables":
        Reference(path, "CREATE TABLE other (id TEXT)")
    elif kind == "other columns":
        Reference(path, "CREATE TABLE assistant_messages (id TEXT, session_id TEXT)")
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("INSERT INTO assistant_messages VALUES ('m', '')")
            database.commit()

    with pytest.raises(InvalidImportError):
        await import_reference_tables(store, path)
    assert path.exists() == (kind != "missing")


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.none() | st.integers(0, 14), st.booleans()),
        max_size=13,
        unique_by=lambda row: row[0],
    )
)
def test_any_rows_become_a_tree(rows: list[tuple[int, int | None, bool]]) -> None:
    """Parents come first, whatever holes and circles there were; no sound message is lost."""
    made: list[tuple[str, str | None, str, None]] = []
    for number, parent, is_sound in rows:
        message: Message = u(f"m{number}")
        content = orjson.dumps(message).decode() if is_sound else "{"
        made.append((f"m{number}", None if parent is None else f"m{parent}", content, None))
    problems: list[ImportProblem] = []

    placed = place_messages(made, problems)

    seen: set[str] = set()
    for each in placed:
        assert each.parent_id is None or each.parent_id in seen
        seen.add(each.message.id)
    assert seen == {f"m{number}" for number, _, is_sound in rows if is_sound}
    roots = sum(parent is None for _, parent, is_sound in rows if is_sound)
    assert sum(each.parent_id is None for each in placed) >= roots
    left_out = [each for each in problems if each.reason.startswith("left out")]
    assert len(left_out) == sum(not is_sound for *_, is_sound in rows)
