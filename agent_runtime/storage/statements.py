"""Every statement of the storage, by name; values are always bound.

They are written as both engines understand them: parameters `?` or `:name`, lists of values as
`json_each(?) AS wanted`, their items as `wanted.value ->> 0` with a cast where it is a number.
`postgres_spelling` makes PostgreSQL's text of them; the few that PostgreSQL needs in another way
stand in `postgres_statements` under the same names.
"""

from __future__ import annotations

_STATE = """a.class_name, a.name, a.id, s.version, s.state, s.full_version, s.updated_at"""

LOAD_STATES = f"""
SELECT {_STATE}
FROM json_each(?) AS wanted
JOIN agents a ON a.class_name = wanted.value ->> 0
    AND a.name = wanted.value ->> 1
LEFT JOIN agent_states s ON s.agent_id = a.id"""

READ_STATE = f"""
SELECT {_STATE}
FROM agents a LEFT JOIN agent_states s ON s.agent_id = a.id
WHERE a.class_name = ? AND a.name = ?"""

ADD_AGENT = """
INSERT INTO agents (class_name, name, created_at) VALUES (?, ?, ?)
ON CONFLICT (class_name, name) DO NOTHING"""

LIST_AGENTS = """
SELECT a.class_name, a.name, COALESCE(s.version, 0), a.created_at, COALESCE(s.updated_at, 0)
FROM agents a LEFT JOIN agent_states s ON s.agent_id = a.id
WHERE (a.class_name, a.name) > (:after_class, :after_name)
ORDER BY a.class_name, a.name LIMIT :limit"""

LIST_AGENTS_OF_CLASS = """
SELECT a.class_name, a.name, COALESCE(s.version, 0), a.created_at, COALESCE(s.updated_at, 0)
FROM agents a LEFT JOIN agent_states s ON s.agent_id = a.id
WHERE a.class_name = :class_name AND a.name > :after_name
ORDER BY a.name LIMIT :limit"""

LOAD_RECEIPTS = """
SELECT m.agent_id, m.mutation_key, m.version, m.kind, m.fingerprint
FROM json_each(?) AS wanted
JOIN state_mutations m ON m.agent_id = CAST(wanted.value ->> 0 AS BIGINT)
    AND m.mutation_key = wanted.value ->> 1"""

ADD_MUTATION = """
INSERT INTO state_mutations
    (agent_id, version, mutation_key, fingerprint, kind, source, is_full, created_at, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""

PUT_STATE = """
INSERT INTO agent_states (agent_id, version, full_version, updated_at, state)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (agent_id) DO UPDATE SET version = excluded.version,
    full_version = excluded.full_version, updated_at = excluded.updated_at,
    state = excluded.state"""

_MUTATION = """m.agent_id, m.version, m.mutation_key, m.fingerprint, m.kind, m.source, m.value,
    m.is_full, m.created_at"""

READ_HISTORY = f"""
SELECT {_MUTATION} FROM state_mutations m
WHERE m.agent_id = (SELECT id FROM agents WHERE class_name = ? AND name = ?)
    AND m.version <= ?
ORDER BY m.version DESC LIMIT ?"""

READ_VERSION = f"""
SELECT {_MUTATION} FROM state_mutations m
WHERE m.agent_id = :agent_id AND m.version <= :version
    AND m.version >= (SELECT f.version FROM state_mutations f
        WHERE f.agent_id = :agent_id AND f.version <= :version AND f.is_full = 1
        ORDER BY f.version DESC LIMIT 1)
ORDER BY m.version"""

ADD_OUTBOX = """
INSERT INTO outbox (agent_id, kind, version, created_at, payload) VALUES (?, ?, ?, ?, ?)"""

READ_OUTBOX = """
SELECT agent_id, kind, version, payload, created_at, seq FROM outbox
WHERE seq > ? ORDER BY seq LIMIT ?"""

# What an agent sent before it was destroyed is told still, but for states: their values are gone.
READ_FEED = """
SELECT o.seq, COALESCE(a.class_name, d.class_name), COALESCE(a.name, d.name), o.kind, o.version,
    COALESCE(o.payload, m.value), COALESCE(m.is_full, 1), COALESCE(m.source, 'server'),
    m.mutation_key
