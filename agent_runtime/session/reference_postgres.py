"""The reference's own tables on PostgreSQL, and bringing conversations over from them (20.3)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import MappingProxyType

from agent_runtime.errors import InvalidImportError
from agent_runtime.json_value import Json
from agent_runtime.session.postgres_connection import (
    PostgresConnection,
    SqlConnection,
    sql_connection,
)
from agent_runtime.session.reference_import import ReferenceImport, import_tables
from agent_runtime.session.reference_tables import (
    COMPACTIONS,
    CONTEXTS,
    ENTRIES,
    MESSAGES,
    SESSIONS,
    is_text,
)
from agent_runtime.session.session_store import SessionStore

# Rows of one transaction share their time; then they are as they were written.
_SELECT = MappingProxyType(
    {
        MESSAGES: """
SELECT id, parent_id, content, created_at FROM assistant_messages WHERE session_id = $1
ORDER BY created_at, ctid""",
        COMPACTIONS: """
SELECT id, summary, from_message_id, to_message_id, created_at FROM assistant_compactions
WHERE session_id = $1 ORDER BY created_at, ctid""",
        SESSIONS: """
SELECT id, name, parent_session_id, model, source, input_tokens, output_tokens, estimated_cost,
    end_reason, created_at, updated_at
FROM assistant_sessions ORDER BY updated_at, ctid""",
        CONTEXTS: "SELECT label, content FROM cf_agents_context_blocks ORDER BY label",
        ENTRIES: """
SELECT label, key, content FROM cf_agents_search_entries ORDER BY created_at, ctid""",
    }
)

_SESSION_IDS = MappingProxyType(
    {
        MESSAGES: "SELECT DISTINCT session_id FROM assistant_messages",
        COMPACTIONS: "SELECT DISTINCT session_id FROM assistant_compactions",
        SESSIONS: "SELECT id FROM assistant_sessions",
    }
)

_IS_PRESENT = "SELECT to_regclass($1) IS NOT NULL AS is_present"


class PostgresReferenceTables:
    """`ReferenceTables` that a connection sees under its `search_path`."""

    def __init__(self, connection: SqlConnection, present: frozenset[str]) -> None:
        self._connection = connection
        self._present = present

    async def rows(self, table: str, *params: str) -> list[tuple[Json, ...]]:
        """See `ReferenceTables.rows`."""
        if table not in self._present:
            return []
        return await self._connection.fetch(_SELECT[table], params)

    async def session_ids(self) -> list[str]:
        """See `ReferenceTables.session_ids`."""
        found: set[str] = set()
        for table, statement in _SESSION_IDS.items():
            if table in self._present:
                rows = await self._connection.fetch(statement)
                found.update(value for (value,) in rows if is_text(value))
        return sorted(found)


async def import_reference_postgres(
    store: SessionStore, connection: PostgresConnection
) -> ReferenceImport:
    """Import the reference's tables from PostgreSQL, all in one transaction of the store.

    What becomes of what is as with `import_reference_tables`. The tables are only read, and must
    not be written meanwhile.

    Args:
        store: May be over the same connection, or the same pool, which gives two then.
        connection: Where unqualified names mean the reference's tables.

    Raises:
        InvalidImportError: There are none of the tables, or one of their sessions holds something
            here already.
        SessionSetupError: The connection is none of the kinds of `PostgresConnection`.
    """
    return await import_tables(store, "postgresql", _open_tables(sql_connection(connection)))


@asynccontextmanager
async def _open_tables(connection: SqlConnection) -> AsyncIterator[PostgresReferenceTables]:
    present = set()
    for table in _SELECT:
        [(is_present,)] = await connection.fetch(_IS_PRESENT, (table,))
        if is_present:
            present.add(table)
    if not present:
        raise InvalidImportError(
            f"the connection sees none of the tables {', '.join(_SELECT)}; set its search_path"
        )
    yield PostgresReferenceTables(connection, frozenset(present))
