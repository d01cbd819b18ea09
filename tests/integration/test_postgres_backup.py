"""Dumps of a PostgreSQL database, and what its check finds missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.errors import ConfigurationError, StorageError, StorageSchemaError
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.postgres_backup import (
    backup_database,
    check_database,
    restore_database,
)
from agent_runtime.testing.storage_bench import ROOM, put_one
from tests.support.postgres_databases import SQL_ROLE, PostgresDatabases

_LOST = "fsync or synchronous_commit is off: commits can be lost"


async def test_a_restored_database_is_the_saved_one(
    postgres: PostgresDatabases, tmp_path: Path
) -> None:
    """States, versions and the agents' own SQL come back; later numbers go on after the old."""
    url = await postgres.migrated()
    storage = await PostgresStorage.open(url, sql_role=SQL_ROLE)
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":1}'))
    number = await agent_number(storage, ROOM)
    await storage.sql(ROOM, number, "CREATE TABLE notes (text TEXT)", ())
    await storage.sql(
        ROOM, await agent_number(storage, ROOM), "INSERT INTO notes VALUES ('kept')", ()
    )
    before = await storage.read_history(ROOM)

    await backup_database(postgres.as_administrator(url), tmp_path / "dump")
    await storage.close()
    new = await postgres.empty()
    await restore_database(new, tmp_path / "dump")

    storage = await PostgresStorage.open(new)
    try:
        assert await storage.read_history(ROOM) == before
        assert await storage.sql(
            ROOM, await agent_number(storage, ROOM), "SELECT * FROM notes", ()
        ) == [{"text": "kept"}]
        assert await storage.write(lambda tx: put_one(tx, ROOM, '{"n":2}')) == 2
    finally:
        await storage.close()


async def test_nothing_is_overwritten(postgres: PostgresDatabases, tmp_path: Path) -> None:
    """Neither a file nor a schema that is there."""
    url = postgres.as_administrator(await postgres.migrated())
    await backup_database(url, tmp_path / "dump")

    with pytest.raises(ConfigurationError, match="dump exists"):
        await backup_database(url, tmp_path / "dump")
    with pytest.raises(ConfigurationError, match="has a schema agent_runtime"):
        await restore_database(url, tmp_path / "dump")


async def test_a_failing_program_says_why(postgres: PostgresDatabases, tmp_path: Path) -> None:
    """Its reason is in the error, the password is not, and no file is left that looks whole."""
    url = postgres.as_administrator(await postgres.migrated())
    (tmp_path / "dump").write_text("no dump")

    with pytest.raises(StorageError, match=r"pg_restore failed: .* not appear to be a valid"):
        await restore_database(await postgres.empty(), tmp_path / "dump")
    away = url.replace("postgres@", "postgres:hunter2@").replace("/test_", "/nowhere_")
    with pytest.raises(StorageError, match=r"pg_dump failed: .* does not exist") as refusal:
        await backup_database(away, tmp_path / "other")

    assert "hunter2" not in str(refusal.value.to_record())
    assert not (tmp_path / "other").exists()


async def test_a_database_as_documented_lacks_nothing(postgres: PostgresDatabases) -> None:
    """The roles of docs/postgres.md suffice; this server alone is not durable."""
    assert await check_database(await postgres.migrated(), SQL_ROLE) == [_LOST]


async def test_missing_rights_are_named(postgres: PostgresDatabases) -> None:
    """Each with what it is needed for."""
    url = await postgres.migrated()
    name = url.rpartition("/")[2]
    await postgres.run(f"REVOKE CREATE ON DATABASE {name} FROM agent_app")
    await postgres.run("REVOKE DELETE ON agent_runtime.outbox FROM agent_app", name)

    assert await check_database(url, "nobody_at_all") == [
        "no rights to read and write the table outbox",
        "no right to CREATE schemas in the database, for self.sql",
        "no role nobody_at_all, or no membership in it",
        _LOST,
    ]


async def test_an_unmigrated_database_is_no_sound_one(postgres: PostgresDatabases) -> None:
    """The check tells the command that is missing."""
    with pytest.raises(StorageSchemaError, match="agent-runtime db migrate"):
        await check_database(await postgres.empty(), None)
