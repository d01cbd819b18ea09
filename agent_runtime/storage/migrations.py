"""The database schema as numbered steps; the sum of all steps is the schema.

Each step is a list of statements that both engines understand; `{id}` and `{serial}` stand for what
they spell differently, and `PerEngine` for statements that one of them has in its own way. Never
change a step that was released: add one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

Engine = Literal["sqlite", "postgres"]


class PerEngine(NamedTuple):
    """Statements that do the same in each engine's own way."""

    sqlite: list[str]
    postgres: list[str]


Step = list[str | PerEngine]

_SPELLING: dict[Engine, dict[str, str]] = {
    "sqlite": {"id": "INTEGER PRIMARY KEY", "serial": "INTEGER PRIMARY KEY AUTOINCREMENT"},
    "postgres": {
        "id": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    },
}

_TEXT = re.compile(r"\bTEXT\b")

# Numbers are given out before the commit: without the lock, readers of the feed could see one whose
# predecessor is not committed yet, go on after it and miss the predecessor for ever. It is taken
# before the first number, so numbers become visible in their order, and held until the commit is.
_IN_ORDER = """CREATE FUNCTION outbox_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock(1634168436, TG_RELID::integer);
        PERFORM pg_notify('agent_runtime_feed', '');
        RETURN NULL;
    END $$"""
_NOTICE_INSERTS = """CREATE TRIGGER outbox_in_order BEFORE INSERT ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION outbox_in_order()"""

