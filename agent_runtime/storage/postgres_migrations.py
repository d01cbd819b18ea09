"""The schema on PostgreSQL: made and brought up to date by one command, only checked by others."""

from __future__ import annotations

import asyncpg

from agent_runtime.storage.database_url import place_of
from agent_runtime.storage.migrations import LATEST, MIGRATIONS, step_statements
from agent_runtime.storage.postgres_connection import connect
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_schema import SCHEMA, check_version, refuse_newer

# "agents" as a number: others in the database have other first keys.
LOCK_SPACE = 0x6167_6E74
_MIGRATION_LOCK = 0

_LOCK = "SELECT pg_advisory_lock($1, $2)"
_MAKE_SCHEMA = f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
_MAKE_VERSION = "CREATE TABLE schema_version (version INTEGER NOT NULL)"
_HAS_SCHEMA = "SELECT to_regnamespace($1) IS NOT NULL"
_HAS_VERSION = "SELECT to_regclass('schema_version') IS NOT NULL"
_READ_VERSION = "SELECT version FROM schema_version"
_FIRST_VERSION = "INSERT INTO schema_version VALUES ($1)"
_PUT_VERSION = "UPDATE schema_version SET version = $1"


async def schema_version(connection: asyncpg.Connection) -> int:
    """Return the schema's number, 0 if there is none."""
    if not await connection.fetchval(_HAS_VERSION):
        return 0
    return int(await connection.fetchval(_READ_VERSION))


async def check_schema(connection: asyncpg.Connection, place: str) -> None:
    """Refuse a database whose schema is not this release's.

    Raises:
        StorageSchemaError: It is older, missing or newer; says what to do.
    """
    check_version(await schema_version(connection), place)


async def migrate(url: str) -> int:
    """Make the schema, or bring it up to date in one transaction; return what it was before.

    Any number of processes may do so at once: one does it, the others wait and find it done.
    The role must own the schema, or may create it.

    Raises:
        StorageSchemaError: The database is of a newer release.
        StorageError: The server refused.
    """
    place = place_of(url)
    connection = await connect(url)
    try:
        with storage_errors(place):
            await connection.execute(_LOCK, LOCK_SPACE, _MIGRATION_LOCK)
            async with connection.transaction():
                if not await connection.fetchval(_HAS_SCHEMA, SCHEMA):
                    await connection.execute(_MAKE_SCHEMA)
                version = await schema_version(connection)
                refuse_newer(version, place)
                if not await connection.fetchval(_HAS_VERSION):
                    await connection.execute(_MAKE_VERSION)
                    await connection.execute(_FIRST_VERSION, 0)
                for step in MIGRATIONS[version:]:
                    for statement in step_statements(step, "postgres"):
                        await connection.execute(statement)
                await connection.execute(_PUT_VERSION, LATEST)
            return version
    finally:
        await connection.close()
