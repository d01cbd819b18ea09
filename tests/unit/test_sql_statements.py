"""Which of an agent's own SQL statements are noted: those that write, in either dialect."""

from __future__ import annotations

import pytest

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
    ],
)
def test_statements_that_write_are_noted(query: str, writes: bool) -> None:
    """Comments and common tables before it do not hide what a statement does."""
    assert is_writing(query) == writes
