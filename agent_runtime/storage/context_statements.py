"""Every statement about context blocks, prompts, searchable entries and the registry, by name."""

from __future__ import annotations

PUT_CONTEXT = """
INSERT INTO context_blocks (session, label, version, updated_at, content) VALUES (?, ?, 1, ?, ?)
ON CONFLICT (session, label) DO UPDATE SET version = context_blocks.version + 1,
    updated_at = excluded.updated_at, content = excluded.content"""

CONTEXT_VERSION = "SELECT version FROM context_blocks WHERE session = ? AND label = ?"

READ_CONTEXT = """
SELECT c.content, c.version
FROM agents a JOIN sessions s ON s.agent_id = a.id JOIN context_blocks c ON c.session = s.id
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ? AND c.label = ?"""

READ_CONTEXT_LABELS = """
SELECT c.label
FROM agents a JOIN sessions s ON s.agent_id = a.id JOIN context_blocks c ON c.session = s.id
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ? ORDER BY c.label"""

DELETE_CONTEXTS = "DELETE FROM context_blocks WHERE session = ?"

PUT_PROMPT = """
INSERT INTO prompts (session, fingerprint, updated_at, prompt) VALUES (?, ?, ?, ?)
ON CONFLICT (session) DO UPDATE SET fingerprint = excluded.fingerprint,
    updated_at = excluded.updated_at, prompt = excluded.prompt"""

READ_PROMPT = """
SELECT p.prompt, p.fingerprint
FROM agents a JOIN sessions s ON s.agent_id = a.id JOIN prompts p ON p.session = s.id
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

DELETE_PROMPT = "DELETE FROM prompts WHERE session = ?"

ADD_NAMESPACE = """
INSERT INTO search_namespaces (agent_id, namespace, label) VALUES (?, ?, ?)
ON CONFLICT (agent_id, namespace, label) DO NOTHING"""

FIND_NAMESPACE = """
SELECT n.id FROM agents a JOIN search_namespaces n ON n.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND n.namespace = ? AND n.label = ?"""

FIND_NAMESPACES = """
SELECT n.id FROM agents a JOIN search_namespaces n ON n.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND n.namespace = ?"""

PUT_ENTRY = """
INSERT INTO search_entries (namespace, entry_key, created_at, updated_at, content)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, entry_key) DO UPDATE SET updated_at = excluded.updated_at,
    content = excluded.content"""

FIND_ENTRY = "SELECT number FROM search_entries WHERE namespace = ? AND entry_key = ?"

COUNT_ENTRIES = "SELECT COUNT(*) FROM search_entries WHERE namespace = ?"

LIST_ENTRIES = """
SELECT n.label, e.entry_key, e.content
FROM agents a JOIN search_namespaces n ON n.agent_id = a.id
JOIN search_entries e ON e.namespace = n.id
WHERE a.class_name = ? AND a.name = ? AND n.namespace = ? ORDER BY n.label, e.entry_key"""

READ_ENTRY_NUMBERS = "SELECT number FROM search_entries WHERE namespace = ?"

DELETE_ENTRIES = "DELETE FROM search_entries WHERE namespace = ?"

DELETE_NAMESPACE = "DELETE FROM search_namespaces WHERE id = ?"

DELETE_SESSION = "DELETE FROM sessions WHERE id = ?"

_RECORD = """r.session_id, r.name, r.parent_session_id, r.model, r.source, r.input_tokens,
    r.output_tokens, r.estimated_cost, r.end_reason, r.created_at, r.updated_at"""

ADD_RECORD = """
INSERT INTO session_records (agent_id, session_id, name, parent_session_id, model, source,
    input_tokens, output_tokens, estimated_cost, end_reason, created_at, updated_at,
    update_counter)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent_id, session_id) DO NOTHING"""

NEXT_UPDATE = """
SELECT r.update_counter + 1 FROM session_records r
WHERE r.agent_id = ? ORDER BY r.update_counter DESC LIMIT 1"""

UPDATE_RECORD = """
UPDATE session_records SET name = COALESCE(?, name), end_reason = COALESCE(?, end_reason),
    input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,
    estimated_cost = estimated_cost + ?, updated_at = ?, update_counter = ?
WHERE agent_id = ? AND session_id = ?"""

TOUCH_RECORD = """
UPDATE session_records SET updated_at = ?, update_counter = (
    SELECT MAX(r.update_counter) + 1 FROM session_records r
    WHERE r.agent_id = session_records.agent_id)
WHERE agent_id = (SELECT a.id FROM agents a WHERE a.class_name = ? AND a.name = ?)
    AND session_id = ?"""

FIND_RECORD = f"""
SELECT {_RECORD} FROM session_records r WHERE r.agent_id = ? AND r.session_id = ?"""

DELETE_RECORD = "DELETE FROM session_records WHERE agent_id = ? AND session_id = ?"

READ_RECORD = f"""
SELECT {_RECORD} FROM agents a JOIN session_records r ON r.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND r.session_id = ?"""

LIST_RECORDS = f"""
SELECT {_RECORD} FROM agents a JOIN session_records r ON r.agent_id = a.id
WHERE a.class_name = ? AND a.name = ?
ORDER BY r.update_counter DESC LIMIT ? OFFSET ?"""

LIST_REGISTERED_IDS = """
SELECT r.session_id FROM agents a JOIN session_records r ON r.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? ORDER BY r.session_id"""

LIST_SESSION_IDS = """
SELECT s.session_id FROM agents a JOIN sessions s ON s.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? ORDER BY s.id"""

FIND_AGENT = "SELECT id FROM agents WHERE class_name = ? AND name = ?"

RECALL_OPERATION = """
SELECT fingerprint, result FROM session_operations WHERE agent_id = ? AND operation_key = ?"""

TAKE_OPERATION = """
INSERT INTO session_operations (agent_id, operation_key, fingerprint, created_at, result)
VALUES (?, ?, ?, ?, '')
ON CONFLICT (agent_id, operation_key) DO NOTHING"""

RECORD_OPERATION = """
UPDATE session_operations SET result = ? WHERE agent_id = ? AND operation_key = ?"""

DELETE_OPERATIONS = "DELETE FROM session_operations WHERE agent_id = ? AND created_at < ?"
