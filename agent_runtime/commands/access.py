"""How commands reach agents: past Temporal if the database is here, through it otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from agent_runtime.client.agent_client import AgentClient
    from agent_runtime.config import Settings
    from agent_runtime.storage.protocol import Storage

T = TypeVar("T")


def run(command: Coroutine[Any, Any, T]) -> T:
    """Run a short command to its end; a call to Temporal that it gave up leaves no noise."""

    async def quietly() -> T:
        asyncio.get_running_loop().set_exception_handler(_report)
        return await command

    return asyncio.run(quietly())


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A cancelled call of the SDK ends as a future that nobody asks: no news for anybody.
    if not isinstance(context.get("exception"), asyncio.CancelledError):
        loop.default_exception_handler(context)


@dataclass(frozen=True)
class Target:
    """What the shared options say; None where they say nothing."""

    data_dir: Path | None = None
    address: str | None = None
    namespace: str | None = None
    task_queue: str | None = None
    timeout_seconds: float | None = None

    def settings(self) -> Settings:
        """Return the settings with these options on top.

        Raises:
            ConfigurationError: A variable or an option is wrong.
        """
        from agent_runtime.config import load_settings

        return load_settings(
            data_dir=self.data_dir,
            task_queue=self.task_queue,
            call_timeout_seconds=self.timeout_seconds,
        )


@asynccontextmanager
async def open_client(target: Target) -> AsyncIterator[AgentClient]:
    """Connect through Temporal.

    Raises:
        TemporalUnreachableError: Nothing answers there.
    """
    from agent_runtime.client.agent_client import AgentClient

    settings = target.settings()
    async with await AgentClient.connect(
        target.address,
        target.namespace,
        task_queue=settings.task_queue,
        timeout=settings.call_timeout,
        entity=settings.entity_run(),
    ) as client:
        yield client


@asynccontextmanager
async def open_storage(target: Target) -> AsyncIterator[Storage | None]:
    """Open the PostgreSQL database of the settings, else that of the data directory, or neither.

    None too if the options name a Temporal server and no directory: then that server is meant, not
    what happens to lie in the current folder.

    Raises:
        ConfigurationError: A data directory was named and is no directory.
        StorageError: There is a database, and it cannot be used.
    """
    settings = target.settings()
    if settings.database_url is not None:
        is_here = True
    elif target.address is not None and target.data_dir is None:
        is_here = False
    else:
        is_here = _has_file(settings.data_dir)
    if not is_here:
        yield None
        return
    storage = await settings.open_storage()
    try:
        yield storage
    finally:
        await storage.close()


def _has_file(data_dir: Path) -> bool:
    from agent_runtime.errors import ConfigurationError, StorageReadOnlyError
    from agent_runtime.storage.sqlite import FILE_NAME

    try:
        if data_dir.exists() and not data_dir.is_dir():
            raise ConfigurationError(f"{data_dir} is a file; name a directory with --data-dir")
        return (data_dir / FILE_NAME).exists()
    except PermissionError as error:
        raise StorageReadOnlyError(
            f"{error.filename} cannot be entered; check its owner and mode"
        ) from error
