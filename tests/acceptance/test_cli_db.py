"""`agent-runtime db` on both databases."""

from __future__ import annotations

from pathlib import Path

from agent_runtime.storage.migrations import LATEST
from agent_runtime.storage.sqlite import FILE_NAME, SqliteStorage
from agent_runtime.testing.storage_bench import ROOM, put_one
from tests.support.postgres_databases import PostgresDatabases
from tests.support.program import Ran, run_program


async def _db(*arguments: str, cwd: Path, url: str = "") -> Ran:
    variables = {"AGENT_RUNTIME_DATABASE_URL": url} if url else {}
    return await run_program("db", *arguments, cwd=cwd, variables=variables)


async def test_a_data_directory_is_saved_and_put_back(tmp_path: Path) -> None:
    """migrate, check, backup, restore, and the refusal to restore over a database."""
    ran = await _db("migrate", "--json", cwd=tmp_path)
    assert ran.json == {"database": ".agent-runtime", "before": 0, "schema": LATEST}
    storage = await SqliteStorage.open(tmp_path / ".agent-runtime")
    await storage.write(lambda tx: put_one(tx, ROOM, "1"))
    await storage.close()

    assert (await _db("check", cwd=tmp_path)).out == ".agent-runtime is sound\n"
    assert (await _db("backup", "copy", cwd=tmp_path)).code == 0
    ran = await _db("restore", "copy", "--data-dir", "new", cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "new is restored\n")
    assert (tmp_path / "new" / FILE_NAME).read_bytes() == (
        tmp_path / "copy" / FILE_NAME
    ).read_bytes()
    again = await _db("restore", "copy", "--data-dir", "new", cwd=tmp_path)
    assert (again.code, again.out) == (2, "")
    assert "is in the way" in again.err


async def test_damage_is_an_exit_code(tmp_path: Path) -> None:
    """A damaged file is code 4 with the reason on stderr, a missing one is code 2."""
    assert (await _db("check", cwd=tmp_path)).code == 2
    (tmp_path / ".agent-runtime").mkdir()
    (tmp_path / ".agent-runtime" / FILE_NAME).write_bytes(b"no database" * 1_000)

    ran = await _db("check", cwd=tmp_path)

    assert ran.code == 4
    assert "StorageCorruptError" in ran.err


async def test_a_postgres_database_is_made_saved_and_put_back(
    tmp_path: Path, postgres: PostgresDatabases
) -> None:
    """The same commands with a URL; check says what is missing and never shows a password."""
    url = (await postgres.empty()).replace("postgres@", "postgres:hunter2@")
    refused = await _db("check", cwd=tmp_path, url=url)
    assert (refused.code, refused.out) == (4, "")
    assert "agent-runtime db migrate" in refused.err and "hunter2" not in refused.err

    ran = await _db("migrate", "--json", cwd=tmp_path, url=url)
    assert (ran.json["before"], ran.json["schema"]) == (0, LATEST)
    assert "hunter2" not in ran.out
    again = await _db("migrate", cwd=tmp_path, url=url)
    assert again.out == "the schema is up to date\n"
    checked = await _db("check", "--json", cwd=tmp_path, url=url)
    assert checked.code == 4  # this server forgets commits in a crash of the machine
    assert checked.json["problems"] == ["fsync or synchronous_commit is off: commits can be lost"]
    assert (await _db("backup", "dump", cwd=tmp_path, url=url)).code == 0
    restored = await _db("restore", "dump", cwd=tmp_path, url=await postgres.empty())
    assert restored.code == 0, restored.err
