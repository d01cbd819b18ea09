"""Fixtures of the integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import psycopg
import psycopg_pool
import pytest

from agent_runtime.identity import agent_ref
from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.postgres_connection import PostgresConnection
from agent_runtime.storage.postgres import PostgresStorage
from tests.support.postgres_clients import BlockingClient, DriverClient, MinimalConnection
from tests.support.postgres_databases import PostgresDatabases


@pytest.fixture(scope="session")
async def postgres_storage(postgres: PostgresDatabases) -> AsyncIterator[PostgresStorage]:
    """One migrated database for all tests that keep to an owner of their own."""
    storage = await PostgresStorage.open(await postgres.migrated())
    yield storage
    await storage.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def session_store(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_storage: PostgresStorage
) -> AsyncIterator[DirectSessionStore]:
    """The conversations of a new owner, once on each engine."""
    if request.param == "postgres":
        yield DirectSessionStore(postgres_storage, agent_ref("Sessions", uuid4().hex))
        return
    async with await open_session_store(tmp_path / "sessions") as store:
        yield store


@pytest.fixture(scope="session")
async def postgres_url(postgres: PostgresDatabases) -> str:
    """A database with the schema, for the role of the docs, for tests with owners of their own."""
    return await postgres.migrated()


@pytest.fixture(
    params=["asyncpg", "pool", "psycopg", "psycopg-pool", "driver", "minimal", "blocking"]
)
async def user_connection(
    request: pytest.FixtureRequest, postgres_url: str
) -> AsyncIterator[PostgresConnection]:
    """A user's connection of each kind; unqualified names mean nothing of the runtime's."""
    if request.param == "blocking":
        blocking = BlockingClient(postgres_url)
        yield blocking
        blocking.close()
    elif request.param == "pool":
        async with asyncpg.create_pool(postgres_url, min_size=0, max_size=3) as pool:
            yield pool
    elif request.param == "psycopg":
        async with await psycopg.AsyncConnection.connect(postgres_url) as connection:
            yield connection
    elif request.param == "psycopg-pool":
        async with psycopg_pool.AsyncConnectionPool(
            postgres_url, min_size=1, max_size=3, kwargs={"autocommit": True}
        ) as connections:
            yield connections
    else:
        opened = await asyncpg.connect(postgres_url)
        if request.param == "driver":
            yield DriverClient(opened)
        elif request.param == "minimal":
            yield MinimalConnection(opened)
        else:
            yield opened
        await opened.close()


@pytest.fixture
async def plain_connection(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """One connection of asyncpg's."""
    opened = await asyncpg.connect(postgres_url)
    yield opened
    await opened.close()


@pytest.fixture
def owner() -> str:
    """An owner of conversations that no other test has."""
    return uuid4().hex
