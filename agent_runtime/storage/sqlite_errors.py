"""SQLite's errors as the runtime's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from agent_runtime.errors import (
    AgentDestroyedError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from agent_runtime.storage.refused_statement import refused_statement
from agent_runtime.storage.unstorable import unstorable_error

_BY_CODE: dict[int, tuple[type[StorageError], str]] = {
    sqlite3.SQLITE_FULL: (StorageFullError, "no space left for the database; free some and repeat"),
    sqlite3.SQLITE_READONLY: (
        StorageReadOnlyError,
        "the database cannot be written; check the owner and mount of the data directory",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StorageReadOnlyError,
        "the database cannot be opened; check that the data directory exists and is writable",
    ),
    sqlite3.SQLITE_PERM: (StorageReadOnlyError, "access to the database is denied"),
    sqlite3.SQLITE_CORRUPT: (StorageCorruptError, "the database is damaged; restore a backup"),
    sqlite3.SQLITE_NOTADB: (
        StorageCorruptError,
        "the file is not a database; restore a backup or name another data directory",
    ),
}

_OF_THE_STATEMENT = (
    sqlite3.ProgrammingError,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.NotSupportedError,
)


@contextmanager
def storage_errors(place: str) -> Iterator[None]:
    """Turn SQLite's errors into ones of the runtime that name the file and what to do."""
    try:
        yield
    except sqlite3.Error as error:
        extended_code = getattr(error, "sqlite_errorcode", 0)
        if extended_code == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY:
            raise AgentDestroyedError("the agent was destroyed; nothing was stored") from error
        if str(error).startswith("Error binding parameter"):
            raise unstorable_error() from error
        code = extended_code & 0xFF
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise StorageUnavailableError(f"{place}: the storage is closed") from error
        if isinstance(error, _OF_THE_STATEMENT):
            raise refused_statement(place, error) from error
        kind, advice = _BY_CODE.get(code, (StorageUnavailableError, str(error)))
        raise kind(f"{place}: {advice}", code=code) from error
    except (UnicodeEncodeError, OverflowError) as error:
        raise unstorable_error() from error
    except ValueError as error:
        if "onnection" in str(error):  # aiosqlite: "no active connection", "Connection closed"
            raise StorageUnavailableError(f"{place}: the storage is closed") from error
        raise
