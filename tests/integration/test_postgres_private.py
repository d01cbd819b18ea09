"""The agents' own SQL on PostgreSQL: values, and what keeps statements in their place."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from agent_runtime.errors import SqlError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.own_database import OwnDatabase
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.postgres_private import schema_name
from agent_runtime.testing.storage_bench import put_one
from tests.support.own_sql import own_database_place, own_sql
from tests.support.postgres_databases import SQL_ROLE, PostgresDatabases


@pytest.fixture(scope="module")
async def url(postgres: PostgresDatabases) -> str:
    """A database for all tests of this file, each with an agent of its own."""
    return await postgres.migrated()


@pytest.fixture
def room() -> AgentRef:
    """An agent that nobody else uses."""
    return AgentRef("Room", uuid4().hex)


@pytest.fixture(scope="module")
async def opened(url: str) -> AsyncIterator[PostgresStorage]:
    """A storage whose agents' SQL has a role of its own."""
    storage = await PostgresStorage.open(url, sql_role=SQL_ROLE)
    yield storage
    await storage.close()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(7 AS numeric)", 7),
        ("SUM(CAST(4611686018427387904 AS bigint))", 4611686018427387904),
        ("CAST(2.5 AS numeric)", 2.5),
        ("TRUE", True),
        ("TIMESTAMPTZ '2026-01-02 03:04:05+00'", "2026-01-02T03:04:05+00:00"),
        ("DATE '2026-01-02'", "2026-01-02"),
        ("UUID '00000000-0000-0000-0000-00000000000a'", "00000000-0000-0000-0000-00000000000a"),
        ("ARRAY[1, 2]", [1, 2]),
        ("'{\"a\": 1}'::jsonb", '{"a": 1}'),
        ("'\\x00ff'::bytea", b"\x00\xff"),
        ("NULL", None),
    ],
)
async def test_results_are_json(
    opened: PostgresStorage, room: AgentRef, expression: str, value: Json
) -> None:
    """Whatever type a column has, its value is one of JSON's, or bytes."""
    [row] = await own_sql(opened, room, f"SELECT {expression} AS value", ())

    assert row == {"value": value}
    assert type(row["value"]) is type(value)


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("timestamptz", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00"),
        ("date", "2026-01-02", "2026-01-02"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a"),
        ("numeric", "1.25", 1.25),
        ("numeric", 3, 3),
        ("integer", "5", 5),
        ("integer", True, 1),
        ("boolean", 1, True),
        ("double precision", 2, 2.0),
        ("text", 12, "12"),
        ("jsonb", '{"a":[1]}', '{"a": [1]}'),
        ("integer[]", "{1,2}", [1, 2]),
        ("bytea", b"\x00\xff", b"\x00\xff"),
        ("text", None, None),
    ],
)
async def test_values_become_what_the_place_takes(
    opened: PostgresStorage, room: AgentRef, kind: str, given: Json, stored: Json
) -> None:
    """A value is read as the type of its column, as a literal in its place would be."""
    await own_sql(opened, room, f"CREATE TABLE things (value {kind})", ())

    rows = await own_sql(opened, room, "INSERT INTO things VALUES (?) RETURNING value", [given])

    assert rows == [{"value": stored}]


async def test_open_places_take_the_values_type(opened: PostgresStorage, room: AgentRef) -> None:
    """Where the statement says nothing of a type, the value does."""
    rows = await own_sql(
        opened, room, "SELECT ? + ? AS sum, pg_typeof(?)::text AS kind", [1, 2, 0.5]
    )

    assert rows == [{"sum": 3, "kind": "double precision"}]


