"""Every statement about messages, branches and overlays, by name; values are always bound.

They are the same on both engines, which differ in how a session is locked and searched only; that
is in `session_dialect`. No two columns of a result have one name, as some drivers give rows by
name. SQLite takes the tables of a `CROSS JOIN` in the order they are written in; else it would
rather walk a session's messages than look up the few that are wanted.
"""

from __future__ import annotations

_SESSION = """
FROM agents a JOIN sessions s ON s.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

_NODE = """
m.message_id, m.seq, m.branch, m.depth, m.path_bytes, m.path_tokens, p.message_id AS parent_id,
    EXISTS (SELECT 1 FROM messages c
        WHERE c.session = m.session AND c.branch = m.branch AND c.depth = m.depth + 1)"""

# One row at least, of nulls from the node on, if none is found.
OPEN_SESSION = f"""
SELECT s.id, s.agent_id, s.next_seq, s.next_branch, s.tree_version, h.seq AS head_seq,
    h.message_id AS head_id, h.branch AS head_branch, h.depth AS head_depth,
    h.path_bytes AS head_bytes, h.path_tokens AS head_tokens, {_NODE}
FROM agents a JOIN sessions s ON s.agent_id = a.id
LEFT JOIN messages h ON h.session = s.id AND h.seq = s.head_seq
LEFT JOIN json_each(?) AS wanted ON 1 = 1
LEFT JOIN messages m ON m.session = s.id AND m.message_id = wanted.value ->> 0
LEFT JOIN messages p ON p.session = m.session AND p.seq = m.parent_seq
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

ADD_SESSION = """
INSERT INTO sessions (agent_id, session_id, next_seq, next_branch, tree_version)
VALUES (?, ?, 1, 0, 0)
ON CONFLICT (agent_id, session_id) DO NOTHING"""

MOVE_HEAD = "UPDATE sessions SET head_seq = ?, next_seq = ?, next_branch = ? WHERE id = ?"

RELABEL_SESSION = """
UPDATE sessions SET tree_version = tree_version + 1, head_seq = (
    SELECT m.seq FROM messages m WHERE m.session = sessions.id ORDER BY m.seq DESC LIMIT 1)
WHERE id = ?"""

FIND_NODES = f"""
SELECT {_NODE}
FROM json_each(?) AS wanted CROSS JOIN messages m
LEFT JOIN messages p ON p.session = m.session AND p.seq = m.parent_seq
WHERE m.session = ? AND m.message_id = wanted.value ->> 0"""

ADD_MESSAGE = """
INSERT INTO messages (session, seq, message_id, parent_seq, branch, depth, content_bytes, tokens,
    path_bytes, path_tokens, created_at, role, content)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

# Of branch, depth, place and new id of each message. A cross join keeps SQLite from reading the
# list anew for each message of the session.
_COPIED = """FROM json_each(:rows) AS wanted CROSS JOIN messages m
WHERE m.session = :source AND m.branch = CAST(wanted.value ->> 0 AS BIGINT)
    AND m.depth = CAST(wanted.value ->> 1 AS BIGINT)"""

# Those that begin with their id, and whose id is in their text as it is.
COUNT_COPYABLE = f"""
SELECT COUNT(*) {_COPIED}
    AND SUBSTR(m.content, 1, LENGTH(m.message_id) + 8) = '{{"id":"' || m.message_id || '"'"""

COPY_MESSAGES = f"""
INSERT INTO messages (session, seq, message_id, parent_seq, branch, depth, content_bytes, tokens,
    path_bytes, path_tokens, created_at, role, content)
SELECT CAST(:target AS BIGINT), CAST(:seq AS BIGINT) + found.place, found.id,
    CASE WHEN found.place = 0 THEN CAST(:parent AS BIGINT)
        ELSE CAST(:seq AS BIGINT) + found.place - 1 END,
    CAST(:branch AS BIGINT), CAST(:depth AS BIGINT) + found.place, found.size, found.tokens,
    CAST(:bytes AS BIGINT) + SUM(found.size) OVER above,
    CAST(:tokens AS BIGINT) + SUM(found.tokens) OVER above,
    CAST(:now AS BIGINT), found.role, found.content
FROM (
    SELECT below.place, below.id, below.tokens, below.role, below.content,
        LENGTH(CAST(below.content AS BLOB)) AS size
    FROM (
        SELECT CAST(wanted.value ->> 2 AS BIGINT) AS place, wanted.value ->> 3 AS id, m.tokens,
            m.role, '{{"id":"' || (wanted.value ->> 3)
                || SUBSTR(m.content, LENGTH(m.message_id) + 8) AS content
        {_COPIED}) AS below
    ) AS found
