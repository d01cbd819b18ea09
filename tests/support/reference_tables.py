"""The tables that the reference keeps sessions in on PostgreSQL (20.3)."""

from __future__ import annotations

REFERENCE_TABLES = """
CREATE TABLE assistant_messages (
    id TEXT NOT NULL, session_id TEXT NOT NULL DEFAULT '', parent_id TEXT, role TEXT NOT NULL,
    content TEXT NOT NULL, text_content TEXT NOT NULL DEFAULT '',
    created_at TIMESTAMPTZ DEFAULT NOW(),
    content_tsv TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', text_content)) STORED,
    PRIMARY KEY (session_id, id));
CREATE INDEX idx_assistant_msg_fts ON assistant_messages USING GIN (content_tsv);
CREATE TABLE assistant_compactions (
    id TEXT PRIMARY KEY, session_id TEXT NOT NULL DEFAULT '', summary TEXT NOT NULL,
    from_message_id TEXT NOT NULL, to_message_id TEXT NOT NULL,
    created_at TIMESTAMPTZ DEFAULT NOW());
CREATE TABLE cf_agents_context_blocks (
    label TEXT PRIMARY KEY, content TEXT NOT NULL, updated_at TIMESTAMPTZ DEFAULT NOW());
CREATE TABLE cf_agents_search_entries (
    label TEXT NOT NULL, key TEXT NOT NULL, content TEXT NOT NULL,
    content_tsv TSVECTOR GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
    created_at TIMESTAMPTZ DEFAULT NOW(), updated_at TIMESTAMPTZ DEFAULT NOW(),
    PRIMARY KEY (label, key));
"""
