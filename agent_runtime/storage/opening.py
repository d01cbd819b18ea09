"""Opening whichever storage an installation has."""

from __future__ import annotations

import importlib.util
import os

from agent_runtime.errors import ConfigurationError
from agent_runtime.storage.protocol import Storage


async def open_storage(
    data_dir: str | os.PathLike[str] | None,
    database_url: str | None = None,
    *,
    sql_role: str | None = None,
) -> Storage:
    """Open the PostgreSQL database if one is named, else the data directory's SQLite file.

    Args:
        data_dir: Made if it is missing.
        database_url: `postgresql://user:password@host:port/database`.
        sql_role: On PostgreSQL, whose rights the agents' own SQL has.

    Raises:
        ConfigurationError: Neither is named, the address is none, or the client for PostgreSQL is
            not installed.
        StorageError: The database cannot be used; says why.
    """
    if database_url is not None:
        check_client()
        from agent_runtime.storage.postgres import PostgresStorage

        return await PostgresStorage.open(database_url, sql_role=sql_role)
    if data_dir is None:
        raise ConfigurationError("no storage: name data_dir or database_url")
    from agent_runtime.storage.sqlite import SqliteStorage

    return await SqliteStorage.open(data_dir)


def check_client() -> None:
    """Refuse to go on without the package that speaks to PostgreSQL.

    Raises:
        ConfigurationError: Says how to install it.
    """
    if importlib.util.find_spec("asyncpg") is None:
        raise ConfigurationError(
            "PostgreSQL needs a package that is missing: "
            'pip install "temporal-agent-runtime[postgres]"'
        )
