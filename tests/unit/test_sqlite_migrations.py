"""Older files are migrated in one step that cannot be seen half; newer ones are refused."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_runtime.errors import StorageError, StorageSchemaError
from agent_runtime.storage import sqlite as sqlite_storage
from agent_runtime.storage.migrations import LATEST, MIGRATIONS, Step
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from agent_runtime.testing.storage_bench import ROOM, put_one
from tests.support.old_usage import OLD_USAGE, STEPS_BEFORE, SUMMED

Release = Callable[[list[Step]], None]

NEXT_STEP: Step = [
    "ALTER TABLE agents ADD COLUMN color TEXT",
    "CREATE TABLE paints (seq {serial}, name TEXT NOT NULL)",
    "CREATE INDEX paints_name ON paints (name)",
]


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    """Make the installed release one with other migrations."""

    def become(migrations: list[Step]) -> None:
        monkeypatch.setattr(sqlite_storage, "MIGRATIONS", migrations)
        monkeypatch.setattr(sqlite_storage, "LATEST", len(migrations))

    return become


async def _open_and_close(data_dir: Path) -> None:
    storage = await SqliteStorage.open(data_dir)
    await storage.close()


async def _write_one(data_dir: Path) -> None:
    storage = await SqliteStorage.open(data_dir)
    await storage.write(lambda tx: put_one(tx, ROOM, '{"n":1}', key="k"))
    await storage.close()


def _schema(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {" ".join(sql.split()) for (sql,) in rows}


def _version(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    connection.close()
    return int(version)


async def test_a_fresh_file_has_the_latest_schema(tmp_path: Path) -> None:
    """A new directory needs no migration afterwards."""
    await _open_and_close(tmp_path)

    assert _version(tmp_path / FILE_NAME) == LATEST
    assert not (tmp_path / f"{FILE_NAME}.v{LATEST}.bak").exists()


async def test_a_migrated_schema_equals_a_fresh_one(tmp_path: Path, release: Release) -> None:
    """From whatever release a file comes, after migration it is as if made today."""
    steps = [*MIGRATIONS, NEXT_STEP]
    release(steps)
    await _open_and_close(tmp_path / "fresh")
    for known in range(1, len(steps)):
        old = tmp_path / f"old-{known}"
        release(steps[:known])
        await _open_and_close(old)
        release(steps)
        await _open_and_close(old)

        assert _schema(tmp_path / "fresh" / FILE_NAME) == _schema(old / FILE_NAME)
        assert len(steps) == _version(old / FILE_NAME)


async def test_migration_keeps_what_was_stored(tmp_path: Path, release: Release) -> None:
    """State, receipts and history read as before after a migration."""
    await _write_one(tmp_path)
    release([*MIGRATIONS, NEXT_STEP])

    storage = await SqliteStorage.open(tmp_path)
    state = await storage.read_state(ROOM)
    receipts = await storage.write(lambda tx: tx.load_receipts([(1, "k")]))
    await storage.close()

    assert (state and state.state, state and state.version) == ('{"n":1}', 1)
    assert list(receipts) == [(1, "k")]


async def test_migration_sums_the_calls_of_models(tmp_path: Path, release: Release) -> None:
    """Days of before are listed like those after."""
    release(MIGRATIONS[:STEPS_BEFORE])
    await _open_and_close(tmp_path)
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        for statement in OLD_USAGE:
            connection.execute(statement)
    connection.close()
    release(MIGRATIONS)

    storage = await SqliteStorage.open(tmp_path)
    days = await storage.sessions.usage_of_days(ROOM, limit=10)
    await storage.close()

    assert days == SUMMED


async def test_an_older_file_is_copied_before_migration(tmp_path: Path, release: Release) -> None:
    """The file as the older release left it lies beside the migrated one."""
    await _write_one(tmp_path)
    before = _schema(tmp_path / FILE_NAME)
    release([*MIGRATIONS, NEXT_STEP])
    await _open_and_close(tmp_path)

    backup = tmp_path / f"{FILE_NAME}.v{LATEST}.bak"
    assert (LATEST, before) == (_version(backup), _schema(backup))
    with sqlite3.connect(backup) as connection:
        states = connection.execute("SELECT state FROM agent_states").fetchall()
    connection.close()
    assert states == [('{"n":1}',)]


async def test_a_failed_migration_changes_nothing(tmp_path: Path, release: Release) -> None:
    """A step that fails takes all steps back; the older release can still open the file."""
    await _write_one(tmp_path)
    before = _schema(tmp_path / FILE_NAME)
    release([*MIGRATIONS, NEXT_STEP, ["CREATE TABLE agents (again)"]])

    with pytest.raises(StorageError, match="already exists"):
        await _open_and_close(tmp_path)

    assert (LATEST, before) == (_version(tmp_path / FILE_NAME), _schema(tmp_path / FILE_NAME))
    release(MIGRATIONS)
    await _open_and_close(tmp_path)


async def test_concurrent_migrations_run_once(tmp_path: Path, release: Release) -> None:
    """Several that open an older file at once migrate it once."""
    await _write_one(tmp_path)
    release([*MIGRATIONS, NEXT_STEP])

    await asyncio.gather(*(_open_and_close(tmp_path) for _ in range(4)))

    assert _version(tmp_path / FILE_NAME) == LATEST + 1


async def test_a_newer_file_is_refused_and_left_alone(tmp_path: Path, release: Release) -> None:
    """A file of a newer release is refused with both versions named."""
    release([*MIGRATIONS, NEXT_STEP])
    await _write_one(tmp_path)
    release(MIGRATIONS)
    before = (tmp_path / FILE_NAME).read_bytes()

    with pytest.raises(StorageSchemaError, match="upgrade") as caught:
        await _open_and_close(tmp_path)

    assert dict(caught.value.details_map) == {"found": LATEST + 1, "known": LATEST}
    assert before == (tmp_path / FILE_NAME).read_bytes()


@pytest.mark.parametrize("version", [1, 3, LATEST])
async def test_a_file_from_before_the_first_release_is_refused_and_left_alone(
    tmp_path: Path, version: int
) -> None:
    """Its agents' numbers could be given out again, and their own databases have other names."""
    path = tmp_path / FILE_NAME
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE agents (id INTEGER PRIMARY KEY, class_name TEXT NOT NULL)")
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = _schema(path)

    with pytest.raises(StorageSchemaError, match="before the first release"):
        await _open_and_close(tmp_path)

    assert (version, before) == (_version(path), _schema(path))
    assert not path.with_name(f"{FILE_NAME}.v{version}.bak").exists()
