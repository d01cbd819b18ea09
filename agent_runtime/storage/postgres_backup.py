"""Checking, dumping and restoring a PostgreSQL database; the latter two with its own programs."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from agent_runtime.errors import ConfigurationError, StorageError
from agent_runtime.local.postgres_server import find_binaries
from agent_runtime.storage.database_url import place_of
from agent_runtime.storage.postgres_connection import connect
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_migrations import check_schema, schema_version
from agent_runtime.storage.postgres_schema import SCHEMA

MIN_SERVER = 15
AGENTS_SCHEMAS = "agent_*_*"

_MISSING_RIGHTS = """
SELECT c.relname FROM pg_class c
WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r'
    AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
        AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
ORDER BY c.relname"""
_MAY_MAKE_SCHEMAS = "SELECT has_database_privilege(current_database(), 'CREATE')"
_HAS_ROLE = """
SELECT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1 AND pg_has_role(oid, 'MEMBER'))"""
_IS_DURABLE = """
SELECT current_setting('fsync') = 'on' AND current_setting('synchronous_commit') <> 'off'"""


async def check_database(url: str, sql_role: str | None) -> list[str]:
    """Return what a worker with this address would lack, nothing if all is well.

    Raises:
        StorageSchemaError: The schema is not this release's.
        StorageError: The server refuses or does not answer.
    """
    connection = await connect(url)
    try:
        with storage_errors(place_of(url)):
            await check_schema(connection, place_of(url))
            server = connection.get_server_version()
            lacking = [
                f"no rights to read and write the table {name}"
                for (name,) in await connection.fetch(_MISSING_RIGHTS, SCHEMA)
            ]
            if not await connection.fetchval(_MAY_MAKE_SCHEMAS):
                lacking.append("no right to CREATE schemas in the database, for self.sql")
            if sql_role is not None and not await connection.fetchval(_HAS_ROLE, sql_role):
                lacking.append(f"no role {sql_role}, or no membership in it")
            if not await connection.fetchval(_IS_DURABLE):
                lacking.append("fsync or synchronous_commit is off: commits can be lost")
            if server.major < MIN_SERVER:
                lacking.append(f"the server is {server.major}; {MIN_SERVER} or newer is needed")
            return lacking
    finally:
        await connection.close()


async def backup_database(url: str, target: Path) -> None:
    """Dump the runtime's schema and the agents' own into a new file, also while workers run.

    Raises:
        ConfigurationError: The file exists, or there is no `pg_dump`.
        StorageError: `pg_dump` failed; holds its reason.
    """
    if await asyncio.to_thread(target.exists):
        raise ConfigurationError(f"{target} exists; name a file that does not")
    draft = target.with_name(f".{target.name}.partial")
    await _run(
        "pg_dump",
        url,
        "--format=custom",
        f"--schema={SCHEMA}",
        f"--schema={AGENTS_SCHEMAS}",
        f"--file={draft}",
    )
    await asyncio.to_thread(draft.rename, target)


async def restore_database(url: str, source: Path) -> None:
    """Restore a dump into a database that has no schema of the runtime; all of it or nothing.

    Raises:
        ConfigurationError: There is no such file, the database has the schema, or there is no
            `pg_restore`.
        StorageError: `pg_restore` failed; holds its reason.
    """
    if not await asyncio.to_thread(source.is_file):
        raise ConfigurationError(f"there is no file {source}")
    connection = await connect(url)
    try:
        with storage_errors(place_of(url)):
            is_there = await schema_version(connection) > 0
    finally:
        await connection.close()
    if is_there:
        raise ConfigurationError(
            f"{place_of(url)} has a schema {SCHEMA}; name a database that has none"
        )
    await _run("pg_restore", url, "--single-transaction", "--exit-on-error", str(source))


async def _run(program: str, url: str, *arguments: str) -> None:
    parts = urlsplit(url)
    # A password among the arguments would show in the list of processes.
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit(parts._replace(netloc=f"{user}@{host}" if user else host))
    process = await asyncio.create_subprocess_exec(
        _find(program),
        f"--dbname={plain}",
        "--no-password",
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **({"PGPASSWORD": unquote(password)} if password else {})},
    )
    _, said = await process.communicate()
    if process.returncode != 0:
        reason = " ".join(said.decode(errors="replace").split())
        raise StorageError(f"{place_of(url)}: {program} failed: {reason}")


def _find(program: str) -> str:
    """Return the program's path: it must not be older than the server."""
    try:
        beside = find_binaries() / program
    except ConfigurationError:
        beside = None
    if beside is not None and beside.exists():
        return str(beside)
    found = shutil.which(program)
    if found is None:
        raise ConfigurationError(
            f"there is no {program} on the path; install PostgreSQL's client programs"
        )
    return found
