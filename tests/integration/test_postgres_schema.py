"""The schema for connections of users: its script, and statements under any `search_path`."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import fields

import asyncpg
import pytest

from agent_runtime.session.postgres_providers import PostgresSessionProvider
from agent_runtime.storage import (
    context_statements,
    job_statements,
    message_statements,
    statements,
)
from agent_runtime.storage.postgres_schema import postgres_schema_sql, qualified
from agent_runtime.storage.postgres_spelling import spell
from agent_runtime.storage.session_dialect import POSTGRES
from tests.support.postgres_databases import PostgresDatabases
from tests.support.session import ids, user

STATEMENTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": text
    for module in (message_statements, context_statements, job_statements)
    for name, text in vars(module).items()
    if name.isupper() and not name.startswith("_") and isinstance(text, str)
} | {
    f"dialect.{field.name}": text
    for field in fields(POSTGRES)
    if isinstance(text := getattr(POSTGRES, field.name), str)
}
STATEMENTS["statements.LOAD_STATES"] = statements.LOAD_STATES
STATEMENTS["statements.ADD_AGENT"] = statements.ADD_AGENT

_COLUMNS = """
SELECT table_name, column_name, ordinal_position, data_type, collation_name, is_nullable
FROM information_schema.columns WHERE table_schema = 'agent_runtime' ORDER BY 1, 3"""

_OTHERS = """
SELECT indexdef FROM pg_indexes WHERE schemaname = 'agent_runtime'
UNION ALL SELECT conrelid::regclass || pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'agent_runtime'::regnamespace
UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
ORDER BY 1"""


@pytest.fixture(scope="module")
async def connection(postgres: PostgresDatabases) -> AsyncIterator[asyncpg.Connection]:
    """A connection that finds nothing by its unqualified name."""
    opened = await asyncpg.connect(await postgres.migrated(), server_settings={"search_path": ""})
    yield opened
    await opened.close()


@pytest.mark.parametrize("name", STATEMENTS)
async def test_the_statement_finds_its_tables_and_names_its_columns(
    connection: asyncpg.Connection, name: str
) -> None:
    """Under an empty `search_path`; no two columns of a result have one name."""
    prepared = await connection.prepare(qualified(spell(STATEMENTS[name]).text))

    columns = Counter(column.name for column in prepared.get_attributes())
    assert [column for column, count in columns.items() if count > 1] == []


async def test_the_guard_notices_an_unqualified_name(connection: asyncpg.Connection) -> None:
    """The check above can fail."""
    with pytest.raises(asyncpg.UndefinedTableError):
        await connection.prepare(message_statements.READ_MESSAGE.replace("?", "''"))


async def test_the_script_makes_what_the_migration_makes(postgres: PostgresDatabases) -> None:
    """Tables, columns, indexes, constraints and triggers; sessions work in it."""
    by_hand = await asyncpg.connect(await postgres.empty())
    migrated = await asyncpg.connect(postgres.as_owner(await postgres.migrated()))

    await by_hand.execute(postgres_schema_sql())

    for query in (_COLUMNS, _OTHERS):
        expected = await migrated.fetch(query)
        assert expected != []
        assert await by_hand.fetch(query) == expected
    provider = PostgresSessionProvider(by_hand)
    await provider.append_message(user("m1"))
    assert ids(await provider.get_history()) == ["m1"]
    await by_hand.close()
    await migrated.close()
