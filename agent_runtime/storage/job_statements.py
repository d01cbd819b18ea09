"""Every statement about compaction jobs and what language models have cost, by name."""

from __future__ import annotations

ADD_CHUNK = """
INSERT INTO compaction_chunks (agent_id, job, stage, position, created_at, request)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (agent_id, job, stage, position) DO NOTHING"""

PUT_SUMMARY = """
UPDATE compaction_chunks SET summary = ?
WHERE agent_id = ? AND job = ? AND stage = ? AND position = ? AND summary IS NULL
RETURNING position"""

READ_CHUNK = """
SELECT c.request, c.summary FROM agents a JOIN compaction_chunks c ON c.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND c.job = ? AND c.stage = ? AND c.position = ?"""

COUNT_CHUNKS = """
SELECT COUNT(*) FROM agents a JOIN compaction_chunks c ON c.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND c.job = ? AND c.stage = ?"""

READ_SUMMARIES = """
SELECT c.summary FROM agents a JOIN compaction_chunks c ON c.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND c.job = ? AND c.stage = ?
ORDER BY c.position"""

DELETE_JOB = "DELETE FROM compaction_chunks WHERE agent_id = ? AND job = ?"

DELETE_JOBS = """
DELETE FROM compaction_chunks WHERE agent_id = ? AND job >= ? AND job < ? AND job <> ?"""

DELETE_JOB_EFFECTS = """
DELETE FROM invocation_effects
WHERE agent_id = ? AND invocation_key >= ? AND invocation_key < ?"""

DELETE_JOBS_EFFECTS = """
DELETE FROM invocation_effects
WHERE agent_id = ? AND invocation_key >= ? AND invocation_key < ?
    AND (invocation_key < ? OR invocation_key >= ?)"""

PUT_ATTEMPTS = """
INSERT INTO compaction_attempts (session, failures, next_estimate) VALUES (?, ?, ?)
ON CONFLICT (session) DO UPDATE SET failures = excluded.failures,
    next_estimate = excluded.next_estimate"""

READ_ATTEMPTS = """
SELECT t.failures, t.next_estimate
FROM agents a JOIN sessions s ON s.agent_id = a.id JOIN compaction_attempts t ON t.session = s.id
WHERE a.class_name = ? AND a.name = ? AND s.session_id = ?"""

DELETE_ATTEMPTS = "DELETE FROM compaction_attempts WHERE session = ?"

ADD_USAGE = """
INSERT INTO model_usage (agent_id, usage_key, session_id, purpose, model, input_tokens,
    output_tokens, cost, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (agent_id, usage_key) DO NOTHING RETURNING usage_key"""

ADD_USAGE_OF_DAY = """
INSERT INTO model_usage_days AS d (agent_id, session_id, day, model, purpose, calls, input_tokens,
    output_tokens, cost)
VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)
ON CONFLICT (agent_id, session_id, day, model, purpose) DO UPDATE SET calls = d.calls + 1,
    input_tokens = d.input_tokens + excluded.input_tokens,
    output_tokens = d.output_tokens + excluded.output_tokens, cost = d.cost + excluded.cost"""

_USAGE_OF_DAYS = """
SELECT d.session_id, d.day, d.model, d.purpose, d.calls, d.input_tokens, d.output_tokens, d.cost
FROM model_usage_days d
WHERE d.agent_id = (SELECT id FROM agents WHERE class_name = :class_name AND name = :name)
    AND d.day >= :since AND d.day <= :until"""

READ_USAGE_OF_DAYS = f"""{_USAGE_OF_DAYS}
ORDER BY d.day, d.session_id, d.model, d.purpose LIMIT :limit OFFSET :offset"""

READ_SESSION_USAGE_OF_DAYS = f"""{_USAGE_OF_DAYS} AND d.session_id = :session_id
ORDER BY d.day, d.model, d.purpose LIMIT :limit OFFSET :offset"""

READ_USAGE = """
SELECT u.usage_key, u.purpose, u.model, u.input_tokens, u.output_tokens, u.cost, u.created_at
FROM agents a JOIN model_usage u ON u.agent_id = a.id
WHERE a.class_name = ? AND a.name = ? AND u.session_id = ?
ORDER BY u.created_at, u.usage_key"""

DELETE_SESSION_USAGE = "DELETE FROM model_usage WHERE agent_id = ? AND session_id = ?"

DELETE_SESSION_USAGE_OF_DAYS = """
DELETE FROM model_usage_days WHERE agent_id = ? AND session_id = ?"""

# By the same bounds as receipts: as long as those are kept, a repeated call is not counted twice.
DELETE_USAGE = """
DELETE FROM model_usage
WHERE agent_id = :agent_id AND created_at < (SELECT MIN(bounds.created_at) FROM (
    SELECT CAST(:expired AS BIGINT) AS created_at
    UNION ALL SELECT COALESCE((SELECT u.created_at FROM model_usage u
        WHERE u.agent_id = :agent_id
        ORDER BY u.created_at DESC LIMIT 1 OFFSET :count) + 1, 0)) AS bounds)"""
