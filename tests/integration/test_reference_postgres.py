"""Conversations in the reference's own tables on PostgreSQL: read there, or brought over (20.3)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import asyncpg
import orjson
import psycopg
import pytest

from agent_runtime.errors import InvalidImportError, InvalidSearchError, SessionError
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import PostgresConnection
from agent_runtime.session.postgres_providers import (
    PostgresContextProvider,
    PostgresSearchProvider,
    PostgresSessionProvider,
)
from agent_runtime.session.postgres_session_store import PostgresSessionStore
from agent_runtime.session.reference_import import ReferenceImport
from agent_runtime.session.reference_postgres import import_reference_postgres
from agent_runtime.session.reference_session import ReferencePostgresSession
from agent_runtime.session.session import Session
from agent_runtime.session.session_store import session_ref
from tests.support.postgres_clients import DriverClient, MinimalConnection
from tests.support.postgres_databases import APP, PostgresDatabases
from tests.support.reference_tables import REFERENCE_TABLES
from tests.support.session import ids, shown, user

START = datetime(2026, 5, 18, 15, 42, 29, tzinfo=UTC)

Wrap: TypeAlias = Callable[[asyncpg.Connection], PostgresConnection]
KINDS: dict[str, Wrap] = {
    "asyncpg": lambda opened: opened,
    "driver": DriverClient,
    "minimal": MinimalConnection,
}


class Reference:
    """The reference's tables, and a connection of a user who may only read them."""

    def __init__(self, url: str, owner: asyncpg.Connection, opened: asyncpg.Connection) -> None:
        self.url = url
        self._owner = owner
        self.opened = opened
        self._seconds = 0

    async def message(
        self,
        message_id: str,
        parent_id: str | None,
        *,
        session_id: str = "",
        content: str | None = None,
        is_later: bool = True,
    ) -> None:
        """Add a row; by default a sound one, a second later than the one before."""
        self._seconds += is_later
        text = f"{message_id} message"
        stored = orjson.dumps(user(message_id, text)).decode() if content is None else content
        await self._owner.execute(
            """INSERT INTO assistant_messages
            (id, session_id, parent_id, role, content, text_content, created_at)
            VALUES ($1, $2, $3, 'user', $4, $5, $6)""",
            message_id,
            session_id,
            parent_id,
            stored,
            text,
            START + timedelta(seconds=self._seconds),
        )

    async def compaction(self, overlay_id: str, first: str, last: str) -> None:
        """Add a row."""
        await self._owner.execute(
            """INSERT INTO assistant_compactions
            (id, summary, from_message_id, to_message_id, created_at)
            VALUES ($1, $2, $3, $4, $5)""",
            overlay_id,
            f"Summary {overlay_id}",
            first,
            last,
            START,
        )

    async def run(self, statement: str, *values: Json) -> None:
        """Run any statement."""
        await self._owner.execute(statement, *values)

    async def chain(self, count: int) -> None:
        """Add `m0` and what follows, each below the one before it."""
        for number in range(count):
            await self.message(f"m{number}", f"m{number - 1}" if number else None)


@pytest.fixture
async def reference(postgres: PostgresDatabases) -> AsyncIterator[Reference]:
    """Empty tables of the reference beside the runtime's own schema."""
    url = await postgres.migrated()
    owner = await asyncpg.connect(postgres.as_administrator(url))
    await owner.execute(REFERENCE_TABLES)
    await owner.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {APP}")
    opened = await asyncpg.connect(url)
    yield Reference(url, owner, opened)
    await opened.close()
    await owner.close()


async def filled(reference: Reference) -> None:
    """Make two branches, summaries, damaged rows, and another session."""
    await reference.chain(8)
    for message_id, parent_id in (("b4", "m3"), ("b5", "b4")):
        await reference.message(message_id, parent_id)
    await reference.message("m3", None, session_id="other")
    await reference.compaction("c1", "m1", "m2")
    await reference.compaction("c2", "m1", "m5")
    await reference.compaction("c3", "m4", "nobody")


