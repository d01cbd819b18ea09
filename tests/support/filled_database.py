"""Rows in every table of a database file, for plans that depend on how many there are."""

from __future__ import annotations

import sqlite3

ROWS = 3_000
_OWNERS = 50

# What belongs to an agent or a session has many rows of few owners.
_OWNER_COLUMNS = {"agent_id", "session", "namespace"}


def fill_tables(connection: sqlite3.Connection) -> None:
    """Put a few thousand rows into every table, found by the schema."""
    tables = connection.execute(
        "SELECT name, sql LIKE '%VIRTUAL%' FROM sqlite_master WHERE type = 'table'"
    ).fetchall()
    virtual = [name for name, is_virtual in tables if is_virtual]
    for name, is_virtual in tables:
        is_inner = any(name.startswith(f"{each}_") for each in virtual)
        if not name.startswith("sqlite_") and not is_inner:
            _fill(connection, name, is_virtual=bool(is_virtual))
    connection.commit()


def _fill(connection: sqlite3.Connection, table: str, *, is_virtual: bool) -> None:
    columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
    names = [name for _, name, *_ in columns]
    key = [name for _, name, _, _, _, position in columns if position]
    marks = ", ".join("?" for _ in names)
    connection.executemany(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
        (
            [
                _value(name, kind, number, is_key=key == [name], is_needed=bool(needed))
                for _, name, kind, needed, *_ in columns
            ]
            for number in range(1, ROWS + 1)
        ),
    )
    [(count,)] = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchall()
    assert count == ROWS, (table, is_virtual)


def _value(name: str, kind: str, number: int, *, is_key: bool, is_needed: bool) -> object:
    if name in _OWNER_COLUMNS and not is_key:
        return number % _OWNERS + 1
    if not is_needed and not is_key and number % 20 == 0:
        return None
    if name == "parent_seq":
        return number - 1
    if name == "superseded_by":
        return number + 1
    return number if kind in ("BIGINT", "INTEGER") else f"{name} {number}"
