"""Connections to PostgreSQL: where to, with which settings, and how they are named in messages."""

from __future__ import annotations

from typing import Any

import asyncpg

from agent_runtime.storage.database_url import place_of
from agent_runtime.storage.postgres_errors import storage_errors
from agent_runtime.storage.postgres_schema import SCHEMA

_CONNECT_SECONDS = 10.0
_COMMAND_SECONDS = 60.0


def _options(*, is_reading: bool = False) -> dict[str, Any]:
    settings = {"application_name": "agent-runtime", "search_path": SCHEMA}
    if is_reading:
        settings["default_transaction_read_only"] = "on"
    return {
        "timeout": _CONNECT_SECONDS,
        "command_timeout": _COMMAND_SECONDS,
        "server_settings": settings,
    }


async def connect(url: str) -> asyncpg.Connection:
    """Open a connection that sees the runtime's tables.

    Raises:
        ConfigurationError: The server refuses role, password or database.
        StorageUnavailableError: Nothing answers there.
    """
    with storage_errors(place_of(url)):
        return await asyncpg.connect(url, **_options())


async def reading_pool(url: str, size: int) -> asyncpg.Pool:
    """Return a pool whose connections cannot write; each is opened when it is needed."""
    return await asyncpg.create_pool(
        url, min_size=0, max_size=size, reset=_keep, **_options(is_reading=True)
    )


async def private_pool(url: str, size: int) -> asyncpg.Pool:
    """Return a pool whose connections forget what was set on them; each is opened when needed."""
    # Without remembered statements: the same text means other tables in another schema.
    return await asyncpg.create_pool(
        url,
        min_size=0,
        max_size=size,
        reset=_forget,
        statement_cache_size=0,
        **_options(),
    )


async def _keep(connection: asyncpg.Connection) -> None:
    """Leave a connection as it is: reading changes nothing about it, and asking costs a trip."""


async def _forget(connection: asyncpg.Connection) -> None:
    await connection.execute(f"{connection.get_reset_query()}\nDISCARD TEMP;")
