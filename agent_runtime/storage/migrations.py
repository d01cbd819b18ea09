"""The database schema as numbered steps; the sum of all steps is the schema.

Each step is a list of statements that both engines understand; `{id}` and `{blob}` stand for what
they spell differently. Never change a step that was released: add one.
"""

from __future__ import annotations

MIGRATIONS: list[list[str]] = [
    [
        """CREATE TABLE agents (
            id {id},
            class_name TEXT NOT NULL,
            name TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            UNIQUE (class_name, name))""",
        """CREATE TABLE agent_states (
            agent_id BIGINT PRIMARY KEY REFERENCES agents (id),
            version BIGINT NOT NULL,
            full_version BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            state TEXT)""",
        """CREATE TABLE state_mutations (
            seq {id},
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            version BIGINT NOT NULL,
            mutation_key TEXT,
            fingerprint TEXT,
            kind TEXT NOT NULL,
            source TEXT NOT NULL,
            is_full INTEGER NOT NULL,
            created_at BIGINT NOT NULL,
            value TEXT)""",
        "CREATE UNIQUE INDEX state_mutations_version ON state_mutations (agent_id, version)",
        "CREATE UNIQUE INDEX state_mutations_key ON state_mutations (agent_id, mutation_key)",
        """CREATE TABLE outbox (
            seq {serial},
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            kind TEXT NOT NULL,
            version BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            payload TEXT)""",
        """CREATE TABLE answers (
            batch_id TEXT PRIMARY KEY,
            created_at BIGINT NOT NULL,
            outcomes TEXT NOT NULL)""",
        "CREATE INDEX answers_age ON answers (created_at)",
        """CREATE TABLE invocations (
            id {serial},
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            invocation_key TEXT NOT NULL,
            kind TEXT NOT NULL,
            method TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            is_cancelled INTEGER NOT NULL,
            created_at BIGINT NOT NULL,
            finished_at BIGINT,
            request TEXT NOT NULL,
            outcome TEXT,
            UNIQUE (agent_id, invocation_key))""",
        """CREATE INDEX invocations_inbox ON invocations (agent_id, id)
            WHERE finished_at IS NULL""",
        """CREATE INDEX invocations_waiting ON invocations (created_at)
            WHERE finished_at IS NULL""",
        """CREATE TABLE invocation_effects (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            invocation_key TEXT NOT NULL,
            position INTEGER NOT NULL,
            kind TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            result TEXT,
            PRIMARY KEY (agent_id, invocation_key, position))""",
    ],
    [
        """CREATE TABLE connections (
            socket TEXT PRIMARY KEY,
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            connection_id TEXT NOT NULL,
            gateway TEXT NOT NULL,
            uri TEXT NOT NULL,
            tags TEXT NOT NULL,
            is_readonly INTEGER NOT NULL,
            has_protocol INTEGER NOT NULL,
            opened_at BIGINT NOT NULL,
            state TEXT)""",
        "CREATE INDEX connections_agent ON connections (agent_id, opened_at)",
        "CREATE INDEX connections_gateway ON connections (gateway)",
    ],
    [
        "CREATE TABLE gateways (id TEXT PRIMARY KEY, seen_at BIGINT NOT NULL)",
        "CREATE INDEX gateways_seen ON gateways (seen_at)",
    ],
]

LATEST = len(MIGRATIONS)
