"""SQLite's own: pragmas, several processes, and files that are full, damaged or not writable."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from pathlib import Path

import pytest

from agent_runtime.errors import (
    ConfigurationError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from agent_runtime.storage.sqlite_private import sql_file_name
from agent_runtime.testing.storage_bench import OTHER, ROOM, put_one

BIG = '"' + "x" * 300_000 + '"'


async def _run_process(data_dir: Path, name: str, count: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.write_rows", str(data_dir), name, str(count)),
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, error) == (0, b"")


async def _pragma(storage: SqliteStorage, text: str) -> int:
    [(value,)] = await storage._connection.execute_fetchall(f"PRAGMA {text}")
    return int(value)


async def _fill_up(storage: SqliteStorage) -> None:
    """Let the database file not grow any more, as on a full disk."""
    pages = await _pragma(storage, "page_count")
    await _pragma(storage, f"max_page_count = {pages}")


async def test_commits_are_synced_to_a_write_ahead_log(storage: SqliteStorage) -> None:
    """Every connection keeps a write-ahead log and syncs at each commit."""
    for connection in (storage._connection, *storage._readers.connections):
        [(journal,)] = await connection.execute_fetchall("PRAGMA journal_mode")
        [(synchronous,)] = await connection.execute_fetchall("PRAGMA synchronous")
        assert (journal, synchronous) == ("wal", 2)


async def test_private_databases_are_synced_too(storage: SqliteStorage) -> None:
    """The agents' own files have the same safety."""
    [journal] = await _sql(storage, ROOM, "PRAGMA journal_mode")
    [synchronous] = await _sql(storage, ROOM, "PRAGMA synchronous")

    assert (journal, synchronous) == ({"journal_mode": "wal"}, {"synchronous": 2})


async def test_readers_cannot_write(storage: SqliteStorage) -> None:
    """Nothing can be written past the one writer."""
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await storage._readers.connections[0].execute_fetchall("DELETE FROM agents")


async def test_two_processes_write_the_same_directory(tmp_path: Path) -> None:
    """Processes that write at the same time wait for each other; every write lands once."""
    own = await SqliteStorage.open(tmp_path)
    try:
        processes = [_run_process(tmp_path, name, 60) for name in ("p", "q")]
        mine = [own.write(lambda tx, n=n: put_one(tx, ROOM, str(n))) for n in range(60)]  # type: ignore[misc]
        await asyncio.gather(*processes, *mine)
        versions = {row.ref.name: row.version for row in await own.list_agents()}
    finally:
        await own.close()

    assert versions == {"a": 60, "p": 60, "q": 60}


async def test_concurrent_first_opens_all_succeed(tmp_path: Path) -> None:
    """Processes and tasks that open a new directory at once make one schema."""
    opened = await asyncio.gather(
        *(SqliteStorage.open(tmp_path) for _ in range(4)),
        *(_run_process(tmp_path, f"p{number}", 2) for number in range(3)),
    )
    storages = [storage for storage in opened if storage is not None]
    try:
        assert [len(await storage.list_agents()) for storage in storages] == [3] * 4
    finally:
        for storage in storages:
            await storage.close()


async def test_all_files_lie_directly_in_the_data_directory(
    storage: SqliteStorage, tmp_path: Path
) -> None:
    """However an agent is called, its file is in the data directory, and no two share one."""
    names = ["../../evil", "/abs/path", "a/b", "CON", "room-1", "Room-1", "x" * 300, "ключ", ".."]
    for name in names:
        await _sql(storage, AgentRef("Room", name), "CREATE TABLE t (x)")

    found = {path.relative_to(tmp_path / "data") for path in (tmp_path / "data").rglob("*.db")}

    expected = {
        sql_file_name(AgentRef("Room", name), number) for number, name in enumerate(names, 1)
    }
    assert expected | {FILE_NAME} == {str(path) for path in found}
    assert len(expected) == len({name.lower() for name in expected}) == len(names)


async def test_a_private_file_names_its_agent(storage: SqliteStorage) -> None:
    """Who finds a file can read in it which agent it belongs to."""
    ref = AgentRef("Room", "ключ/../1")

    rows = await _sql(storage, ref, "SELECT * FROM _agent_runtime_owner")

    assert rows == [{"class_name": "Room", "name": "ключ/../1"}]


async def test_a_full_disk_refuses_and_stores_nothing_half(storage: SqliteStorage) -> None:
    """Without space a write fails as such, nothing of it is there, and reading goes on."""
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    await _fill_up(storage)

    async def small_and_big(tx: object) -> None:
        await put_one(tx, ROOM, "2")  # type: ignore[arg-type]
        await put_one(tx, OTHER, BIG)  # type: ignore[arg-type]

    with pytest.raises(StorageFullError, match="no space left"):
        await storage.write(small_and_big)

    state = await storage.read_state(ROOM)
    assert (state and state.version, state and state.state, await _other(storage)) == (1, "1", None)