MIGRATIONS: list[Step] = [
    [
        """CREATE TABLE agents (
            id {serial},
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
            agent_id BIGINT NOT NULL,
            kind TEXT NOT NULL,
            version BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            payload TEXT)""",
        PerEngine(sqlite=[], postgres=[_IN_ORDER, _NOTICE_INSERTS]),
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
    [
        """CREATE TABLE sessions (
            id {serial},
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            session_id TEXT NOT NULL,
            head_seq BIGINT,
            next_seq BIGINT NOT NULL,
            next_branch BIGINT NOT NULL,
            tree_version BIGINT NOT NULL,
            UNIQUE (agent_id, session_id))""",
        """CREATE TABLE messages (
            number {serial},
            session BIGINT NOT NULL REFERENCES sessions (id),
            seq BIGINT NOT NULL,
            message_id TEXT NOT NULL,
            parent_seq BIGINT,
            branch BIGINT NOT NULL,
            depth BIGINT NOT NULL,
            content_bytes BIGINT NOT NULL,
            tokens BIGINT NOT NULL,
            path_bytes BIGINT NOT NULL,
            path_tokens BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            role TEXT NOT NULL,
            content TEXT NOT NULL,
            UNIQUE (session, message_id),
            CHECK (parent_seq < seq))""",
        "CREATE UNIQUE INDEX messages_seq ON messages (session, seq)",
        "CREATE INDEX messages_path ON messages (session, branch, depth)",
        "CREATE INDEX messages_children ON messages (session, parent_seq, seq)",
        """CREATE TABLE session_branches (
            session BIGINT NOT NULL REFERENCES sessions (id),
            branch BIGINT NOT NULL,
            parent_branch BIGINT NOT NULL,
            parent_depth BIGINT NOT NULL,
            PRIMARY KEY (session, branch))""",
        """CREATE INDEX session_branches_parent
            ON session_branches (session, parent_branch, parent_depth)""",
        """CREATE TABLE overlays (
            ordinal {serial},
            session BIGINT NOT NULL REFERENCES sessions (id),
            overlay_id TEXT NOT NULL,
            from_id TEXT NOT NULL,
            to_id TEXT NOT NULL,
            superseded_by BIGINT,
            tokens BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            summary TEXT NOT NULL,
            UNIQUE (session, overlay_id))""",
        "CREATE INDEX overlays_from ON overlays (session, from_id)",
        "CREATE INDEX overlays_to ON overlays (session, to_id)",
        """CREATE INDEX overlays_current ON overlays (session, ordinal)
            WHERE superseded_by IS NULL""",
        """CREATE TABLE context_blocks (
            session BIGINT NOT NULL REFERENCES sessions (id),
            label TEXT NOT NULL,
            version BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            content TEXT NOT NULL,
            PRIMARY KEY (session, label))""",
        """CREATE TABLE prompts (
            session BIGINT PRIMARY KEY REFERENCES sessions (id),
            fingerprint TEXT,
            updated_at BIGINT NOT NULL,
            prompt TEXT NOT NULL)""",
        """CREATE TABLE search_namespaces (
            id {serial},
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            namespace TEXT NOT NULL,
            label TEXT NOT NULL,
            UNIQUE (agent_id, namespace, label))""",
        """CREATE TABLE search_entries (
            number {serial},
            namespace BIGINT NOT NULL REFERENCES search_namespaces (id),
            entry_key TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            content TEXT NOT NULL,
            UNIQUE (namespace, entry_key))""",
        """CREATE TABLE session_records (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            session_id TEXT NOT NULL,
            name TEXT NOT NULL,
            parent_session_id TEXT,
            model TEXT,
            source TEXT,
            input_tokens BIGINT NOT NULL,
            output_tokens BIGINT NOT NULL,
            estimated_cost DOUBLE PRECISION NOT NULL,
            end_reason TEXT,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            update_counter BIGINT NOT NULL,
            PRIMARY KEY (agent_id, session_id))""",
        "CREATE INDEX session_records_newest ON session_records (agent_id, update_counter)",
        """CREATE TABLE session_operations (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            operation_key TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            result TEXT NOT NULL,
            PRIMARY KEY (agent_id, operation_key))""",
        "CREATE INDEX session_operations_age ON session_operations (agent_id, created_at)",
        PerEngine(
            sqlite=[
                "CREATE VIRTUAL TABLE message_search USING fts5 (terms, tokenize = 'porter')",
                "CREATE VIRTUAL TABLE entry_search USING fts5 (terms, tokenize = 'porter')",
            ],
            postgres=[
                """CREATE TABLE message_search (
                    number BIGINT PRIMARY KEY REFERENCES messages (number) ON DELETE CASCADE,
                    terms TSVECTOR NOT NULL)""",
                "CREATE INDEX message_search_terms ON message_search USING GIN (terms)",
                """CREATE TABLE entry_search (
                    number BIGINT PRIMARY KEY REFERENCES search_entries (number) ON DELETE CASCADE,
                    terms TSVECTOR NOT NULL)""",
                "CREATE INDEX entry_search_terms ON entry_search USING GIN (terms)",
            ],
        ),
    ],
    [
        """CREATE TABLE compaction_chunks (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            job TEXT NOT NULL,
            stage BIGINT NOT NULL,
            position BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            request TEXT NOT NULL,
            summary TEXT,
            PRIMARY KEY (agent_id, job, stage, position))""",
        """CREATE TABLE compaction_attempts (
            session BIGINT PRIMARY KEY REFERENCES sessions (id),
            failures BIGINT NOT NULL,
            next_estimate DOUBLE PRECISION NOT NULL)""",
        """CREATE TABLE model_usage (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            usage_key TEXT NOT NULL,
            session_id TEXT NOT NULL,
            purpose TEXT NOT NULL,
            model TEXT NOT NULL,
            input_tokens BIGINT NOT NULL,
            output_tokens BIGINT NOT NULL,
            cost DOUBLE PRECISION NOT NULL,
            created_at BIGINT NOT NULL,
            PRIMARY KEY (agent_id, usage_key))""",
        "CREATE INDEX model_usage_session ON model_usage (agent_id, session_id)",
    ],
    [
        """CREATE TABLE destroyed_agents (
            agent_id BIGINT PRIMARY KEY,
            class_name TEXT NOT NULL,
            name TEXT NOT NULL,
            destroy_key TEXT NOT NULL,
            version BIGINT NOT NULL,
            destroyed_at BIGINT NOT NULL,
            is_finished INTEGER NOT NULL,
            UNIQUE (class_name, name, destroy_key))""",
        "CREATE INDEX destroyed_agents_age ON destroyed_agents (destroyed_at)",
        """CREATE INDEX destroyed_agents_unfinished ON destroyed_agents (destroyed_at)
            WHERE is_finished = 0""",
        """CREATE TABLE destroyed_calls (
            agent_id BIGINT NOT NULL REFERENCES destroyed_agents (agent_id),
            invocation_key TEXT NOT NULL,
            method TEXT NOT NULL,
            fingerprint TEXT NOT NULL,
            outcome TEXT,
            PRIMARY KEY (agent_id, invocation_key))""",
    ],
    [
        "CREATE INDEX invocations_order ON invocations (agent_id, id)",
        "CREATE INDEX model_usage_age ON model_usage (agent_id, created_at)",
        """CREATE TABLE model_usage_days (
            agent_id BIGINT NOT NULL REFERENCES agents (id),
            session_id TEXT NOT NULL,
            day BIGINT NOT NULL,
            model TEXT NOT NULL,
            purpose TEXT NOT NULL,
            calls BIGINT NOT NULL,
            input_tokens BIGINT NOT NULL,
            output_tokens BIGINT NOT NULL,
            cost DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (agent_id, session_id, day, model, purpose))""",
        """CREATE INDEX model_usage_days_order
            ON model_usage_days (agent_id, day, session_id, model, purpose)""",
        """INSERT INTO model_usage_days
            (agent_id, session_id, day, model, purpose, calls, input_tokens, output_tokens, cost)
            SELECT agent_id, session_id, created_at / 86400000, model, purpose, COUNT(*),
                SUM(input_tokens), SUM(output_tokens), SUM(cost)
            FROM model_usage
            GROUP BY agent_id, session_id, created_at / 86400000, model, purpose""",
    ],
]

LATEST = len(MIGRATIONS)


def step_statements(step: Step, engine: Engine) -> Iterator[str]:
    """Return a step's statements as the engine spells them; `PerEngine` ones are taken as is.

    PostgreSQL compares texts by their bytes too, whatever the language of the database.
    """
    for element in step:
        if isinstance(element, PerEngine):
            yield from element.sqlite if engine == "sqlite" else element.postgres
        elif engine == "sqlite":
            yield element.format(**_SPELLING[engine])
        else:
            yield _TEXT.sub('TEXT COLLATE "C"', element.format(**_SPELLING[engine]))
