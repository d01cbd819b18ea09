"""No statement walks through a whole table or session: it costs the same among millions."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
import sqlite3
from pathlib import Path
from types import ModuleType

import pytest

import agent_runtime.storage
from agent_runtime.storage import statements
from agent_runtime.storage.session_dialect import SQLITE
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from tests.support.filled_database import fill_tables


def _modules() -> list[ModuleType]:
    """Return every module of statements that SQLite runs."""
    return [
        importlib.import_module(f"agent_runtime.storage.{found.name}")
        for found in pkgutil.iter_modules(agent_runtime.storage.__path__)
        if found.name.endswith("statements") and not found.name.startswith("postgres")
    ]


def _named(module: ModuleType) -> dict[str, str]:
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": text
        for name, text in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(text, str)
    }


STATEMENTS = {
    **{name: text for module in _modules() for name, text in _named(module).items()},
    **{
        f"sqlite.{name}": text
        for name, text in dataclasses.asdict(SQLITE).items()
        if isinstance(text, str)
    },
    **{
        f"destroy.{statement}": statement
        for statement in statements.DELETE_AGENT
        if statement not in (statements.DELETE_MESSAGE_TERMS, statements.DELETE_ENTRY_TERMS)
    },
}

SCANS_ALLOWED = {
    # Looks at the oldest 20,000 rows only, by rowid.
    "DELETE_OUTBOX": {"SCAN outbox"},
    # So a search by number is called in a virtual table.
    "DELETE_MESSAGE_TERMS": {"SCAN message_search VIRTUAL TABLE INDEX 0:="},
    "DELETE_ENTRY_TERMS": {"SCAN entry_search VIRTUAL TABLE INDEX 0:="},
}

WHOLE_ALLOWED = {
    # They want all that a session or a namespace has.
    "CLEAR_BRANCHES",
    "CLEAR_MESSAGES",
    "CLEAR_OVERLAYS",
    "COUNT_ENTRIES",
    "DELETE_CONTEXTS",
    "DELETE_ENTRIES",
    "LIST_ENTRIES",
    "LIST_OVERLAYS",
    "READ_ALL_OVERLAYS",
    "READ_CONTEXT_LABELS",
    "READ_CURRENT_OVERLAYS",
    "READ_ENTRY_NUMBERS",
    "clear_message_terms",
    # They remove an agent with all that it has.
    "DELETE_ENTRY_TERMS",
    "DELETE_MESSAGE_TERMS",
    *(each for each in statements.DELETE_AGENT if "_search" not in each.partition("WHERE")[0]),
    # They stop at the first row of an index.
    "READ_LATEST_PATH",
    "READ_PATH",
    "RELABEL_SESSION",
    # The rows that refer to it, to see that there are none.
    "DELETE_NAMESPACE",
    "DELETE_SESSION",
    # Tables of one row for each session.
    "DELETE_ATTEMPTS",
    "DELETE_PROMPT",
    "READ_ATTEMPTS",
    "READ_PROMPT",
}

SORTS_ALLOWED = {
    # They sort no more rows than they return.
    "LIST_OVERLAYS",
    "LIST_SESSION_IDS",
    "READ_CONNECTIONS",
    "READ_INBOX_MARKS",
    "READ_UNFINISHED_OF_AGENT",
    "READ_USAGE",
    "READ_WAITING_AGENTS",
    # Sorts the messages that it copies, no others.
    "COPY_MESSAGES",
    # Brings together what is found by the one end of an overlay and by the other.
    "OVERLAYS_AT",
    # A rank is in no index; numbers of hits are sorted, and of the rows those that are returned.
    "search_entries",
    "search_messages",
}

# Results of subqueries and of JSON arrays that the statement itself was given, and a full-text
# index that is asked for a row or by a query.
_SMALL = re.compile(
    r"^SCAN (wanted|given|kept|newest|bounds|below|found|leaf|f|l|\(subquery|json_each|CONSTANT)\b"
    r"|^SCAN (message|entry)_search VIRTUAL TABLE INDEX 0:(=|M0)$"
)
_BY_OWNER_ONLY = re.compile(r"^SEARCH .*\((session|namespace)=\?\)")


@pytest.fixture(scope="module", params=["empty", "filled", "analyzed"])
async def database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> sqlite3.Connection:
    """A database of ours without rows, with thousands, and with what ANALYZE finds about them."""
    folder: Path = tmp_path_factory.mktemp("plans")
    await (await SqliteStorage.open(folder)).close()
    connection = sqlite3.connect(folder / FILE_NAME)
    request.addfinalizer(connection.close)
    if request.param != "empty":
        fill_tables(connection)
    if request.param == "analyzed":
        connection.execute("ANALYZE")
    return connection


def _bare(name: str) -> str:
    return name.partition(".")[2]


def _plan(database: sqlite3.Connection, statement: str) -> list[str]:
    names = set(re.findall(r":(\w+)", statement))
    params = dict.fromkeys(names, 1) if names else [None] * statement.count("?")
    rows = database.execute(f"EXPLAIN QUERY PLAN {statement}", params).fetchall()
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_scans_a_table(database: sqlite3.Connection, name: str) -> None:
    """Every step of the plan is a search in an index or by number."""
    plan = _plan(database, STATEMENTS[name])

    scans = [step for step in plan if step.startswith("SCAN") and not _SMALL.match(step)]
    assert [step for step in scans if step not in SCANS_ALLOWED.get(_bare(name), set())] == []
    assert [step for step in plan if "AUTOMATIC" in step] == []


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_a_session(database: sqlite3.Connection, name: str) -> None:
    """What wants some rows of a session looks them up by more than the session."""
    walks = [step for step in _plan(database, STATEMENTS[name]) if _BY_OWNER_ONLY.match(step)]

    assert (walks == []) or _bare(name) in WHOLE_ALLOWED


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_sorts(database: sqlite3.Connection, name: str) -> None:
    """Rows come in the order of an index: the first costs the same however many follow."""
    sorts = [step for step in _plan(database, STATEMENTS[name]) if "TEMP B-TREE" in step]

    assert (sorts == []) or _bare(name) in SORTS_ALLOWED


def test_all_statements_are_found() -> None:
    """The modules known today are among those found; what is excepted exists."""
    modules = {name.partition(".")[0] for name in STATEMENTS}
    excepted = {*SCANS_ALLOWED, *WHOLE_ALLOWED, *SORTS_ALLOWED}

    assert modules >= {"statements", "message_statements", "context_statements", "sqlite"}
    assert excepted <= {_bare(name) for name in STATEMENTS}


@pytest.mark.parametrize(
    ("statement", "step"),
    [
        ("SELECT * FROM state_mutations WHERE source = ?", "SCAN state_mutations"),
        ("SELECT content FROM message_search JOIN messages", "SCAN message_search VIRTUAL"),
    ],
)
def test_the_guard_notices_a_scan(database: sqlite3.Connection, statement: str, step: str) -> None:
    """The check above can fail: a scan shows in a plan as it expects."""
    plan = _plan(database, statement)

    assert any(one.startswith(step) and not _SMALL.match(one) for one in plan)


def test_the_guard_notices_a_walk(database: sqlite3.Connection) -> None:
    """A search by the session alone shows in a plan as it expects."""
    plan = _plan(database, "SELECT * FROM messages WHERE session = ? AND role = ?")

    assert any(_BY_OWNER_ONLY.match(step) for step in plan)


def test_the_guard_notices_a_sort(database: sqlite3.Connection) -> None:
    """A sort shows in a plan as it expects."""
    plan = _plan(database, "SELECT * FROM messages WHERE session = ? ORDER BY role")

    assert any("TEMP B-TREE" in step for step in plan)
