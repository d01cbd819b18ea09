"""Settings and fixtures of all tiers: a real Temporal server, runtimes on folders of their own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from agent_runtime.agent import Agent
from agent_runtime.call import EntityRun
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.postgres_server import PostgresServer
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.runtime import AgentRuntime
from agent_runtime.storage.protocol import Retention
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.postgres_databases import PostgresDatabases

# A busy machine is slow now and then; that is nothing about the code.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.fixture(scope="session")
async def temporal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TemporalServer]:
    """One real development server for the whole run."""
    async with TemporalServer(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture(scope="session")
async def postgres(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[PostgresDatabases]:
    """One real PostgreSQL server for the whole run."""
    folder = tmp_path_factory.mktemp("postgres")
    settings = {"deadlock_timeout": "50ms"}
    async with PostgresServer(folder, is_durable=False, settings=settings) as server:
        yield PostgresDatabases(server)


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    """A fresh storage on a real file."""
    opened = await SqliteStorage.open(tmp_path / "data")
    yield opened
    await opened.close()


@dataclass
class Served:
    """A running worker and a client of it, both in this process."""

    runtime: AgentRuntime
    client: AgentClient
    data_dir: Path
    task_queue: str
    address: str


Serve = Callable[..., AbstractAsyncContextManager[Served]]


@pytest.fixture
def serve(temporal: TemporalServer, tmp_path: Path) -> Serve:
    """Start a worker for agent classes: `async with serve(GameAgent) as served:`.

    Keyword arguments: `entity` (limits of entity runs), `retention`, `task_queue` (to come back to
    the same agents), `has_storage=False` (a client that reaches Temporal only).
    """

    @asynccontextmanager
    async def start(
        *agents: type[Agent[Any]],
        entity: EntityRun | None = None,
        retention: Retention | None = None,
        task_queue: str | None = None,
        has_storage: bool = True,
    ) -> AsyncIterator[Served]:
        queue = task_queue or f"test-{uuid4().hex[:12]}"
        data_dir = tmp_path / "data"
        async with contextlib.AsyncExitStack() as stack:
            runtime = await stack.enter_async_context(
                await AgentRuntime.start(
                    agents,
                    data_dir=data_dir,
                    address=temporal.address,
                    task_queue=queue,
                    retention=retention,
                )
            )
            client = await stack.enter_async_context(
                await AgentClient.connect(
                    temporal.address,
                    storage=runtime.storage if has_storage else None,
                    task_queue=queue,
                    entity=entity,
                )
            )
            yield Served(runtime, client, data_dir, queue, temporal.address)

    return start
