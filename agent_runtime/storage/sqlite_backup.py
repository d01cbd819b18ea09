"""Checking, copying and putting back the files of a data directory."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_runtime.errors import ConfigurationError, StorageCorruptError, StorageSchemaError
from agent_runtime.storage.migrations import LATEST
from agent_runtime.storage.sqlite import FILE_NAME
from agent_runtime.storage.sqlite_errors import storage_errors

PRIVATE_FILES = "sql-*.db"


def database_files(data_dir: Path) -> list[Path]:
    """Return the database of all agents and the agents' own, in this order.

    Raises:
        ConfigurationError: There is no database in the directory.
    """
    main = data_dir / FILE_NAME
    if not main.exists():
        raise ConfigurationError(f"there is no database in {data_dir}; name its directory")
    return [main, *sorted(data_dir.glob(PRIVATE_FILES))]


def check_files(data_dir: Path) -> int:
    """Look through every page of every file and return the schema's number.

    Workers may run meanwhile.

    Raises:
        ConfigurationError: There is no database in the directory.
        StorageCorruptError: A file is damaged; names it.
        StorageSchemaError: It is of a newer release.
    """
    files = database_files(data_dir)
    for path in files:
        with _reading(path) as connection:
            [(verdict,), *_] = connection.execute("PRAGMA integrity_check").fetchall()
            broken = connection.execute("PRAGMA foreign_key_check").fetchall()
        if verdict != "ok" or broken:
            reason = verdict if verdict != "ok" else f"{len(broken)} rows refer to nothing"
            raise StorageCorruptError(f"{path} is damaged: {reason}; restore a backup")
    version = read_version(data_dir)
    if version > LATEST:
        raise StorageSchemaError(
            f"{files[0]} has schema {version}, this release knows {LATEST}; upgrade agent-runtime",
            found=version,
            known=LATEST,
        )
    return version


def read_version(data_dir: Path) -> int:
    """Return the number of a database's schema, 0 if there is no database."""
    path = data_dir / FILE_NAME
    if not path.exists():
        return 0
    with _reading(path) as connection:
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    return int(version)


def backup_files(data_dir: Path, target: Path) -> int:
    """Copy all files into a new directory, also while workers run, and return how many there are.

    The database of all agents comes first: a statement of an agent that is in its own file and not
    noted as finished is not repeated, the other way round it would be lost.

    Raises:
        ConfigurationError: The target exists, or there is no database.
        StorageError: A file cannot be read or written, or is damaged.
    """
    files = database_files(data_dir)
    _refuse_existing(target)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    draft.mkdir(parents=True)
    try:
        for path in files:
            with _reading(path) as connection:
                connection.execute("VACUUM INTO ?", (str(draft / path.name),))
        check_files(draft)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return len(files)


def restore_files(source: Path, data_dir: Path) -> int:
    """Copy a backup into a data directory that has no database, and return how many files it has.

    Raises:
        ConfigurationError: There is no backup, or the directory has a database.
        StorageError: The backup is damaged or of a newer release, or cannot be copied.
    """
    check_files(source)
    files = database_files(source)
    there = [data_dir / FILE_NAME, *data_dir.glob(PRIVATE_FILES)]
    for path in there:
        if path.exists():
            raise ConfigurationError(
                f"{path} is in the way; stop all workers and move the old databases away first"
            )
    data_dir.mkdir(parents=True, exist_ok=True)
    # The main file last: a worker that finds it finds all.
    for path in reversed(files):
        draft = data_dir / f".{path.name}.{uuid.uuid4().hex}"
        shutil.copyfile(path, draft)
        draft.rename(data_dir / path.name)
    return len(files)


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    with storage_errors(str(path)):
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        try:
            yield connection
        finally:
            connection.close()


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise ConfigurationError(f"{target} exists; name a directory that does not")
