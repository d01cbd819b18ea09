"""No statement walks through a whole table: what an agent does costs the same among millions."""

from __future__ import annotations

import re

import pytest

from agent_runtime.storage import sqlite_statements
from agent_runtime.storage.sqlite import SqliteStorage

STATEMENTS = {
    name: text
    for name, text in vars(sqlite_statements).items()
    if name.isupper() and not name.startswith("_")
}

SCANS_ALLOWED = {
    # Looks at the oldest 20,000 rows only, by rowid.
    "DELETE_OUTBOX": {"SCAN outbox"},
}

# Results of subqueries and of JSON arrays that the statement itself was given.
_SMALL = re.compile(r"^SCAN (wanted|kept|newest|\(subquery|json_each|CONSTANT)")


async def _plan(storage: SqliteStorage, statement: str) -> list[str]:
    names = set(re.findall(r":(\w+)", statement))
    params = dict.fromkeys(names, 1) if names else [None] * statement.count("?")
    rows = await storage._connection.execute_fetchall(
        f"EXPLAIN QUERY PLAN {statement}",
        params,
    )
    return [str(row[3]) for row in rows]


@pytest.mark.parametrize("name", STATEMENTS)
async def test_no_statement_scans_a_table(storage: SqliteStorage, name: str) -> None:
    """Every step of the plan is a search in an index or by number."""
    plan = await _plan(storage, STATEMENTS[name])

    scans = [step for step in plan if step.startswith("SCAN") and not _SMALL.match(step)]
    assert [step for step in scans if step not in SCANS_ALLOWED.get(name, set())] == []


@pytest.mark.parametrize(
    "name",
    ["READ_HISTORY", "READ_VERSION", "READ_INBOX", "READ_OUTBOX",
     "LIST_AGENTS", "LIST_AGENTS_OF_CLASS"],
)  # fmt: skip
async def test_no_page_is_sorted(storage: SqliteStorage, name: str) -> None:
    """Pages come in the order of an index: the first costs the same however many follow."""
    plan = await _plan(storage, STATEMENTS[name])

    assert [step for step in plan if "TEMP B-TREE" in step] == []


async def test_the_guard_notices_a_scan(storage: SqliteStorage) -> None:
    """The check above can fail: a scan shows in a plan as it expects."""
    [step] = await _plan(storage, "SELECT * FROM state_mutations WHERE source = ?")

    assert step == "SCAN state_mutations"
