"""The reference's own tables, and reading an SQLite file that has them (contract 20.1)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from agent_runtime.errors import InvalidImportError
from agent_runtime.json_value import Json

MESSAGES = "assistant_messages"
COMPACTIONS = "assistant_compactions"
SESSIONS = "assistant_sessions"
CONTEXTS = "cf_agents_context_blocks"
ENTRIES = "cf_agents_search_entries"

_SELECT = MappingProxyType(
    {
        MESSAGES: """
SELECT id, parent_id, content, created_at FROM assistant_messages WHERE session_id = ?
ORDER BY created_at, rowid""",
        COMPACTIONS: """
SELECT id, summary, from_message_id, to_message_id, created_at FROM assistant_compactions
WHERE session_id = ? ORDER BY created_at, rowid""",
        SESSIONS: """
SELECT id, name, parent_session_id, model, source, input_tokens, output_tokens, estimated_cost,
    end_reason, created_at, updated_at
FROM assistant_sessions ORDER BY updated_at, rowid""",
        CONTEXTS: "SELECT label, content FROM cf_agents_context_blocks ORDER BY label",
        ENTRIES: """
SELECT label, key, content FROM cf_agents_search_entries ORDER BY created_at, rowid""",
    }
)

_SESSION_IDS = MappingProxyType(
    {
        MESSAGES: "SELECT DISTINCT session_id FROM assistant_messages",
        COMPACTIONS: "SELECT DISTINCT session_id FROM assistant_compactions",
        SESSIONS: "SELECT id FROM assistant_sessions",
    }
)


class ReferenceTables(Protocol):
    """The tables of one database; those it does not have read as empty."""

    async def rows(self, table: str, *params: str) -> list[tuple[Json, ...]]:
        """Return a table's rows in their order, those of one session where it has sessions."""

    async def session_ids(self) -> list[str]:
        """Return the ids of all sessions that are mentioned, in order."""


@dataclass(frozen=True, slots=True)
class FileTables:
    """`ReferenceTables` of an SQLite file."""

    _connection: sqlite3.Connection
    _present: frozenset[str]

    async def rows(self, table: str, *params: str) -> list[tuple[Json, ...]]:
        """See `ReferenceTables.rows`."""
        if table not in self._present:
            return []
        return await asyncio.to_thread(self._read, _SELECT[table], params)

    async def session_ids(self) -> list[str]:
        """See `ReferenceTables.session_ids`."""
        found: set[str] = set()
        for table, statement in _SESSION_IDS.items():
            if table in self._present:
                rows = await asyncio.to_thread(self._read, statement, ())
                found.update(value for (value,) in rows if is_text(value))
        return sorted(found)

    def _read(self, statement: str, params: tuple[str, ...]) -> list[tuple[Json, ...]]:
        try:
            return self._connection.execute(statement, params).fetchall()
        except sqlite3.Error as error:
            raise InvalidImportError(f"the tables cannot be read: {error}") from error


@contextlib.asynccontextmanager
async def open_reference_tables(path: str | os.PathLike[str]) -> AsyncIterator[FileTables]:
    """Open a file for reading only.

    Raises:
        InvalidImportError: It is missing, no SQLite file, or has none of the tables.
    """
    connection = await asyncio.to_thread(_connect, Path(path))
    try:
        present = await asyncio.to_thread(_present_tables, connection, Path(path))
        yield FileTables(connection, present)
    finally:
        await asyncio.to_thread(connection.close)


def is_text(value: Json) -> bool:
    """Tell whether a stored value is a text that every engine can keep."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise InvalidImportError(f"{path} cannot be opened: {error}") from error
    # Bytes that are no UTF-8 must spoil their own row only.
    connection.text_factory = lambda value: value.decode(errors="surrogateescape")
    return connection


def _present_tables(connection: sqlite3.Connection, path: Path) -> frozenset[str]:
    try:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    except sqlite3.Error as error:
        raise InvalidImportError(f"{path} is not an SQLite file: {error}") from error
    present = frozenset(name for (name,) in rows) & _SELECT.keys()
    if not present:
        raise InvalidImportError(f"{path} has none of the tables {', '.join(_SELECT)}")
    return present
