"""Every statement of the SQLite storage, by name; values are always bound."""

from __future__ import annotations

_STATE = """a.class_name, a.name, a.id, s.version, s.state, s.full_version, s.updated_at"""

LOAD_STATES = f"""
SELECT {_STATE}
FROM json_each(?) AS wanted
JOIN agents a ON a.class_name = json_extract(wanted.value, '$[0]')
    AND a.name = json_extract(wanted.value, '$[1]')
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
JOIN state_mutations m ON m.agent_id = json_extract(wanted.value, '$[0]')
    AND m.mutation_key = json_extract(wanted.value, '$[1]')"""

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

READ_FEED = """
SELECT o.seq, a.class_name, a.name, o.kind, o.version, COALESCE(o.payload, m.value),
    COALESCE(m.is_full, 1), COALESCE(m.source, 'server'), m.mutation_key
FROM outbox o
JOIN agents a ON a.id = o.agent_id
LEFT JOIN state_mutations m ON o.kind = 'state' AND m.agent_id = o.agent_id
    AND m.version = o.version
WHERE o.seq > ? ORDER BY o.seq LIMIT ?"""

READ_FEED_END = "SELECT COALESCE(MAX(seq), 0) FROM outbox"

_CONNECTION = """c.socket, c.agent_id, c.connection_id, c.gateway, c.uri, c.tags, c.is_readonly,
    c.has_protocol, c.opened_at, c.state"""

PUT_CONNECTION = """
INSERT OR REPLACE INTO connections (socket, agent_id, connection_id, gateway, uri, tags,
    is_readonly, has_protocol, opened_at, state)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""

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

PUT_GATEWAY = "INSERT OR REPLACE INTO gateways (id, seen_at) VALUES (?, ?)"

READ_DEAD_GATEWAYS = "SELECT id FROM gateways WHERE seen_at < ?"

DELETE_GATEWAY = "DELETE FROM gateways WHERE id = ?"

ADD_ANSWER = """
INSERT INTO answers (batch_id, created_at, outcomes) VALUES (?, ?, ?)
ON CONFLICT (batch_id) DO NOTHING"""

READ_ANSWER = "SELECT outcomes FROM answers WHERE batch_id = ?"

_INVOCATION = """i.agent_id, i.invocation_key, i.kind, i.method, i.request, i.fingerprint,
    i.created_at, i.is_cancelled, i.outcome, i.id"""

LOAD_INVOCATIONS = f"""
SELECT {_INVOCATION}
FROM json_each(?) AS wanted
JOIN invocations i ON i.agent_id = json_extract(wanted.value, '$[0]')
    AND i.invocation_key = json_extract(wanted.value, '$[1]')"""

READ_INVOCATIONS = f"""
SELECT a.class_name, a.name, {_INVOCATION}
FROM json_each(?) AS wanted
JOIN agents a ON a.class_name = json_extract(wanted.value, '$[0]')
    AND a.name = json_extract(wanted.value, '$[1]')
JOIN invocations i ON i.agent_id = a.id
    AND i.invocation_key = json_extract(wanted.value, '$[2]')"""

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
FROM json_each(?) AS wanted
JOIN invocations i ON i.agent_id = wanted.value AND i.finished_at IS NULL
GROUP BY i.agent_id"""

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

DELETE_EFFECTS = "DELETE FROM invocation_effects WHERE agent_id = ? AND invocation_key = ?"

# Versions of an agent have no gaps and lose their values from the oldest on, so each of the next
# three looks at what it drops and keeps, never at all that the agent has ever done.
DELETE_HISTORY_VALUES = """
UPDATE state_mutations SET value = NULL
WHERE agent_id = :agent_id
    AND version > COALESCE((SELECT d.version FROM state_mutations d
        WHERE d.agent_id = :agent_id AND d.value IS NULL ORDER BY d.version DESC LIMIT 1), 0)
    AND version < (SELECT f.version FROM state_mutations f
        WHERE f.agent_id = :agent_id AND f.is_full = 1 AND f.version <= (
            SELECT MIN(kept.version) FROM (
                SELECT m.version, ROW_NUMBER() OVER newest AS rank,
                    SUM(LENGTH(CAST(m.value AS BLOB))) OVER newest AS bytes
                FROM state_mutations m
                WHERE m.agent_id = :agent_id AND m.value IS NOT NULL AND m.version > (
                    SELECT MAX(h.version) FROM state_mutations h WHERE h.agent_id = :agent_id
                ) - MAX(:history_count, 1)
                WINDOW newest AS (ORDER BY m.version DESC)
            ) AS kept
            WHERE kept.rank = 1 OR kept.bytes <= :history_bytes)
        ORDER BY f.version DESC LIMIT 1)"""

# One bound each, by MIN: of two, SQLite would walk the rows up to the first.
DELETE_RECEIPTS = """
DELETE FROM state_mutations
WHERE agent_id = :agent_id AND version < MIN(
    (SELECT version FROM agent_states WHERE agent_id = :agent_id) - :count + 1,
    COALESCE((SELECT k.version FROM state_mutations k
        WHERE k.agent_id = :agent_id AND (k.created_at >= :expired OR k.value IS NOT NULL)
        ORDER BY k.version LIMIT 1), 9223372036854775807))"""

DELETE_INVOCATIONS = """
DELETE FROM invocations
WHERE agent_id = :agent_id AND finished_at < :expired AND id < MIN(
    (SELECT id FROM invocations WHERE agent_id = :agent_id
        ORDER BY id DESC LIMIT 1 OFFSET :count) + 1,
    COALESCE((SELECT k.id FROM invocations k
        WHERE k.agent_id = :agent_id AND k.created_at >= :expired
        ORDER BY k.id LIMIT 1), 9223372036854775807))"""

# Rows are appended in order of time, so the oldest few thousand are enough to look at.
DELETE_OUTBOX = """
DELETE FROM outbox
WHERE seq IN (SELECT seq FROM outbox ORDER BY seq LIMIT 20000) AND created_at < ?"""

DELETE_ANSWERS = "DELETE FROM answers WHERE created_at < ?"
