"""Whether all that is stored of a session agrees with its parent links, recomputed from them."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agent_runtime.session.message import searchable_text
from agent_runtime.storage.search_terms import index_terms
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.sqlite import SqliteStorage

_MESSAGES = """
SELECT number, seq, message_id, parent_seq, branch, depth, content_bytes, tokens, path_bytes,
    path_tokens, content
FROM messages WHERE session = ? ORDER BY seq"""

_ORPHANS = {
    "message_search": "SELECT rowid FROM message_search WHERE rowid NOT IN "
    "(SELECT number FROM messages)",
    "entry_search": "SELECT rowid FROM entry_search WHERE rowid NOT IN "
    "(SELECT number FROM search_entries)",
}


@dataclass(frozen=True)
class _Row:
    number: int
    seq: int
    id: str
    parent_seq: int | None
    branch: int
    depth: int
    bytes: int
    tokens: int
    path_bytes: int
    path_tokens: int
    content: str


async def check_session_tree(storage: SqliteStorage, ref: SessionRef) -> None:
    """Recompute labels, sums, head and search entries of a session and compare.

    Raises:
        AssertionError: Something stored does not agree with the parent links.
    """
    found = await storage._read(
        """SELECT s.id, s.head_seq, s.next_seq, s.next_branch
        FROM sessions s JOIN agents a ON a.id = s.agent_id
        WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?""",
        (*ref.agent, ref.session_id),
    )
    await check_no_orphans(storage)
    if not found:
        return
    [(session, head_seq, next_seq, next_branch)] = found
    rows = [_Row(*row) for row in await storage._read(_MESSAGES, (session,))]
    hangs = {
        branch: (parent, depth)
        for branch, parent, depth in await storage._read(
            "SELECT branch, parent_branch, parent_depth FROM session_branches WHERE session = ?",
            (session,),
        )
    }
    assert head_seq == (rows[-1].seq if rows else None), "the head is the newest message"
    assert next_seq > (rows[-1].seq if rows else 0)
    assert all(row.branch < next_branch for row in rows)
    _check_sums(rows)
    _check_branches(rows, hangs)
    await _check_terms(storage, session, rows)
    await _check_overlays(storage, session)


async def check_no_orphans(storage: SqliteStorage) -> None:
    """Compare the full-text indexes and all references with the rows they are for."""
    for table, statement in _ORPHANS.items():
        assert await storage._read(statement, ()) == [], f"{table} has entries of nothing"
    assert await storage._read("PRAGMA foreign_key_check", ()) == []


def _check_sums(rows: list[_Row]) -> None:
    by_seq: dict[int, _Row] = {}
    for row in rows:
        parent = None
        if row.parent_seq is not None:
            assert row.parent_seq in by_seq, f"{row.id}: its parent is there and older"
            parent = by_seq[row.parent_seq]
        above = (parent.depth + 1, parent.path_bytes, parent.path_tokens) if parent else (0, 0, 0)
        assert row.bytes == len(row.content.encode()), row.id
        assert row.depth == above[0], f"{row.id}: depth"
        assert row.path_bytes == above[1] + row.bytes, f"{row.id}: bytes of its path"
        assert row.path_tokens == above[2] + row.tokens, f"{row.id}: tokens of its path"
        by_seq[row.seq] = row


def _check_branches(rows: list[_Row], hangs: dict[int, tuple[int, int]]) -> None:
    labels = {(row.branch, row.depth): row.seq for row in rows}
    assert len(labels) == len(rows), "no two messages have the same labels"
    by_branch: dict[int, list[_Row]] = defaultdict(list)
    for row in rows:
        by_branch[row.branch].append(row)
    for branch, some in by_branch.items():
        some.sort(key=lambda row: row.depth)
        first = some[0]
        depths = list(range(first.depth, first.depth + len(some)))
        assert depths == [row.depth for row in some], f"branch {branch} has no gaps"
        for above, row in pairwise(some):
            assert row.parent_seq == above.seq, f"{row.id} continues its branch"
        if first.parent_seq is None:
            assert branch not in hangs, f"branch {branch} begins with a root"
        else:
            assert hangs[branch][1] == first.depth - 1, f"branch {branch} hangs right above"
            assert labels[hangs[branch]] == first.parent_seq, f"branch {branch} hangs there"


async def _check_terms(storage: SqliteStorage, session: int, rows: list[_Row]) -> None:
    stored = await storage._read(
        """SELECT f.rowid, f.terms FROM messages m JOIN message_search f ON f.rowid = m.number
        WHERE m.session = ?""",
        (session,),
    )
    expected = {row.number: index_terms(_text(row.content), session) for row in rows}
    assert dict(stored) == {number: terms for number, terms in expected.items() if terms}


async def _check_overlays(storage: SqliteStorage, session: int) -> None:
    rows = await storage._read(
        "SELECT ordinal, from_id, superseded_by FROM overlays WHERE session = ?", (session,)
    )
    for ordinal, _, superseded_by in rows:
        assert superseded_by is None or superseded_by > ordinal


def _text(content: str) -> str:
    try:
        found: Any = json.loads(content)
        return searchable_text(found)
    except (ValueError, KeyError, TypeError):
        return ""