async def test_psycopg_reads_and_brings_over(reference: Reference) -> None:
    """The same over its connection as over asyncpg's, times included."""
    await filled(reference)
    async with await psycopg.AsyncConnection.connect(reference.url) as connection:
        there = ReferencePostgresSession(connection)
        elsewhere = ReferencePostgresSession(reference.opened)
        assert await there.get_history() == await elsewhere.get_history()
        assert await there.get_compactions() == await elsewhere.get_compactions()

        await import_reference_postgres(PostgresSessionStore(connection), connection)

    here = PostgresSessionProvider(reference.opened)
    assert await elsewhere.get_history() == await here.get_history()


@pytest.mark.parametrize("kind", KINDS)
async def test_reads_are_those_of_what_was_brought_over(reference: Reference, kind: str) -> None:
    """Every read of every leaf, in place and after an import over the same connection."""
    await filled(reference)
    connection = KINDS[kind](reference.opened)
    there = ReferencePostgresSession(connection)

    done = await import_reference_postgres(PostgresSessionStore(connection), connection)

    here = PostgresSessionProvider(connection)
    assert (done.messages, done.compactions) == (11, 2)
    for leaf in (None, "", "m7", "m5", "m3", "b5", "b4", "m0", "nobody", "compaction_c1"):
        assert await there.get_history(leaf) == await here.get_history(leaf)
        assert await there.get_path_length(leaf) == await here.get_path_length(leaf)
        assert await there.get_history_row_stats(leaf) == await here.get_history_row_stats(leaf)
        for budget, floor in (
            (0, 1),
            (0, 2.9),
            (200, -1),
            (350, 2),
            (10_000, math.nan),
            (0, math.inf),
        ):
            assert await there.get_recent_history(
                leaf, budget, floor
            ) == await here.get_recent_history(leaf, budget, floor)
    for message_id in ("m3", "m7", "b4", "nobody"):
        assert await there.get_message(message_id) == await here.get_message(message_id)
        assert await there.get_branches(message_id) == await here.get_branches(message_id)
    assert await there.get_latest_leaf() == await here.get_latest_leaf()
    assert await there.search_messages("message b5") == await here.search_messages("message b5")


async def test_summaries_stand_for_their_ranges(reference: Reference) -> None:
    """On each path the last one that fits it."""
    await filled(reference)
    session = ReferencePostgresSession(reference.opened)

    assert shown(await session.get_history("m7")) == ["m0", "Summary c2", "m6", "m7"]
    assert shown(await session.get_history()) == ["m0", "Summary c1", "m3", "b4", "b5"]


async def test_s193_a_native_time_is_told_as_text(reference: Reference) -> None:
    """In UTC with milliseconds, whatever zone the connection has."""
    await reference.opened.execute("SET timezone = 'Asia/Tokyo'")
    await reference.compaction("c1", "m1", "m5")

    [stored] = await ReferencePostgresSession(reference.opened).get_compactions()

    assert stored.created_at == "2026-05-18T15:42:29.000Z"
    assert (stored.id, stored.from_message_id, stored.to_message_id) == ("c1", "m1", "m5")


async def test_rows_of_one_time_are_in_order(reference: Reference) -> None:
    """The tip of several appends of one transaction is the last one (F06b)."""
    await reference.message("m0", None)
    for number in range(1, 5):
        await reference.message(f"m{number}", f"m{number - 1}", is_later=False)

    session = ReferencePostgresSession(reference.opened)

    assert ids(await session.get_history()) == ["m0", "m1", "m2", "m3", "m4"]


async def test_damaged_trees_are_read_as_far_as_they_go(reference: Reference) -> None:
    """A parent that is gone, a circle, rows that are no message."""
    await reference.message("orphan", "gone")
    await reference.message("broken", "orphan", content="{")
    await reference.message("child", "broken")
    await reference.message("x", "y")
    await reference.message("y", "x")
    session = ReferencePostgresSession(reference.opened)

    assert ids(await session.get_history()) == ["orphan", "child"]
    assert await session.get_path_length() == 3
    assert await session.get_message("broken") is None
    assert ids(await session.get_history("y")) == ["x", "y"]


async def test_an_empty_session_reads_as_such(reference: Reference) -> None:
    """Nothing is an error."""
    session = ReferencePostgresSession(reference.opened, "nobody")

    assert await session.get_history() == []
    assert (await session.get_latest_leaf(), await session.get_path_length()) == (None, 0)
    recent = await session.get_recent_history(None, 100)
    assert (recent.messages, recent.is_truncated, recent.total_content_bytes) == ([], False, 0)


