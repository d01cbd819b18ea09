"""What the engines spell differently about sessions: locking and full-text search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_runtime.storage.search_terms import Phrase, fts5_query, tsquery_list


@dataclass(frozen=True, slots=True)
class SessionDialect:
    """One engine's statements.

    Args:
        lock_session: Keeps other writers from a session until the end of the transaction; None
            where there is one writer at a time anyway.
        add_message_terms: Of the message with (session, seq).
        copy_message_terms: Of messages that `COPY_MESSAGES` has copied, with its parameters and the
            `old` and `new` beginning of terms.
        put_message_terms: Of the message with that number, in place of those it had.
        delete_message_terms: Of the message with that number.
        clear_message_terms: Of all messages of the session with that number.
        search_messages: Parameters: query, limit; rows begin with rank and number, best first, then
            newest.
        search_query: Spells a search for the two search statements.
    """

    lock_session: str | None
    add_message_terms: str
    copy_message_terms: str
    delete_message_terms: str
    put_message_terms: str
    clear_message_terms: str
    search_messages: str
    delete_entry_terms: str
    put_entry_terms: str
    search_entries: str
    search_query: Callable[[Sequence[Sequence[Phrase]]], str]


_MESSAGE_HIT = "m.message_id, m.role, m.content, m.created_at, s.session_id"

SQLITE = SessionDialect(
    lock_session=None,
    add_message_terms="""
INSERT INTO message_search (rowid, terms)
SELECT m.number, ? FROM messages m WHERE m.session = ? AND m.seq = ?""",
    copy_message_terms="""
INSERT INTO message_search (rowid, terms)
SELECT n.number, SUBSTR(REPLACE(' ' || message_search.terms, ' ' || :old, ' ' || :new), 2)
FROM json_each(:rows) AS wanted CROSS JOIN messages m CROSS JOIN message_search
CROSS JOIN messages n
WHERE m.session = :source AND m.branch = CAST(wanted.value ->> 0 AS BIGINT)
    AND m.depth = CAST(wanted.value ->> 1 AS BIGINT) AND message_search.rowid = m.number
    AND n.session = :target AND n.seq = :seq + CAST(wanted.value ->> 2 AS BIGINT)""",
    delete_message_terms="DELETE FROM message_search WHERE rowid = ?",
    put_message_terms="INSERT INTO message_search (rowid, terms) VALUES (?, ?)",
    clear_message_terms="""
DELETE FROM message_search
WHERE rowid IN (SELECT m.number FROM messages m WHERE m.session = ?)""",
    search_messages=f"""
SELECT f.rank, m.number, {_MESSAGE_HIT}
FROM (SELECT rowid AS number, rank FROM message_search
    WHERE terms MATCH ? ORDER BY rank, rowid DESC LIMIT ?) f
JOIN messages m ON m.number = f.number JOIN sessions s ON s.id = m.session
ORDER BY f.rank, m.number DESC""",
    delete_entry_terms="DELETE FROM entry_search WHERE rowid = ?",
    put_entry_terms="INSERT INTO entry_search (rowid, terms) VALUES (?, ?)",
    search_entries="""
SELECT e.entry_key, e.content
FROM (SELECT rowid AS number, rank FROM entry_search
    WHERE terms MATCH ? ORDER BY rank, rowid DESC LIMIT ?) f
JOIN search_entries e ON e.number = f.number
ORDER BY f.rank, e.number DESC""",
    search_query=fts5_query,
)

# Terms are cut so that no text is ever too long for a `tsvector`, of which 1 MiB is the limit.
POSTGRES = SessionDialect(
    lock_session="""
SELECT s.id FROM sessions s
WHERE s.agent_id = (SELECT a.id FROM agents a WHERE a.class_name = ? AND a.name = ?)
    AND s.session_id = ?
FOR UPDATE""",
    add_message_terms="""
INSERT INTO message_search (number, terms)
SELECT m.number, to_tsvector('english', ?)
FROM messages m WHERE m.session = ? AND m.seq = ?""",
    copy_message_terms="""
INSERT INTO message_search (number, terms)
SELECT n.number, CAST(REPLACE(CAST(f.terms AS TEXT), '''' || CAST(:old AS TEXT),
    '''' || CAST(:new AS TEXT)) AS TSVECTOR)
FROM json_each(:rows) AS wanted
JOIN messages m ON m.session = :source AND m.branch = CAST(wanted.value ->> 0 AS BIGINT)
    AND m.depth = CAST(wanted.value ->> 1 AS BIGINT)
JOIN message_search f ON f.number = m.number
JOIN messages n ON n.session = :target
    AND n.seq = CAST(:seq AS BIGINT) + CAST(wanted.value ->> 2 AS BIGINT)""",
    delete_message_terms="DELETE FROM message_search WHERE number = ?",
    put_message_terms="""
INSERT INTO message_search (number, terms) VALUES (?, to_tsvector('english', ?))""",
    clear_message_terms="""
DELETE FROM message_search
WHERE number IN (SELECT m.number FROM messages m WHERE m.session = ?)""",
    search_messages=f"""
SELECT -ts_rank(f.terms, q.query), m.number, {_MESSAGE_HIT}
FROM (SELECT to_tsquery('english', wanted.value #>> '{{}}') AS query
    FROM json_each(?) AS wanted) q
JOIN message_search f ON f.terms @@ q.query
JOIN messages m ON m.number = f.number JOIN sessions s ON s.id = m.session
ORDER BY ts_rank(f.terms, q.query) DESC, m.number DESC LIMIT ?""",
    delete_entry_terms="DELETE FROM entry_search WHERE number = ?",
    put_entry_terms="""
INSERT INTO entry_search (number, terms) VALUES (?, to_tsvector('english', ?))""",
    search_entries="""
SELECT e.entry_key, e.content
FROM (SELECT to_tsquery('english', wanted.value #>> '{}') AS query
    FROM json_each(?) AS wanted) q
JOIN entry_search f ON f.terms @@ q.query
JOIN search_entries e ON e.number = f.number
ORDER BY ts_rank(f.terms, q.query) DESC, e.number DESC LIMIT ?""",
    search_query=tsquery_list,
)