WINDOW above AS (ORDER BY found.place)
ORDER BY found.place"""

ADD_BRANCH = """
INSERT INTO session_branches (session, branch, parent_branch, parent_depth) VALUES (?, ?, ?, ?)"""

FIND_FOR_UPDATE = """
SELECT m.number, m.branch, m.depth, m.content_bytes, m.tokens
FROM messages m WHERE m.session = ? AND m.message_id = ?"""

UPDATE_MESSAGE = """
UPDATE messages SET role = ?, content = ?, content_bytes = ?, tokens = ?
WHERE session = ? AND message_id = ?"""

# The message itself and all below it: the rest of its branch, and branches that hang there.
SHIFT_SIZES = """
WITH RECURSIVE below (branch, first_depth) AS (
    SELECT CAST(:branch AS BIGINT), CAST(:depth AS BIGINT)
    UNION ALL
    SELECT b.branch, b.parent_depth + 1
    FROM below CROSS JOIN session_branches b
    WHERE b.session = :session AND b.parent_branch = below.branch
        AND b.parent_depth >= below.first_depth)
UPDATE messages SET path_bytes = path_bytes + :bytes, path_tokens = path_tokens + :tokens
FROM below
WHERE messages.session = :session AND messages.branch = below.branch
    AND messages.depth >= below.first_depth"""

SHIFT_TIP_SIZES = """
UPDATE messages SET path_bytes = path_bytes + ?, path_tokens = path_tokens + ?
WHERE session = ? AND branch = ? AND depth = ?"""

HAS_CHILDREN = """
SELECT EXISTS (SELECT 1 FROM messages c WHERE c.session = m.session AND c.parent_seq = m.seq)
FROM messages m WHERE m.session = ? AND m.message_id = ?"""

FIND_DELETED = """
SELECT m.number, m.seq, m.message_id, m.parent_seq, m.branch, m.depth, m.content_bytes, m.tokens
FROM json_each(?) AS wanted CROSS JOIN messages m
WHERE m.session = ? AND m.message_id = wanted.value ->> 0"""

# From each (branch, depth): that branch, and all that hang there or below.
READ_BRANCHES_BELOW = """
WITH RECURSIVE below (branch, first_depth) AS (
    SELECT CAST(wanted.value ->> 0 AS BIGINT), CAST(wanted.value ->> 1 AS BIGINT)
    FROM json_each(?) AS wanted
    UNION
    SELECT b.branch, b.parent_depth + 1
    FROM below CROSS JOIN session_branches b
    WHERE b.session = ? AND b.parent_branch = below.branch
        AND b.parent_depth >= below.first_depth)
SELECT b.branch, b.parent_branch, b.parent_depth
FROM below CROSS JOIN session_branches b
WHERE b.session = ? AND b.branch = below.branch"""

REPARENT = "UPDATE messages SET parent_seq = ? WHERE session = ? AND parent_seq = ?"

SHIFT_LABELS = """
UPDATE messages SET depth = depth - ?, path_bytes = path_bytes - ?, path_tokens = path_tokens - ?
WHERE session = ? AND branch = ? AND depth >= ? AND depth <= ?"""

HANG_BRANCH = """
UPDATE session_branches SET parent_branch = ?, parent_depth = ? WHERE session = ? AND branch = ?"""

DELETE_BRANCH = "DELETE FROM session_branches WHERE session = ? AND branch = ?"

DELETE_MESSAGE = "DELETE FROM messages WHERE number = ?"

CLEAR_MESSAGES = "DELETE FROM messages WHERE session = ?"

CLEAR_BRANCHES = "DELETE FROM session_branches WHERE session = ?"

CLEAR_OVERLAYS = "DELETE FROM overlays WHERE session = ?"

ADD_OVERLAY = """
INSERT INTO overlays (session, overlay_id, from_id, to_id, tokens, created_at, summary)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (session, overlay_id) DO NOTHING"""

READ_OVERLAY = """
SELECT ordinal, overlay_id, summary, from_id, to_id, created_at FROM overlays
WHERE session = ? AND overlay_id = ?"""

SUPERSEDE_OVERLAYS = """
UPDATE overlays SET superseded_by = ?
WHERE ordinal IN (SELECT CAST(wanted.value ->> 0 AS BIGINT) FROM json_each(?) AS wanted)"""

OVERLAYS_AT = """
SELECT o.ordinal, o.from_id, o.to_id
FROM json_each(?) AS wanted CROSS JOIN overlays o
WHERE o.session = ? AND o.from_id = wanted.value ->> 0
UNION SELECT o.ordinal, o.from_id, o.to_id
FROM json_each(?) AS wanted CROSS JOIN overlays o
WHERE o.session = ? AND o.to_id = wanted.value ->> 0"""

MOVE_OVERLAY = "UPDATE overlays SET from_id = ?, to_id = ? WHERE ordinal = ?"

DELETE_OVERLAY = "DELETE FROM overlays WHERE ordinal = ?"

_OVERLAY_RANGE = """
SELECT o.ordinal, f.branch AS first_branch, f.depth AS first_depth, t.branch AS last_branch,
    t.depth AS last_depth, f.path_tokens - f.tokens AS tokens_before, t.path_tokens, o.tokens,
    o.superseded_by IS NOT NULL AS is_superseded"""

# One row at least, of nulls, unless labels have changed since the version: then none.
_READ_OVERLAYS = f"""{_OVERLAY_RANGE}
FROM sessions s
LEFT JOIN overlays o ON o.session = s.id {{which}}
LEFT JOIN messages f ON f.session = o.session AND f.message_id = o.from_id
LEFT JOIN messages t ON t.session = o.session AND t.message_id = o.to_id
WHERE s.id = ? AND s.tree_version = ?"""

READ_CURRENT_OVERLAYS = _READ_OVERLAYS.format(which="AND o.superseded_by IS NULL")

READ_ALL_OVERLAYS = _READ_OVERLAYS.format(which="")

CURRENT_OVERLAYS_FROM = f"""{_OVERLAY_RANGE}
FROM overlays o
JOIN messages f ON f.session = o.session AND f.message_id = o.from_id
JOIN messages t ON t.session = o.session AND t.message_id = o.to_id
WHERE o.session = ? AND o.from_id = ? AND o.superseded_by IS NULL"""

READ_SUMMARIES = """
SELECT o.ordinal, o.overlay_id, o.summary, o.created_at
FROM json_each(?) AS wanted
JOIN overlays o ON o.ordinal = CAST(wanted.value ->> 0 AS BIGINT)"""

LIST_OVERLAYS = f"""
SELECT o.overlay_id, o.summary, o.from_id, o.to_id, o.created_at
FROM overlays o WHERE o.session = (SELECT s.id {_SESSION})
ORDER BY o.ordinal"""

_PATH = """
WITH RECURSIVE
found AS (
    SELECT s.id, s.tree_version, s.head_seq
    FROM agents a JOIN sessions s ON s.agent_id = a.id
    WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?),