FROM outbox o
LEFT JOIN agents a ON a.id = o.agent_id
LEFT JOIN destroyed_agents d ON d.agent_id = o.agent_id
LEFT JOIN state_mutations m ON o.kind = 'state' AND m.agent_id = o.agent_id
    AND m.version = o.version
WHERE o.seq > ? AND (a.id IS NOT NULL OR (d.agent_id IS NOT NULL AND o.kind <> 'state'))
ORDER BY o.seq LIMIT ?"""

READ_FEED_END = "SELECT COALESCE(MAX(seq), 0) FROM outbox"

_CONNECTION = """c.socket, c.agent_id, c.connection_id, c.gateway, c.uri, c.tags, c.is_readonly,
    c.has_protocol, c.opened_at, c.state"""

PUT_CONNECTION = """
INSERT INTO connections (socket, agent_id, connection_id, gateway, uri, tags,
    is_readonly, has_protocol, opened_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (socket) DO UPDATE SET agent_id = excluded.agent_id,
    connection_id = excluded.connection_id, gateway = excluded.gateway, uri = excluded.uri,
    tags = excluded.tags, is_readonly = excluded.is_readonly,
    has_protocol = excluded.has_protocol, opened_at = excluded.opened_at,
    state = excluded.state"""

READ_CONNECTIONS = f"""
SELECT {_CONNECTION} FROM connections c
WHERE c.agent_id = (SELECT id FROM agents WHERE class_name = ? AND name = ?)
ORDER BY c.opened_at"""

DELETE_CONNECTION = "DELETE FROM connections WHERE socket = ?"

READ_GATEWAY_CONNECTIONS = f"""
SELECT a.class_name, a.name, {_CONNECTION} FROM connections c
JOIN agents a ON a.id = c.agent_id
WHERE c.gateway = ?"""

DELETE_GATEWAY_CONNECTIONS = "DELETE FROM connections WHERE gateway = ?"

READ_GATEWAY = "SELECT seen_at FROM gateways WHERE id = ?"

PUT_GATEWAY = """
INSERT INTO gateways (id, seen_at) VALUES (?, ?)
ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at"""

READ_DEAD_GATEWAYS = "SELECT id FROM gateways WHERE seen_at < ?"

DELETE_GATEWAY = "DELETE FROM gateways WHERE id = ?"

ADD_ANSWER = """
INSERT INTO answers (batch_id, created_at, outcomes) VALUES (?, ?, ?)
ON CONFLICT (batch_id) DO NOTHING"""

READ_ANSWER = "SELECT outcomes FROM answers WHERE batch_id = ?"

_INVOCATION = """i.agent_id, i.invocation_key, i.kind, i.method, i.request, i.fingerprint,
    i.created_at, i.is_cancelled, i.outcome, i.id"""

_DESTROYED_CALL = """c.invocation_key, 'call', c.method, '', c.fingerprint, d.destroyed_at, 0,
    c.outcome, 0"""

LOAD_INVOCATIONS = f"""
WITH wanted (agent_id, key) AS (
    SELECT CAST(given.value ->> 0 AS BIGINT), given.value ->> 1 FROM json_each(?) AS given)
SELECT a.id, {_DESTROYED_CALL}
FROM wanted
JOIN agents a ON a.id = wanted.agent_id
JOIN destroyed_agents d ON d.class_name = a.class_name AND d.name = a.name
JOIN destroyed_calls c ON c.agent_id = d.agent_id AND c.invocation_key = wanted.key
UNION ALL
SELECT {_INVOCATION}
FROM wanted
JOIN invocations i ON i.agent_id = wanted.agent_id AND i.invocation_key = wanted.key"""

READ_INVOCATIONS = f"""
WITH wanted (class_name, name, key) AS (
    SELECT given.value ->> 0, given.value ->> 1, given.value ->> 2 FROM json_each(?) AS given)
SELECT d.class_name, d.name, c.agent_id, {_DESTROYED_CALL}
FROM wanted
JOIN destroyed_agents d ON d.class_name = wanted.class_name AND d.name = wanted.name
JOIN destroyed_calls c ON c.agent_id = d.agent_id AND c.invocation_key = wanted.key
UNION ALL
SELECT a.class_name, a.name, {_INVOCATION}
FROM wanted
JOIN agents a ON a.class_name = wanted.class_name AND a.name = wanted.name
JOIN invocations i ON i.agent_id = a.id AND i.invocation_key = wanted.key"""

ADD_INVOCATION = """
INSERT INTO invocations
    (agent_id, invocation_key, kind, method, request, fingerprint, created_at, is_cancelled)
VALUES (?, ?, ?, ?, ?, ?, ?, 0)
ON CONFLICT (agent_id, invocation_key) DO NOTHING"""

CANCEL_INVOCATION = """
UPDATE invocations SET is_cancelled = 1
WHERE agent_id = ? AND invocation_key = ? AND finished_at IS NULL"""

FINISH_INVOCATION = """
UPDATE invocations SET outcome = ?, finished_at = ?
WHERE agent_id = ? AND invocation_key = ? AND finished_at IS NULL"""

DELETE_INVOCATION = "DELETE FROM invocations WHERE agent_id = ? AND invocation_key = ?"

READ_INBOX = f"""
SELECT {_INVOCATION} FROM invocations i
WHERE i.agent_id = ? AND i.finished_at IS NULL AND i.id > ?
ORDER BY i.id LIMIT ?"""

READ_INBOX_MARKS = """
SELECT i.agent_id, MAX(i.id), SUM(i.is_cancelled)
FROM json_each(?) AS wanted CROSS JOIN invocations i
WHERE i.agent_id = CAST(wanted.value AS BIGINT) AND i.finished_at IS NULL
GROUP BY i.agent_id"""

READ_LIVING = """
SELECT a.id FROM json_each(?) AS wanted JOIN agents a ON a.id = CAST(wanted.value AS BIGINT)"""

READ_WAITING_AGENTS = """
SELECT DISTINCT a.class_name, a.name FROM invocations i JOIN agents a ON a.id = i.agent_id
WHERE i.finished_at IS NULL AND i.created_at < ? LIMIT ?"""

_EFFECT = "agent_id, invocation_key, position, kind, fingerprint, result, created_at"

ADD_EFFECT = """
INSERT INTO invocation_effects
    (agent_id, invocation_key, position, kind, fingerprint, created_at, result)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent_id, invocation_key, position) DO NOTHING"""

READ_EFFECT = f"""
SELECT {_EFFECT} FROM invocation_effects
WHERE agent_id = ? AND invocation_key = ? AND position = ?"""

READ_EFFECTS = f"""
SELECT {_EFFECT} FROM invocation_effects
WHERE agent_id = (SELECT id FROM agents WHERE class_name = ? AND name = ?)
    AND invocation_key = ?
