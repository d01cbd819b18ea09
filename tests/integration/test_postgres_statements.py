"""PostgreSQL understands every statement, and none walks through a whole table."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import AsyncIterator
from dataclasses import fields

import asyncpg
import pytest

from agent_runtime import storage
from agent_runtime.storage.postgres_connection import connect
from agent_runtime.storage.postgres_spelling import spell
from agent_runtime.storage.session_dialect import POSTGRES
from tests.support.postgres_databases import PostgresDatabases

MODULES = [
    importlib.import_module(f"{storage.__name__}.{found.name}")
    for found in pkgutil.iter_modules(storage.__path__)
    if found.name.endswith("statements") and found.name != "postgres_statements"
]
STATEMENTS = {
    name: text
    for module in MODULES
    for name, text in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
} | {
    field.name: text
    for field in fields(POSTGRES)
    if isinstance(text := getattr(POSTGRES, field.name), str)
}

_SCAN = re.compile(r"Seq Scan on (\w+)")


@pytest.fixture(scope="module")
async def connection(postgres: PostgresDatabases) -> AsyncIterator[asyncpg.Connection]:
    """A connection to an empty database that never walks a table if there is any other way."""
    opened = await connect(await postgres.migrated())
    await opened.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan")
    yield opened
    await opened.close()


async def _plan(connection: asyncpg.Connection, text: str) -> str:
    """Return how the server would run a statement, whatever its values are."""
    prepared = await connection.prepare(text)
    values = ", ".join("NULL" for _ in prepared.get_parameters())
    given = f"({values})" if values else ""
    await connection.execute(f"PREPARE asked AS {text}")
    try:
        rows = await connection.fetch(f"EXPLAIN EXECUTE asked {given}")
    finally:
        await connection.execute("DEALLOCATE asked")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_statement_is_understood_and_scans_no_table(
    connection: asyncpg.Connection, name: str
) -> None:
    """Names, types, spelling and placeholders are right; every step is a search in an index."""
    spelled = spell(STATEMENTS[name])
    prepared = await connection.prepare(spelled.text)
    plan = await _plan(connection, spelled.text)

    assert len(prepared.get_parameters()) == (len(spelled.names) or STATEMENTS[name].count("?"))
    assert _SCAN.findall(plan) == [], plan


async def test_the_guard_notices_a_scan(connection: asyncpg.Connection) -> None:
    """The check above can fail: a scan shows in a plan as it expects."""
    plan = await _plan(connection, "SELECT * FROM state_mutations WHERE source = $1")

    assert _SCAN.findall(plan) == ["state_mutations"]
