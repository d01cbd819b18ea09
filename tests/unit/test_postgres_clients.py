"""What connections of users are given and how their answers are read, without a server."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import sql_connection
from agent_runtime.storage.marked_statement import mark_placeholders
from agent_runtime.storage.postgres_schema import qualified

WITHOUT_ASYNCPG = """
import sys
sys.modules["asyncpg"] = None
import agent_runtime.session as session
for name in session.__all__:
    getattr(session, name)
class Client:
    def query(self, text, values): return []
session.PostgresSessionProvider(Client())
print("done")
"""


class Answering:
    """`query` that answers what it was given."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def query(self, text: str, values: Sequence[Json]) -> Any:
        """Answer."""
        return self.answer


class Rows:
    """A result with rows."""

    rows = ({"a": 1, "b": "x"}, {"a": 2, "b": None})


def test_marks_stand_for_numbers() -> None:
    """A value that is needed twice is given twice."""
    assert mark_placeholders("a = $2 AND b = $1 OR c = $2", ["x", "y"]) == (
        "a = ? AND b = ? OR c = ?",
        ["y", "x", "y"],
    )
    assert mark_placeholders("COMMIT", ()) == ("COMMIT", [])


@pytest.mark.parametrize(
    ("answer", "rows"),
    [
        (Rows(), [(1, "x"), (2, None)]),
        ([{"a": 1}], [(1,)]),
        ([(1, 2), [3, 4]], [(1, 2), (3, 4)]),
        ([], []),
        (None, []),
        (3, []),
        ("INSERT 0 1", []),
    ],
)
async def test_answers_of_every_form_are_rows(answer: Any, rows: list[tuple[Json, ...]]) -> None:
    """Mappings or sequences, in an object or by themselves; a count or a word has none."""
    assert await sql_connection(Answering(answer)).fetch("SELECT 1") == rows


def test_providers_of_a_connection_share_how_it_is_used() -> None:
    """As long as one is there; then it is forgotten."""
    client = Answering([])
    shared = sql_connection(client)

    assert sql_connection(client) is shared
    assert sql_connection(Answering([])) is not shared


def test_tables_alone_are_qualified() -> None:
    """Not columns of their names, nor what else follows such a word."""
    assert qualified(
        "UPDATE messages SET role = messages.role FROM below WHERE x IN (SELECT 1 FROM sessions s) "
        "ON CONFLICT (a) DO UPDATE SET a = 1"
    ) == (
        "UPDATE agent_runtime.messages SET role = messages.role FROM below WHERE x IN "
        "(SELECT 1 FROM agent_runtime.sessions s) ON CONFLICT (a) DO UPDATE SET a = 1"
    )


def test_a_driver_of_one_s_own_needs_no_asyncpg() -> None:
    """Every name of the package is there without the extra."""
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_ASYNCPG], capture_output=True, text=True, check=False
    )

    assert (ran.stdout, ran.stderr) == ("done\n", "")