ORDER BY position"""

READ_MUTATION_EFFECTS = f"""
SELECT {_MUTATION} FROM state_mutations m
WHERE m.agent_id = (SELECT id FROM agents WHERE class_name = ? AND name = ?)
    AND m.mutation_key >= ? AND m.mutation_key < ?"""

DELETE_EFFECTS = """
DELETE FROM invocation_effects
WHERE agent_id = ? AND invocation_key >= ? AND invocation_key < ?"""

_DESTROYED = """d.agent_id, d.class_name, d.name, d.destroy_key, d.version, d.destroyed_at,
    d.is_finished"""

FIND_DESTROYED = f"""
SELECT {_DESTROYED} FROM destroyed_agents d
WHERE d.class_name = ? AND d.name = ? AND d.destroy_key = ?"""

READ_UNFINISHED = f"""
SELECT {_DESTROYED} FROM destroyed_agents d
WHERE d.is_finished = 0 AND d.destroyed_at < ? ORDER BY d.destroyed_at LIMIT ?"""

READ_UNFINISHED_OF_AGENT = f"""
SELECT {_DESTROYED} FROM destroyed_agents d
WHERE d.is_finished = 0 AND d.class_name = ? AND d.name = ? AND d.destroyed_at < ?
ORDER BY d.agent_id LIMIT ?"""

ADD_DESTROYED = """
INSERT INTO destroyed_agents
    (agent_id, class_name, name, destroy_key, version, destroyed_at, is_finished)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

