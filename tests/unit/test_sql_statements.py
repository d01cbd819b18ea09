"""Which of an agent's own SQL statements are noted: those that write, in either dialect."""

from __future__ import annotations

import pytest

from agent_runtime.errors import SqlError
from agent_runtime.handlers.sql_statement import is_writing


@pytest.mark.parametrize(
    ("query", "writes"),
    [
        ("SELECT 1", False),
        ("  values (1)", False),
        ("WITH old AS (SELECT 1) SELECT * FROM old", False),
        ("-- why\n/* and how */ SELECT 1", False),
        ("INSERT INTO notes VALUES (1)", True),
        ("WITH old AS (DELETE FROM notes RETURNING id) SELECT * FROM old", True),
        ("WITH new AS (SELECT 1 AS id) MERGE INTO notes USING new ON true", True),
        ("CREATE TABLE notes (id INTEGER)", True),
        ("TABLE notes", False),
        ("SELECT replace(text, 'a', 'b') FROM notes", False),
        ("WITH new AS (SELECT 1) REPLACE INTO notes SELECT * FROM new", True),
        ("SELECT * INTO TEMP copy FROM notes", True),
        ("SELECT nextval('ids')", True),
        ("EXPLAIN SELECT 1", False),
        ("EXPLAIN (ANALYZE) INSERT INTO notes VALUES (1)", True),
        ("COPY notes TO STDOUT", True),
        ("CALL tidy()", True),
        ("DO $$ BEGIN DELETE FROM notes; END $$", True),
        ("; SELECT 1", False),
        ("PRAGMA table_info(notes)", False),
        ("PRAGMA main.user_version;", False),
        ("PRAGMA user_version = 5", True),
        ("PRAGMA user_version(5)", True),
        ("PRAGMA optimize", True),
        ("VACUUM", True),
    ],
)
def test_statements_that_write_are_noted(query: str, writes: bool) -> None:
    """Comments and common tables before it do not hide what a statement does."""
    assert is_writing(query) == writes


@pytest.mark.parametrize(
    "query",
    [
        "COMMIT",
        "; /* now */ commit",
        "START TRANSACTION",
        "ABORT",
        "PREPARE TRANSACTION 'x'",
        "ATTACH 'other.db' AS other",
    ],
)
def test_transactions_are_refused(query: str) -> None:
    """A statement that ended its transaction would part itself from its note."""
    with pytest.raises(SqlError, match="transactions and ATTACH"):
        is_writing(query)
