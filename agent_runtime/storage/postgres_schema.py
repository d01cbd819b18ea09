"""The runtime's schema on PostgreSQL by its name: as a script, in statements, and by its number."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from agent_runtime.errors import StorageSchemaError
from agent_runtime.storage.migrations import LATEST, MIGRATIONS, step_statements

SCHEMA = "agent_runtime"

_CREATED = re.compile(r"CREATE TABLE (\w+)")
_PLACE = re.compile(r"\b(FROM|JOIN|INTO|UPDATE)(\s+)(\w+)\b")


@functools.cache
def qualified(statement: str) -> str:
    """Return a statement of this library that finds its tables under any `search_path`."""
    tables = _tables()
    return _PLACE.sub(
        lambda found: (
            f"{found[1]}{found[2]}{SCHEMA}.{found[3]}" if found[3] in tables else found[0]
        ),
        statement,
    )


def postgres_schema_sql() -> str:
    """Return the script that makes the schema in a database that has none, in one transaction.

    `agent-runtime db migrate` does the same, and also brings a schema up to date; this is for those
    who run all DDL themselves.
    """
    statements = [
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
        f"SET LOCAL search_path TO {SCHEMA}",
        "CREATE TABLE schema_version (version INTEGER NOT NULL)",
        *_schema_statements(),
        f"INSERT INTO schema_version VALUES ({LATEST})",
    ]
    return "BEGIN;\n" + "".join(f"{statement};\n" for statement in statements) + "COMMIT;\n"


def check_version(version: int, place: str) -> None:
    """Refuse a schema that is not this release's; 0 stands for none.

    Raises:
        StorageSchemaError: It is older, missing or newer; says what to do.
    """
    if version < LATEST:
        found = f"has schema {version}" if version else "has no schema yet"
        raise StorageSchemaError(
            f"{place} {found}, this release needs {LATEST}; run: agent-runtime db migrate",
            found=version,
            known=LATEST,
        )
    refuse_newer(version, place)


def refuse_newer(version: int, place: str) -> None:
    """Refuse a schema of a newer release.

    Raises:
        StorageSchemaError: It is one; says what to do.
    """
    if version > LATEST:
        raise StorageSchemaError(
            f"{place} has schema {version}, this release knows {LATEST}; upgrade agent-runtime",
            found=version,
            known=LATEST,
        )


def _schema_statements() -> Iterator[str]:
    for step in MIGRATIONS:
        yield from step_statements(step, "postgres")


@functools.cache
def _tables() -> frozenset[str]:
    return frozenset(
        name for statement in _schema_statements() for name in _CREATED.findall(statement)
    )