async def test_marks_in_texts_are_no_placeholders(opened: PostgresStorage, room: AgentRef) -> None:
    """In every kind of text and comment of the dialect; a doubled one is the operator."""
    query = """SELECT $$?$$ AS a, $x$ ? $$ $x$ AS b, E'\\'?' AS c, "?" AS d, -- ?
        '{"k": 1}'::jsonb ?? 'k' AS e /* ? */, ? AS f FROM (SELECT 1 AS "?") AS one"""

    assert await own_sql(opened, room, query, ["v"]) == [
        {"a": "?", "b": " ? $$ ", "c": "'?", "d": 1, "e": True, "f": "v"}
    ]


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ("SELECT ?", ()),
        ("SELECT 1", (1,)),
        ("SELECT ? AS n", (2**63,)),
        ("SELECT ? AS t", ("\0",)),
        ("SELECT 'a' + ?", (1,)),
        ("CREATE TABLE nowhere.things (id INTEGER)", ()),
        ("SELECT CAST(? AS integer)", ("five",)),
    ],
)
async def test_what_cannot_be_is_an_sql_error(
    opened: PostgresStorage, room: AgentRef, query: str, params: tuple[Json, ...]
) -> None:
    """The agent's mistake never looks like a server that is away."""
    with pytest.raises(SqlError, match="SQL query failed: "):
        await own_sql(opened, room, query, params)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM agents",
        "SELECT * FROM agent_runtime.agents",
        "DELETE FROM agent_runtime.agent_states",
        "DROP SCHEMA agent_runtime CASCADE",
        "CREATE TABLE agent_runtime.mine (id INTEGER)",
        "CREATE TABLE public.mine (id INTEGER)",
    ],
)
async def test_the_runtimes_tables_are_out_of_reach(
    opened: PostgresStorage, room: AgentRef, query: str
) -> None:
    """With a role of its own a statement has no rights on them, whatever it names."""
    await opened.write(lambda tx: put_one(tx, room, "1"))

    with pytest.raises(SqlError, match=r"permission denied|does not exist|must be owner"):
        await own_sql(opened, room, query, ())

    head = await opened.read_state(room)
    assert head is not None and head.state == "1"


async def test_without_a_role_names_still_stay_inside(url: str, room: AgentRef) -> None:
    """Unqualified names are never those of the runtime."""
    storage = await PostgresStorage.open(url)
    try:
        with pytest.raises(SqlError, match='relation "agents" does not exist'):
            await own_sql(storage, room, "SELECT * FROM agents", ())
        await own_sql(storage, room, "CREATE TABLE agents (id INTEGER)", ())
        assert await own_sql(storage, room, "SELECT * FROM agents", ()) == []
        assert await own_sql(storage, room, "SELECT count(*) AS n FROM agents", ()) == [{"n": 0}]
    finally:
        await storage.close()


async def test_nothing_is_left_on_the_connection(opened: PostgresStorage, room: AgentRef) -> None:
    """Settings and temporary tables of a statement are gone for the next, of whichever agent."""
    await own_sql(opened, room, "CREATE TEMPORARY TABLE secret AS SELECT 1 AS id", ())
    await own_sql(opened, room, "SET statement_timeout = '1234ms'", ())
    await own_sql(opened, room, "SET search_path = pg_catalog", ())

    other = AgentRef("Room", f"{room.name}-other")
    with pytest.raises(SqlError, match='relation "secret" does not exist'):
        await own_sql(opened, other, "SELECT * FROM secret")
    timeout = await own_sql(opened, other, "SHOW statement_timeout")
    assert timeout == [{"statement_timeout": "0"}]


async def test_a_dropped_schema_is_made_again(
    opened: PostgresStorage, room: AgentRef, url: str, postgres: PostgresDatabases
) -> None:
    """A schema that is not there any more is made by the next statement that needs it."""
    await own_sql(opened, room, "CREATE TABLE notes (id INTEGER)", ())
    name = await own_database_place(opened, room)
    connection = await asyncpg.connect(postgres.as_administrator(url))
    await connection.execute(f"DROP SCHEMA {name} CASCADE")
    await connection.close()

    assert await own_database_place(opened, room) is None
    await own_sql(opened, room, "CREATE TABLE notes (id INTEGER)", ())
    assert await own_database_place(opened, room) == name


async def test_a_schema_says_whose_it_is(opened: PostgresStorage, room: AgentRef, url: str) -> None:
    """The comment holds class and name, letter by letter."""
    ref = AgentRef("Room", 'it\'s; DROP "x" -- 🦊')
    await own_sql(opened, ref, "SELECT 1", ())
    connection = await asyncpg.connect(url)
    name = await own_database_place(opened, ref)
    comment = await connection.fetchval("SELECT obj_description($1::regnamespace)", name)
    await connection.close()

    assert comment == str(ref)


def test_no_two_agents_share_a_schema() -> None:
    """Names that look alike differ in the number; each is short enough for the server."""
    refs = [AgentRef("Room", name) for name in ("a", "A", "a ", "a-", "x" * 500, "🦊", "y" * 63)]
    names = [schema_name(OwnDatabase(ref, number)) for number, ref in enumerate(refs, 10**15)]

    assert len(set(names)) == len(refs)
    assert all(len(name) <= 63 and name.isascii() and name.islower() for name in names)
