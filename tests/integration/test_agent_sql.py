"""`self.sql`: the agent's own database from its handlers (state-and-sync 15)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any, ClassVar

import pytest

from agent_runtime import Agent, callable
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import SqlError
from tests.conftest import Serve
from tests.support.eventually import assert_eventually


class Librarian(Agent):
    """Runs what it is told on its own database."""

    async def on_start(self) -> None:
        """Make the tables, as authors do."""
        await self.sql("CREATE TABLE IF NOT EXISTS books (id INTEGER PRIMARY KEY, title TEXT)")

    @callable()
    async def run(self, query: str, params: list[Any]) -> Any:
        """One statement."""
        return await self.sql(query, *params)

    @callable()
    async def bind(self, kind: str) -> Any:
        """Bind a value that JSON has no form for."""
        values: dict[str, Any] = {
            "bytes": b"\x00\xff",
            "nan": float("nan"),
            "object": object(),
            "huge": 2**63,
        }
        [row] = await self.sql("SELECT typeof(?) AS type", values[kind])
        return row["type"]

    @callable()
    async def add_and_fail(self, title: str) -> None:
        """Write, then raise."""
        await self.sql("INSERT INTO books (title) VALUES (?)", title)
        raise ValueError("after the insert")


async def _run(agent: AgentHandle, query: str, *params: Any) -> Any:
    return await agent.call("run", query, list(params))


async def test_rows_come_as_objects(serve: Serve) -> None:
    """A select gives rows by column name, a write gives none unless it says RETURNING."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        assert await _run(agent, "INSERT INTO books (title) VALUES (?)", "Dune") == []
        returning = "INSERT INTO books (title) VALUES (?), (?) RETURNING id"
        assert await _run(agent, returning, "Emma", "Ulysses") == [{"id": 2}, {"id": 3}]
        rows = await _run(agent, "SELECT title FROM books WHERE id < ? ORDER BY id", 3)
        assert rows == [{"title": "Dune"}, {"title": "Emma"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ["null", None]),
        (True, ["integer", 1]),
        (False, ["integer", 0]),
        (2**63 - 1, ["integer", 2**63 - 1]),
        (-(2**63), ["integer", -(2**63)]),
        (0.5, ["real", 0.5]),
        ("true", ["text", "true"]),
        ("'); DROP TABLE books; --", ["text", "'); DROP TABLE books; --"]),
    ],
)
async def test_values_are_bound_as_what_they_are(
    serve: Serve, value: Any, expected: list[Any]
) -> None:
    """Booleans are 0 and 1, integers exact to 64 bits, and nothing in a text is SQL."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        [row] = await _run(agent, "SELECT typeof(?1) AS type, ?1 AS value", value)
        assert list(row.values()) == expected
        assert await _run(agent, "SELECT COUNT(*) AS n FROM books") == [{"n": 0}]


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2]])
async def test_objects_are_refused(serve: Serve, value: Any) -> None:
    """Objects and lists are not bound as some text by themselves."""
    async with serve(Librarian) as served:
        with pytest.raises(SqlError, match="write objects as JSON text"):
            await _run(served.client.agent("Librarian", "a"), "SELECT ?", value)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("nan", "value 1 is nan"), ("object", "value 1 is"), ("huge", "SQL query failed")],
)
async def test_what_sqlite_has_no_form_for_is_refused(serve: Serve, kind: str, reason: str) -> None:
    """NaN, objects and integers beyond 64 bits are typed errors."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        with pytest.raises(SqlError, match=reason):
            await agent.call("bind", kind)
        assert await agent.call("bind", "bytes") == "blob"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELEKT 1", "syntax error"),
        ("SELECT * FROM nowhere", "no such table: nowhere"),
        ("INSERT INTO books (id, title) VALUES (1, 'a'), (1, 'b')", "UNIQUE"),
        ("SELECT 1; DELETE FROM books", "one statement"),
        ("SELECT ?", "binding"),
        ("ATTACH DATABASE 'other.db' AS other", "ATTACH are not available"),
        ("BEGIN", "transactions"),
        ("-- a comment\n COMMIT", "transactions"),
        ("/* x */ SAVEPOINT a", "transactions"),
        ("VACUUM INTO 'copy.db'", "SQL query failed"),
    ],
)
async def test_a_failing_statement_is_a_sql_error(serve: Serve, query: str, reason: str) -> None:
    """The database's reason and the statement reach the caller; nothing was changed."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        await _run(agent, "INSERT INTO books (title) VALUES ('kept')")
        with pytest.raises(SqlError, match=reason) as caught:
            await _run(agent, query)
        assert caught.value.message.startswith("SQL query failed: ")
        assert caught.value.details_map["query"] == query
        assert await _run(agent, "SELECT title FROM books") == [{"title": "kept"}]


async def test_statements_commit_by_themselves(serve: Serve) -> None:
    """What a handler wrote before it raised is written, and there after a restart."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        with pytest.raises(Exception, match="after the insert"):
            await agent.call("add_and_fail", "Emma")
    async with serve(Librarian, task_queue=served.task_queue) as served:
        agent = served.client.agent("Librarian", "a")
        assert await _run(agent, "SELECT title FROM books") == [{"title": "Emma"}]


async def test_agents_do_not_see_each_other_s_tables(serve: Serve) -> None:
    """Each agent has a database of its own."""
    async with serve(Librarian) as served:
        first, second = (served.client.agent("Librarian", name) for name in ("room-1", "Room-1"))
        await _run(first, "INSERT INTO books (title) VALUES ('mine')")
        assert await _run(second, "SELECT * FROM books") == []


async def test_what_handlers_have_noted_does_not_pile_up(serve: Serve) -> None:
    """However many calls an agent has answered, at most the last one's notes are kept."""
    async with serve(Librarian) as served:
        agent = served.client.agent("Librarian", "a")
        for _ in range(5):
            await _run(agent, "INSERT INTO books (title) VALUES (?)", "Dune")
        [row] = await _run(agent, "SELECT count(*) AS notes FROM _agent_runtime_effects")
        assert row["notes"] <= 1


async def _one() -> int:
    return 1


class Starter(Agent):
    """Does something lasting at its start, and when something fails."""

    errors: ClassVar[list[str]] = []

    async def on_start(self) -> None:
        """Take a step and write to an own table."""
        await self.step("look", _one)
        await self.sql("CREATE TABLE IF NOT EXISTS failures (text TEXT)")

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Fail."""
        raise ValueError("no")

    async def on_error(self, error: BaseException) -> None:
        """Take a step."""
        await self.step("note", _one)
        self.errors.append(str(error))


async def test_what_no_repeat_will_look_for_is_not_kept(serve: Serve) -> None:
    """Starts and error hooks are done anew each time: their effects go when they have ended."""
    async with serve(Starter) as served:
        await served.client.agent("Starter", "a").set_state({"n": 1})

        async def all_is_gone() -> None:
            assert Starter.errors
            with closing(sqlite3.connect(served.data_dir / "agents.db")) as file:
                assert file.execute("SELECT count(*) FROM invocation_effects").fetchone() == (0,)

        await assert_eventually(all_is_gone)