async def test_words_are_found_as_the_reference_indexed_them(reference: Reference) -> None:
    """All of them in any order; operators and odd characters are no syntax."""
    await reference.message("deployment", None)
    await reference.message("other", None, session_id="elsewhere")
    session = ReferencePostgresSession(reference.opened)

    [hit] = await session.search_messages("messages deploying")
    assert (hit.id, hit.content, hit.created_at, hit.session_id) == (
        "deployment",
        "deployment message",
        "2026-05-18T15:42:30.000Z",
        "",
    )
    for query in ("other", "", "   ", "the", "& | ! (", "a\0b", "\ud800"):
        assert await session.search_messages(query) == []
    with pytest.raises(InvalidSearchError):
        await session.search_messages("x", 0)


async def test_nothing_is_ever_written_there(reference: Reference) -> None:
    """A session over it reads; what would write is refused with what to do."""
    await reference.chain(2)
    provider = ReferencePostgresSession(reference.opened)
    session = Session.create(provider)

    assert ids(await session.get_history()) == ["m0", "m1"]
    for refused in (
        session.append_message(user("m2")),
        session.update_message(user("m1")),
        session.delete_messages(["m1"]),
        session.clear_messages(),
        provider.add_compaction("S", "m0", "m1"),
    ):
        with pytest.raises(SessionError, match="import_reference_postgres"):
            await refused
    assert await provider.get_path_length() == 2


async def test_all_tables_are_brought_over(reference: Reference) -> None:
    """Blocks and prompts to the sessions of their keys, entries by label; registered ones too."""
    await reference.message("a0", None, session_id="chat-a")
    await reference.run(
        """CREATE TABLE assistant_sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL,
            parent_session_id TEXT, model TEXT, source TEXT, input_tokens INTEGER DEFAULT 0,
            output_tokens INTEGER DEFAULT 0, estimated_cost REAL DEFAULT 0, end_reason TEXT,
            created_at TIMESTAMPTZ DEFAULT NOW(), updated_at TIMESTAMPTZ DEFAULT NOW());
        GRANT SELECT ON assistant_sessions TO PUBLIC;
        INSERT INTO assistant_sessions (id, name) VALUES ('chat-a', 'First')"""
    )
    for label, content in (("memory_chat-a", "tea"), ("_system_prompt_chat-a", "The prompt")):
        await reference.run(
            "INSERT INTO cf_agents_context_blocks (label, content) VALUES ($1, $2)", label, content
        )
    await reference.run(
        "INSERT INTO cf_agents_search_entries (label, key, content) VALUES ('facts', 'k', 'alpha')"
    )
    opened = reference.opened

    done = await import_reference_postgres(PostgresSessionStore(opened), opened)

    assert done == ReferenceImport(1, 0, 1, 1, 1, 1, [])
    memory = PostgresContextProvider(opened, "memory", session_id="chat-a")
    assert await memory.get() == "tea"
    entries = PostgresSearchProvider(opened, shared_as="facts")
    entries.init("facts")
    assert await entries.search("alpha") == "[k]\nalpha"
    store = PostgresSessionStore(opened)
    assert await store.reads.registered_ids(store.agent) == ["chat-a"]
    prompt = await store.reads.prompt(session_ref(store, "chat-a"))
    assert prompt is not None and prompt.prompt == "The prompt"


async def test_an_import_is_all_or_nothing(reference: Reference) -> None:
    """A session that holds something here already stops it, and is told."""
    await reference.chain(2)
    await reference.message("b0", None, session_id="b")
    await PostgresSessionProvider(reference.opened, "b").append_message(user("mine"))
    store = PostgresSessionStore(reference.opened)

    with pytest.raises(InvalidImportError, match="'b' holds something already"):
        await import_reference_postgres(store, reference.opened)

    assert await PostgresSessionProvider(reference.opened).get_history() == []


async def test_a_database_without_the_tables_is_told(postgres: PostgresDatabases) -> None:
    """With where they are looked for."""
    opened = await asyncpg.connect(await postgres.migrated())
    try:
        with pytest.raises(InvalidImportError, match="set its search_path"):
            await import_reference_postgres(PostgresSessionStore(opened), opened)
    finally:
        await opened.close()
