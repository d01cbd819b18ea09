"""Portable statements become PostgreSQL's; marks that are no placeholders stay as they are."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.storage import statements
from agent_runtime.storage.postgres_spelling import number_marks, spell
from agent_runtime.storage.postgres_text import plain_row, stored_values


def test_marks_become_numbers() -> None:
    """In order, each its own."""
    assert spell("SELECT * FROM a WHERE b = ? AND c = ?") == (
        "SELECT * FROM a WHERE b = $1 AND c = $2",
        (),
        (),
    )


def test_names_become_numbers_and_values_follow() -> None:
    """A name that comes twice is one placeholder; casts are no names; others are left out."""
    spelled = spell("SELECT :b::text WHERE x > :a AND y < :b")

    assert spelled.text == "SELECT $1::text WHERE x > $2 AND y < $1"
    assert list(spelled.bind({"a": 1, "b": 2, "c": 3})) == [2, 1]


def test_lists_and_bytes_are_spelled_anew() -> None:
    """Each engine has other functions for them; which placeholder is a list is remembered."""
    text = "SELECT LENGTH(CAST(m.value AS BLOB)), ? FROM json_each(?) AS wanted"

    assert spell(text) == (
        "SELECT OCTET_LENGTH(m.value), $1 "
        "FROM jsonb_array_elements(CAST($2 AS TEXT)::jsonb) AS wanted (value)",
        (),
        (1,),
    )


@given(st.lists(st.text(alphabet="ab\0\x1a01\\u")))
def test_texts_with_nul_are_held_and_come_back(texts: list[str]) -> None:
    """Alone and in lists they are the same text, and come back as they were given."""
    lists = orjson.dumps(texts).decode()
    *alone, listed = stored_values([*texts, lists], [len(texts)])

    assert orjson.loads(listed) == alone
    assert not any("\0" in text for text in alone)
    assert plain_row(alone) == tuple(texts)


def test_some_statements_are_postgres_own() -> None:
    """Where one spelling cannot serve both, the one of the same name is taken."""
    assert "FOR NO KEY UPDATE" in spell(statements.LOAD_STATES).text


@pytest.mark.parametrize(
    "text",
    [
        "'?'",
        "'it''s ?'",
        "E'\\'?'",
        '"?"',
        "$$?$$",
        "$a$ ? $$ ? $a$",
        "-- ?\n",
        "/* ?\n? */",
    ],
)
def test_marks_in_texts_stay(text: str) -> None:
    """Texts, quoted names and comments are not read; the placeholder after them is found."""
    assert number_marks(f"SELECT {text}, ?") == (f"SELECT {text}, $1", 1)


def test_a_doubled_mark_is_the_operator() -> None:
    """The operators with a question mark can be written."""
    assert number_marks("SELECT a ?? 'k', b ??| ?") == ("SELECT a ? 'k', b ?| $1", 1)


def test_placeholders_can_be_cast() -> None:
    """Whoever numbers them may write more than the number."""
    assert number_marks("SELECT ?, ?", lambda n: f"${n}::int{n}")[0] == "SELECT $1::int1, $2::int2"