KEEP_CALLS = """
INSERT INTO destroyed_calls (agent_id, invocation_key, method, fingerprint, outcome)
SELECT agent_id, invocation_key, method, fingerprint,
    CASE WHEN invocation_key = :without_call THEN NULL ELSE :outcome END
FROM invocations
WHERE agent_id = :agent_id AND finished_at IS NULL AND kind <> 'hook'"""

_SESSIONS = "SELECT id FROM sessions WHERE agent_id = ?"
_NAMESPACES = "SELECT id FROM search_namespaces WHERE agent_id = ?"

HOLD_AGENT = "SELECT id AS held FROM agents WHERE id = ?"

LOCK_AGENT = "SELECT id AS locked FROM agents WHERE id = ?"

DELETE_MESSAGE_TERMS = f"""
DELETE FROM message_search
WHERE rowid IN (SELECT number FROM messages WHERE session IN ({_SESSIONS}))"""

DELETE_ENTRY_TERMS = f"""
DELETE FROM entry_search
WHERE rowid IN (SELECT number FROM search_entries WHERE namespace IN ({_NAMESPACES}))"""

DELETE_AGENT = [
    DELETE_MESSAGE_TERMS,
    DELETE_ENTRY_TERMS,
    f"DELETE FROM messages WHERE session IN ({_SESSIONS})",
    f"DELETE FROM session_branches WHERE session IN ({_SESSIONS})",
    f"DELETE FROM overlays WHERE session IN ({_SESSIONS})",
    f"DELETE FROM context_blocks WHERE session IN ({_SESSIONS})",
    f"DELETE FROM prompts WHERE session IN ({_SESSIONS})",
    f"DELETE FROM compaction_attempts WHERE session IN ({_SESSIONS})",
    f"DELETE FROM search_entries WHERE namespace IN ({_NAMESPACES})",
    "DELETE FROM search_namespaces WHERE agent_id = ?",
    "DELETE FROM sessions WHERE agent_id = ?",
    "DELETE FROM session_records WHERE agent_id = ?",
    "DELETE FROM session_operations WHERE agent_id = ?",
    "DELETE FROM compaction_chunks WHERE agent_id = ?",
    "DELETE FROM model_usage WHERE agent_id = ?",
    "DELETE FROM model_usage_days WHERE agent_id = ?",
    "DELETE FROM invocation_effects WHERE agent_id = ?",
    "DELETE FROM invocations WHERE agent_id = ?",
    "DELETE FROM connections WHERE agent_id = ?",
    "DELETE FROM state_mutations WHERE agent_id = ?",
    "DELETE FROM agent_states WHERE agent_id = ?",
    "DELETE FROM agents WHERE id = ?",
]
"""All that an agent has, what refers to others first; each is given the agent's number."""

FINISH_DESTROYED_CALL = """
UPDATE destroyed_calls SET outcome = ?
WHERE agent_id = ? AND invocation_key = ? AND outcome IS NULL"""

