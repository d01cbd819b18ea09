"""`agent-runtime db`: making, checking, backing up and restoring the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, run
from agent_runtime.commands.output import ExitCode, print_json

if TYPE_CHECKING:
    from agent_runtime.config import Settings
    from agent_runtime.json_value import Json

app = typer.Typer(help="Migrate, check, back up and restore the database.", no_args_is_help=True)


@app.command("migrate")
def migrate(as_json: options.AsJson = False, data_dir: options.DataDir = None) -> None:
    """Make the schema or bring it up to date; on SQLite every start does that by itself."""
    facts = run(_migrate(Target(data_dir)))
    text = f"{facts['database']}: schema {facts['before']} -> {facts['schema']}"
    _print(
        facts, text if facts["before"] != facts["schema"] else "the schema is up to date", as_json
    )


@app.command("check")
def check(as_json: options.AsJson = False, data_dir: options.DataDir = None) -> None:
    """Look for damage, a schema that does not fit, and missing rights; exit code 4 if there are."""
    facts = run(_check(Target(data_dir)))
    problems = facts["problems"]
    _print(facts, "\n".join(problems) or f"{facts['database']} is sound", as_json)
    if problems:
        raise typer.Exit(ExitCode.STORAGE)


@app.command("backup")
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="New directory (SQLite) or file (PostgreSQL).")
    ],
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
) -> None:
    """Copy the database, also while workers run."""
    facts = run(_backup(Target(data_dir), target))
    _print(facts, f"{facts['database']} is in {target}", as_json)


@app.command("restore")
def restore(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="What `backup` has made.")],
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
) -> None:
    """Put a copy back where there is no database; workers must not run."""
    facts = run(_restore(Target(data_dir), source))
    _print(facts, f"{facts['database']} is restored", as_json)


def _print(facts: dict[str, Json], text: str, as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print(text)


def _url(settings: Settings) -> str | None:
    from agent_runtime.storage.opening import check_client

    if settings.database_url is not None:
        check_client()
    return settings.plain_database_url


async def _migrate(target: Target) -> dict[str, Json]:
    from agent_runtime.storage.migrations import LATEST

    settings = target.settings()
    url = _url(settings)
    if url is not None:
        from agent_runtime.storage.postgres_migrations import migrate as migrate_postgres

        before = await migrate_postgres(url)
    else:
        from agent_runtime.storage.sqlite_backup import read_version

        before = read_version(settings.data_dir)
        await (await settings.open_storage()).close()
    return {"database": settings.database, "before": before, "schema": LATEST}


async def _check(target: Target) -> dict[str, Json]:
    settings = target.settings()
    url = _url(settings)
    problems: list[str] = []
    if url is not None:
        from agent_runtime.storage.postgres_backup import check_database

        problems = await check_database(url, settings.database_sql_role)
    else:
        from agent_runtime.storage.sqlite_backup import check_files

        check_files(settings.data_dir)
    return {"database": settings.database, "problems": problems}


async def _backup(target: Target, place: Path) -> dict[str, Json]:
    settings = target.settings()
    url = _url(settings)
    if url is not None:
        from agent_runtime.storage.postgres_backup import backup_database

        await backup_database(url, place)
    else:
        from agent_runtime.storage.sqlite_backup import backup_files

        backup_files(settings.data_dir, place)
    return {"database": settings.database, "backup": str(place)}


async def _restore(target: Target, place: Path) -> dict[str, Json]:
    settings = target.settings()
    url = _url(settings)
    if url is not None:
        from agent_runtime.storage.postgres_backup import restore_database

        await restore_database(url, place)
    else:
        from agent_runtime.storage.sqlite_backup import restore_files

        restore_files(place, settings.data_dir)
    return {"database": settings.database, "backup": str(place)}
