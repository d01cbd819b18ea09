"""Statements that PostgreSQL needs in its own way, beside those of the same name in `statements`.

What SQLite gets from having one writer comes from row locks here: a unit that loads an agent's head
holds the agent until its commit. Heads are locked in order of agents, so that units that load
several never wait for each other in a circle. The row of the head is locked, not that of the agent:
its newest values are read after the wait, and rows that refer to the agent are added meanwhile.
"""

from __future__ import annotations

from agent_runtime.storage import statements

LOAD_STATES = """
SELECT a.class_name, a.name, a.id, s.version, s.state, s.full_version, s.updated_at
FROM json_each(?) AS wanted
JOIN agents a ON a.class_name = wanted.value ->> 0 AND a.name = wanted.value ->> 1
JOIN agent_states s ON s.agent_id = a.id
ORDER BY a.id
FOR NO KEY UPDATE OF s"""

# With its head, even if the agent is there without one: there must be something to lock.
ADD_AGENT = """
WITH added AS (
    INSERT INTO agents (class_name, name, created_at) VALUES (?, ?, ?)
    ON CONFLICT (class_name, name) DO UPDATE SET class_name = excluded.class_name
    RETURNING id)
INSERT INTO agent_states (agent_id, version, full_version, updated_at)
SELECT id, 0, 0, 0 FROM added
ON CONFLICT (agent_id) DO NOTHING"""

# What adds rows of an agent holds it until its commit, and is waited for; what comes later is
# refused.
HOLD_AGENT = f"{statements.HOLD_AGENT} FOR KEY SHARE"
LOCK_AGENT = f"{statements.LOCK_AGENT} FOR UPDATE"

OWN_SPELLING = {
    statements.HOLD_AGENT: HOLD_AGENT,
    statements.LOCK_AGENT: LOCK_AGENT,
    statements.DELETE_MESSAGE_TERMS: statements.DELETE_MESSAGE_TERMS.replace("rowid", "number"),
    statements.DELETE_ENTRY_TERMS: statements.DELETE_ENTRY_TERMS.replace("rowid", "number"),
    statements.LOAD_STATES: LOAD_STATES,
    statements.ADD_AGENT: ADD_AGENT,
}