FINISH_DESTROYED_CALLS = """
UPDATE destroyed_calls SET outcome = ? WHERE agent_id = ? AND outcome IS NULL"""

FINISH_DESTROYED = "UPDATE destroyed_agents SET is_finished = 1 WHERE agent_id = ?"

DELETE_DESTROYED_CALLS = """
DELETE FROM destroyed_calls
WHERE agent_id IN (SELECT d.agent_id FROM destroyed_agents d
    WHERE d.destroyed_at < ? AND d.is_finished = 1)"""

DELETE_DESTROYED = "DELETE FROM destroyed_agents WHERE destroyed_at < ? AND is_finished = 1"

_NEWEST_VALUES = """
state_mutations m
WHERE m.agent_id = :agent_id AND m.value IS NOT NULL AND m.version > (
    SELECT MAX(h.version) FROM state_mutations h WHERE h.agent_id = :agent_id) - :history_count"""

# Versions of an agent have no gaps and lose their values from the oldest on, so each of the next
# three looks at what it drops and keeps, never at all that the agent has ever done. The sum of all
# sizes is found far sooner than the sum up to each, which is asked for only if all are too much.
DELETE_HISTORY_VALUES = f"""
UPDATE state_mutations SET value = NULL
WHERE agent_id = :agent_id
    AND version > COALESCE((SELECT d.version FROM state_mutations d
        WHERE d.agent_id = :agent_id AND d.value IS NULL ORDER BY d.version DESC LIMIT 1), 0)
    AND version < (SELECT f.version FROM state_mutations f
        WHERE f.agent_id = :agent_id AND f.is_full = 1 AND f.version <= (
            SELECT CASE WHEN SUM(LENGTH(CAST(m.value AS BLOB))) <= :history_bytes
                THEN MIN(m.version)
                ELSE (SELECT MIN(kept.version) FROM (
                    SELECT m.version, ROW_NUMBER() OVER newest AS rank,
                        SUM(LENGTH(CAST(m.value AS BLOB))) OVER newest AS bytes
                    FROM {_NEWEST_VALUES}
                    WINDOW newest AS (ORDER BY m.version DESC)) AS kept
                    WHERE kept.rank = 1 OR kept.bytes <= :history_bytes) END
            FROM {_NEWEST_VALUES})
        ORDER BY f.version DESC LIMIT 1)"""

# One bound each, the lower of two: of both, SQLite would walk the rows up to the first.
DELETE_RECEIPTS = """
DELETE FROM state_mutations
WHERE agent_id = :agent_id AND version < (SELECT MIN(bounds.version) FROM (
    SELECT COALESCE((SELECT s.version FROM agent_states s WHERE s.agent_id = :agent_id), 0)
        - :count + 1 AS version
    UNION ALL SELECT COALESCE((SELECT k.version FROM state_mutations k
        WHERE k.agent_id = :agent_id AND (k.created_at >= :expired OR k.value IS NOT NULL)
        ORDER BY k.version LIMIT 1), 9223372036854775807)) AS bounds)"""

DELETE_INVOCATIONS = """
DELETE FROM invocations
WHERE agent_id = :agent_id AND finished_at < :expired AND id < (SELECT MIN(bounds.id) FROM (
    SELECT COALESCE((SELECT n.id FROM invocations n
        WHERE n.agent_id = :agent_id ORDER BY n.id DESC LIMIT 1 OFFSET :count) + 1, 0) AS id
    UNION ALL SELECT COALESCE((SELECT k.id FROM invocations k
        WHERE k.agent_id = :agent_id AND k.created_at >= :expired
        ORDER BY k.id LIMIT 1), 9223372036854775807)) AS bounds)"""

# Rows are appended in order of time, so the oldest few thousand are enough to look at.
DELETE_OUTBOX = """
DELETE FROM outbox
WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT 20000) AND created_at < ?"""

DELETE_ANSWERS = "DELETE FROM answers WHERE created_at < ?"
