"""Session stores of tests on either engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from agent_runtime.identity import agent_ref
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.message import Message, text_message
from agent_runtime.storage.postgres import PostgresStorage
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.postgres_databases import SQL_ROLE, PostgresDatabases

ENGINES = ("sqlite", "postgres")


@asynccontextmanager
async def open_stores(
    engine: str, directory: Path, postgres: PostgresDatabases, *owners: str
) -> AsyncIterator[list[DirectSessionStore]]:
    """Open a fresh database of an engine, with a store for each owner in it."""
    url = await postgres.migrated() if engine == "postgres" else None
    storage = await _open(directory, url)
    try:
        yield [DirectSessionStore(storage, agent_ref("Sessions", owner)) for owner in owners]
    finally:
        await storage.close()


@asynccontextmanager
async def open_databases(
    engine: str, directory: Path, postgres: PostgresDatabases, count: int
) -> AsyncIterator[list[DirectSessionStore]]:
    """Open a fresh database several times, as several processes would, for one owner."""
    url = await postgres.migrated() if engine == "postgres" else None
    storages = [await _open(directory, url) for _ in range(count)]
    try:
        yield [DirectSessionStore(each, agent_ref("Sessions", "default")) for each in storages]
    finally:
        for storage in storages:
            await storage.close()


async def _open(directory: Path, url: str | None) -> Storage:
    if url is None:
        return await SqliteStorage.open(directory)
    return await PostgresStorage.open(url, sql_role=SQL_ROLE)


def u(message_id: str, text: str | None = None) -> Message:
    """A user's message."""
    return text_message("user", text or f"{message_id} message", id=message_id)


def ids(messages: list[Message]) -> list[str]:
    """The messages' ids."""
    return [message["id"] for message in messages]


def texts(messages: list[Message]) -> list[str]:
    """The messages' texts."""
    return [message["parts"][0]["text"] for message in messages]
