"""Copies of a data directory: taken while it is used, checked, and put back whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agent_runtime.errors import ConfigurationError, StorageCorruptError, StorageSchemaError
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.migrations import LATEST
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from agent_runtime.storage.sqlite_backup import (
    backup_files,
    check_files,
    database_files,
    read_version,
    restore_files,
)
from agent_runtime.testing.storage_bench import OTHER, ROOM, put_one


@pytest.fixture
async def data_dir(tmp_path: Path) -> Path:
    """A directory with two agents, one of which has SQL of its own."""
    storage = await SqliteStorage.open(tmp_path / "data")
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":1}'))
    await storage.write(lambda tx: put_one(tx, OTHER, '{"n":2}'))
    await storage.sql(
        ROOM, await agent_number(storage, ROOM), "CREATE TABLE notes AS SELECT 'kept' AS text", ()
    )
    await storage.close()
    return tmp_path / "data"


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4_096:4_196] = b"\xff" * 100
    path.write_bytes(content)


async def test_a_backup_is_taken_while_agents_write(data_dir: Path, tmp_path: Path) -> None:
    """It holds what was committed by then, also what is in the write-ahead log only."""
    storage = await SqliteStorage.open(data_dir)
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":3}'))

    assert backup_files(data_dir, tmp_path / "copy") == 2
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":4}'))
    await storage.close()
    restored = await SqliteStorage.open(tmp_path / "copy")
    head = await restored.read_state(ROOM)
    await restored.close()
    assert head is not None and head.state == '{"n":3}'


async def test_a_restored_directory_is_the_saved_one(data_dir: Path, tmp_path: Path) -> None:
    """States, versions and the agents' own SQL come back."""
    backup_files(data_dir, tmp_path / "copy")

    assert restore_files(tmp_path / "copy", tmp_path / "new") == 2
    storage = await SqliteStorage.open(tmp_path / "new")
    try:
        rows = await storage.list_agents()
        assert [(row.ref, row.version) for row in rows] == [(ROOM, 1), (OTHER, 1)]
        assert await storage.sql(
            ROOM, await agent_number(storage, ROOM), "SELECT * FROM notes", ()
        ) == [{"text": "kept"}]
    finally:
        await storage.close()
    assert [path.name for path in database_files(tmp_path / "copy")] == [
        path.name for path in database_files(data_dir)
    ]


def test_nothing_is_overwritten(data_dir: Path, tmp_path: Path) -> None:
    """Neither an earlier backup nor a database that is there."""
    backup_files(data_dir, tmp_path / "copy")

    with pytest.raises(ConfigurationError, match="copy exists"):
        backup_files(data_dir, tmp_path / "copy")
    with pytest.raises(ConfigurationError, match="is in the way"):
        restore_files(tmp_path / "copy", data_dir)


@pytest.mark.parametrize("name", [FILE_NAME, "sql-*.db"])
def test_damage_is_found_and_never_restored(data_dir: Path, tmp_path: Path, name: str) -> None:
    """A check reads every page of every file."""
    backup_files(data_dir, tmp_path / "copy")
    assert check_files(tmp_path / "copy") == LATEST
    [damaged] = (tmp_path / "copy").glob(name)
    _damage(damaged)

    with pytest.raises(StorageCorruptError, match=damaged.name):
        check_files(tmp_path / "copy")
    with pytest.raises(StorageCorruptError, match=damaged.name):
        restore_files(tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_damaged_database_gives_no_backup(data_dir: Path, tmp_path: Path) -> None:
    """What cannot be read whole leaves nothing that looks like a backup."""
    _damage(data_dir / FILE_NAME)

    with pytest.raises(StorageCorruptError):
        backup_files(data_dir, tmp_path / "copy")

    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_newer_backup_is_refused(data_dir: Path, tmp_path: Path) -> None:
    """This release would not understand it."""
    backup_files(data_dir, tmp_path / "copy")
    connection = sqlite3.connect(tmp_path / "copy" / FILE_NAME)
    connection.execute(f"PRAGMA user_version = {LATEST + 1}")
    connection.close()

    with pytest.raises(StorageSchemaError, match="upgrade agent-runtime"):
        restore_files(tmp_path / "copy", tmp_path / "new")


def test_a_directory_without_a_database_is_named(tmp_path: Path) -> None:
    """A wrong path makes no empty backup."""
    assert read_version(tmp_path) == 0
    with pytest.raises(ConfigurationError, match="there is no database in"):
        backup_files(tmp_path, tmp_path / "copy")