leaf AS (
    SELECT m.branch, m.depth, m.path_bytes, m.path_tokens
    FROM found f JOIN messages m ON m.session = f.id AND {is_leaf}),
lineage (branch, depth) AS (
    SELECT branch, depth FROM leaf
    UNION ALL
    SELECT b.parent_branch, b.parent_depth
    FROM lineage l JOIN session_branches b ON b.session = (SELECT id FROM found)
        AND b.branch = l.branch)
SELECT f.id, f.tree_version, EXISTS (SELECT 1 FROM overlays o WHERE o.session = f.id),
    leaf.path_bytes, leaf.path_tokens, l.branch, l.depth
FROM found f LEFT JOIN leaf ON 1 = 1 LEFT JOIN lineage l ON 1 = 1"""

READ_LATEST_PATH = _PATH.format(is_leaf="m.seq = f.head_seq")

READ_PATH = _PATH.format(is_leaf="m.message_id = ?")

_IN_RANGES = """
FROM json_each(?) AS wanted CROSS JOIN messages m
WHERE m.session = ? AND m.branch = CAST(wanted.value ->> 0 AS BIGINT)
    AND m.depth >= CAST(wanted.value ->> 1 AS BIGINT)
    AND m.depth <= CAST(wanted.value ->> 2 AS BIGINT)
    AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = ? AND s.tree_version = ?)"""

READ_CONTENTS = f"SELECT m.depth, m.content {_IN_RANGES}"

READ_SIZES = f"SELECT m.depth, m.message_id, m.role, m.content_bytes {_IN_RANGES}"

READ_IDS = f"SELECT m.depth, m.message_id, m.seq {_IN_RANGES}"

READ_MESSAGE = f"""
SELECT m.content FROM messages m
WHERE m.session = (SELECT s.id {_SESSION}) AND m.message_id = ?"""

READ_LATEST = """
SELECT m.content FROM agents a JOIN sessions s ON s.agent_id = a.id
JOIN messages m ON m.session = s.id AND m.seq = s.head_seq
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

READ_LENGTH = """
SELECT m.depth + 1 FROM agents a JOIN sessions s ON s.agent_id = a.id
JOIN messages m ON m.session = s.id AND m.seq = s.head_seq
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

READ_LENGTH_TO = f"""
SELECT m.depth + 1 FROM messages m
WHERE m.session = (SELECT s.id {_SESSION}) AND m.message_id = ?"""

READ_CHILDREN = """
SELECT c.content FROM agents a JOIN sessions s ON s.agent_id = a.id
JOIN messages m ON m.session = s.id
JOIN messages c ON c.session = m.session AND c.parent_seq = m.seq
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ? AND m.message_id = ?
ORDER BY c.seq"""

READ_TREE = f"""
SELECT m.seq, m.parent_seq, m.message_id, m.role, m.depth, m.content_bytes, m.tokens,
    m.created_at, m.content
FROM messages m WHERE m.session = (SELECT s.id {_SESSION}) AND m.seq > ?
ORDER BY m.seq LIMIT ?"""

READ_SESSION_NUMBERS = """
SELECT s.id FROM json_each(?) AS wanted
JOIN agents a ON a.class_name = wanted.value ->> 0 AND a.name = wanted.value ->> 1
JOIN sessions s ON s.agent_id = a.id AND s.session_id = wanted.value ->> 2"""