async def test_a_full_disk_is_told_to_all_who_committed_together(storage: SqliteStorage) -> None:
    """Units that shared the failed transaction all learn that the disk is full."""
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    await _fill_up(storage)

    results = await asyncio.gather(
        storage.write(lambda tx: put_one(tx, ROOM, "2")),
        storage.write(lambda tx: put_one(tx, OTHER, BIG)),
        storage.write(lambda tx: put_one(tx, ROOM, "3")),
        storage.write(lambda tx: put_one(tx, OTHER, BIG)),
        return_exceptions=True,
    )

    for result in results:
        assert isinstance(result, StorageFullError | int), repr(result)
    state = await storage.read_state(ROOM)
    kept = [result for result in results if isinstance(result, int)]
    assert 1 + len(kept) == (state and state.version)
    assert None is await _other(storage)


async def test_writing_goes_on_when_space_returns(storage: SqliteStorage) -> None:
    """After a full disk the same storage writes again, without being opened anew."""
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    await _fill_up(storage)
    with pytest.raises(StorageFullError):
        await storage.write(lambda tx: put_one(tx, ROOM, BIG))
    await _pragma(storage, "max_page_count = 1000000")

    assert await storage.write(lambda tx: put_one(tx, ROOM, BIG)) == 2


async def test_a_read_only_database_says_so(storage: SqliteStorage) -> None:
    """A database that cannot be written is a typed, final error; reading goes on."""
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    await storage._connection.execute_fetchall("PRAGMA query_only = ON")

    with pytest.raises(StorageReadOnlyError, match="cannot be written"):
        await storage.write(lambda tx: put_one(tx, ROOM, "2"))

    state = await storage.read_state(ROOM)
    assert (state and state.state) == "1"


@pytest.mark.parametrize("content", [b"not a database, but long enough" * 100, b"x" * 20])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, content: bytes) -> None:
    """Another file in the database's place is named as damaged, and left as it was."""
    path = tmp_path / FILE_NAME
    path.write_bytes(content)

    with pytest.raises(StorageCorruptError, match=FILE_NAME):
        await SqliteStorage.open(tmp_path)

    assert content == path.read_bytes()


async def test_a_damaged_page_is_a_typed_error(tmp_path: Path) -> None:
    """Damage inside the file is `StorageCorruptError` at whoever meets it, never garbage."""
    storage = await SqliteStorage.open(tmp_path)
    for number in range(40):
        await storage.write(lambda tx, n=number: put_one(tx, ROOM, f'"{n:2000}"'))  # type: ignore[misc]
    await storage.close()
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xde\xad\xbe\xef" * ((len(content) - 8192) // 4)
    path.write_bytes(content)

    with pytest.raises(StorageCorruptError, match="damaged"):
        await _use_everything(tmp_path)


async def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file where the data directory should be is a mistake in the configuration."""
    (tmp_path / "file").write_text("x")

    with pytest.raises(ConfigurationError, match="data directory"):
        await SqliteStorage.open(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="data directory"):
        await SqliteStorage.open(tmp_path / "file" / "below")


async def test_a_closed_storage_refuses_everything(tmp_path: Path) -> None:
    """After `close` reads, writes and private SQL are typed errors, not hangs."""
    storage = await SqliteStorage.open(tmp_path)
    await storage.close()

    for work in (
        storage.read_state(ROOM),
        storage.write(lambda tx: put_one(tx, ROOM, "1")),
        storage.sql(ROOM, 1, "SELECT 1", ()),
    ):
        with pytest.raises(StorageError, match="closed"):
            await work


async def _sql(storage: SqliteStorage, ref: AgentRef, query: str) -> list[dict[str, Json]]:
    return await storage.sql(ref, await agent_number(storage, ref), query, ())


async def _other(storage: SqliteStorage) -> object:
    return await storage.read_state(OTHER)


async def _use_everything(data_dir: Path) -> None:
    storage = await SqliteStorage.open(data_dir)
    try:
        await storage.read_history(ROOM, limit=100)
        await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    finally:
        await storage.close()


async def test_what_the_database_says_of_a_refused_statement_is_logged_only(
    storage: SqliteStorage, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names the file, and neither tables nor values."""
    await storage._connection.execute_fetchall(
        "CREATE TRIGGER refuse BEFORE INSERT ON agents BEGIN SELECT RAISE(ABORT, 'secret'); END"
    )

    with pytest.raises(StorageError, match=r"agents.db: .*; the log says why$") as refused:
        await storage.write(lambda tx: put_one(tx, ROOM, "1"))

    assert type(refused.value) is StorageError
    assert "secret" in caplog.text
