"""The schema on PostgreSQL: made by one command, checked by all others, never seen half."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_runtime.errors import (
    ConfigurationError,
    StorageError,
    StorageReadOnlyError,
    StorageSchemaError,
)
from agent_runtime.storage import postgres_migrations, postgres_schema
from agent_runtime.storage.migrations import LATEST, MIGRATIONS, Step
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.postgres_connection import connect
from agent_runtime.storage.postgres_migrations import migrate, schema_version
from agent_runtime.testing.storage_bench import ROOM, put_one
from tests.support.old_usage import OLD_USAGE, STEPS_BEFORE, SUMMED
from tests.support.postgres_databases import PostgresDatabases

Release = Callable[[list[Step]], None]

NEXT_STEP: Step = [
    "ALTER TABLE agents ADD COLUMN color TEXT",
    "CREATE TABLE paints (seq {serial}, name TEXT NOT NULL)",
    "CREATE INDEX paints_name ON paints (name)",
]

_COLUMNS = """
SELECT table_name, column_name, data_type, collation_name, is_nullable, identity_generation
FROM information_schema.columns WHERE table_schema = 'agent_runtime' ORDER BY 1, 2"""
_INDEXES = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'agent_runtime' ORDER BY 1"
_RULES = """
SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'agent_runtime'::regnamespace ORDER BY 1, 2"""
_TRIGGERS = """
SELECT pg_get_triggerdef(oid) FROM pg_trigger
WHERE NOT tgisinternal AND tgrelid::regclass::text LIKE '%outbox%'"""


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """Make the installed release one with other migrations."""

    def become(migrations: list[Step]) -> None:
        for module in (postgres_migrations, postgres_schema):
            monkeypatch.setattr(module, "MIGRATIONS", migrations)
            monkeypatch.setattr(module, "LATEST", len(migrations))

    return become


async def _schema(url: str) -> list[list[tuple[object, ...]]]:
    connection = await connect(url)
    try:
        return [
            [tuple(row) for row in await connection.fetch(query)]
            for query in (_COLUMNS, _INDEXES, _RULES, _TRIGGERS)
        ]
    finally:
        await connection.close()


async def _version(url: str) -> int:
    connection = await connect(url)
    try:
        return await schema_version(connection)
    finally:
        await connection.close()


async def test_a_migrated_schema_equals_a_fresh_one(
    postgres: PostgresDatabases, release: Release
) -> None:
    """From whatever release a database comes, after migration it is as if made today."""
    steps = [*MIGRATIONS, NEXT_STEP]
    release(steps)
    fresh = await postgres.empty()
    assert await migrate(fresh) == 0
    wanted = await _schema(fresh)
    assert all(wanted)
    for known in range(1, len(steps)):
        old = await postgres.empty()
        release(steps[:known])
        await migrate(old)
        release(steps)
        assert await migrate(old) == known
        assert await _schema(old) == wanted


async def test_migrating_keeps_what_is_stored(
    postgres: PostgresDatabases, release: Release
) -> None:
    """Agents of the older release are there afterwards."""
    url = await postgres.migrated()
    storage = await PostgresStorage.open(url)
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":1}'))
    await storage.close()
    release([*MIGRATIONS, NEXT_STEP])

    assert await migrate(postgres.as_owner(url)) == LATEST
    storage = await PostgresStorage.open(url)
    head = await storage.read_state(ROOM)
    await storage.close()
    assert head is not None and head.state == '{"n":1}'


async def test_migrating_sums_the_calls_of_models(
    postgres: PostgresDatabases, release: Release
) -> None:
    """Days of before are listed like those after."""
    url = await postgres.empty()
    release(MIGRATIONS[:STEPS_BEFORE])
    await migrate(url)
    connection = await connect(url)
    for statement in OLD_USAGE:
        await connection.execute(statement)
    await connection.close()
    release(MIGRATIONS)
    await migrate(url)

    storage = await PostgresStorage.open(url)
    days = await storage.sessions.usage_of_days(ROOM, limit=10)
    await storage.close()

    assert days == SUMMED


async def test_migrating_twice_is_harmless(postgres: PostgresDatabases) -> None:
    """A second run finds nothing to do."""
    url = await postgres.empty()

    assert [await migrate(url), await migrate(url)] == [0, LATEST]


async def test_migrations_at_once_are_one(postgres: PostgresDatabases) -> None:
    """Of several at the same time one migrates, the others wait and find it done."""
    url = await postgres.empty()

    found = await asyncio.gather(*(migrate(url) for _ in range(4)))

    assert sorted(found) == [0, LATEST, LATEST, LATEST]


async def test_a_failing_migration_changes_nothing(
    postgres: PostgresDatabases, release: Release
) -> None:
    """All steps are one transaction."""
    url = await postgres.migrated()
    before = await _schema(url)
    release([*MIGRATIONS, NEXT_STEP, ["CREATE TABLE agents (again)"]])

    with pytest.raises(StorageError, match="refused a statement"):
        await migrate(postgres.as_owner(url))

    assert await _schema(url) == before
    assert await _version(url) == LATEST


async def test_a_database_without_a_schema_is_refused(postgres: PostgresDatabases) -> None:
    """Opening makes nothing; the error tells the command that does."""
    with pytest.raises(StorageSchemaError, match="agent-runtime db migrate"):
        await PostgresStorage.open(await postgres.empty())


async def test_an_older_schema_is_refused(postgres: PostgresDatabases, release: Release) -> None:
    """A process of the new release does not begin before the migration."""
    url = await postgres.migrated()
    release([*MIGRATIONS, NEXT_STEP])

    with pytest.raises(StorageSchemaError, match=f"schema {LATEST}, this release needs"):
        await PostgresStorage.open(url)


async def test_a_newer_schema_is_refused(postgres: PostgresDatabases, release: Release) -> None:
    """An older release neither serves nor migrates what it does not know."""
    url = await postgres.migrated()
    release(MIGRATIONS[:-1])

    for doing in (PostgresStorage.open(url), migrate(postgres.as_owner(url))):
        with pytest.raises(StorageSchemaError, match="upgrade agent-runtime"):
            await doing


async def test_a_missing_database_is_named(postgres: PostgresDatabases) -> None:
    """The message says which, and not the password."""
    url = postgres.server.url("nowhere").replace("postgres@", "postgres:hunter2@")

    with pytest.raises(ConfigurationError, match='database "nowhere" does not exist') as refusal:
        await PostgresStorage.open(url)

    assert "hunter2" not in str(refusal.value.to_record())


async def test_a_server_that_is_away_is_named(postgres: PostgresDatabases) -> None:
    """Nothing listens there: a storage that is not available."""
    with pytest.raises(StorageError, match=r"PostgreSQL 127\.0\.0\.1:1/agents does not answer"):
        await PostgresStorage.open("postgresql://user@127.0.0.1:1/agents")


async def test_a_worker_cannot_migrate(postgres: PostgresDatabases, release: Release) -> None:
    """Its role may not change tables; the error tells that rights are missing."""
    url = await postgres.migrated()
    release([*MIGRATIONS, NEXT_STEP])

    with pytest.raises(StorageReadOnlyError, match="the role lacks rights"):
        await migrate(url)
