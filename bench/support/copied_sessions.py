"""Many long sessions in minutes: one is filled by the product, the others are copies of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from agent_runtime.session.session import Session
from agent_runtime.storage.search_terms import scope_prefix

_FIND_SESSION = "SELECT id FROM sessions WHERE session_id = ?"

_FIND_ROWS = """
SELECT (SELECT MAX(number) FROM messages) + 1 - MIN(number), MIN(number), MAX(number)
FROM messages WHERE session = ?"""

_COPY_SESSION = """
INSERT INTO sessions (agent_id, session_id, head_seq, next_seq, next_branch, tree_version)
SELECT agent_id, ?, head_seq, next_seq, next_branch, tree_version FROM sessions WHERE id = ?"""

_COPY_MESSAGES = """
INSERT INTO messages (number, session, seq, message_id, parent_seq, branch, depth, content_bytes,
    tokens, path_bytes, path_tokens, created_at, role, content)
SELECT number + ?, ?, seq, message_id, parent_seq, branch, depth, content_bytes,
    tokens, path_bytes, path_tokens, created_at, role, content
FROM messages WHERE session = ? ORDER BY number"""

# Each term begins with the scope of its session.
_COPY_TERMS = """
INSERT INTO message_search (rowid, terms)
SELECT rowid + ?, TRIM(REPLACE(' ' || terms, ' ' || ?, ' ' || ?))
FROM message_search WHERE rowid BETWEEN ? AND ?"""


def copy_session(path: Path, original: str, copies: Sequence[str]) -> None:
    """Copy a session without branches or summaries, alone in its file, under other ids."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        [(source,)] = connection.execute(_FIND_SESSION, (original,)).fetchall()
        for name in copies:
            connection.execute("BEGIN IMMEDIATE")
            shift, first, last = connection.execute(_FIND_ROWS, (source,)).fetchone()
            number = connection.execute(_COPY_SESSION, (name, source)).lastrowid
            connection.execute(_COPY_MESSAGES, (shift, number, source))
            prefixes = (scope_prefix(source), scope_prefix(number or 0))
            connection.execute(_COPY_TERMS, (shift, *prefixes, first, last))
            connection.execute("COMMIT")


async def check_copy(original: Session, copy: Session) -> None:
    """Compare by the product's own reads; a message is appended to both.

    Raises:
        AssertionError: The copy is not what filling it would have made of it.
    """
    for session in (original, copy):
        await session.append_message(
            {"id": "checked", "role": "user", "parts": [{"type": "text", "text": "a last word"}]}
        )
    history = await original.get_history()
    assert await copy.get_history() == history
    assert await copy.get_latest_leaf() == history[-1]
    assert await copy.get_path_length() == len(history)
    assert await copy.estimate_tokens() == await original.estimate_tokens()
    for query, found in (("m7", "m7"), ("last word", "checked")):
        assert [hit.id for hit in await copy.search(query)] == [found]
        assert [hit.id for hit in await original.search(query)] == [found]
