"""Conversations in a database of one's own, without agents or Temporal."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.json_value import Json
from agent_runtime.session.session_store import SessionUnit
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.session_protocol import SessionReads
from agent_runtime.storage.sqlite import SqliteStorage

T = TypeVar("T")


class DirectSessionStore:
    """Conversations in a database of one's own, without agents or Temporal.

    Made by `open_session_store`; use it as an async context manager, or call `close`.
    """

    def __init__(self, storage: Storage, agent: AgentRef) -> None:
        self._storage = storage
        self._agent = agent

    @property
    def agent(self) -> AgentRef:
        """See `SessionStore.agent`."""
        return self._agent

    @property
    def reads(self) -> SessionReads:
        """See `SessionStore.reads`."""
        return self._storage.sessions

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """See `SessionStore.write`."""
        return await self._storage.write(lambda tx: unit(tx.sessions))

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """See `SessionStore.once`; nothing is recorded, so it is run."""
        return await run()

    async def close(self) -> None:
        """Finish what has begun and close the database."""
        await self._storage.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def open_session_store(
    directory: str | os.PathLike[str], *, owner: str = "default"
) -> DirectSessionStore:
    """Open conversations in an SQLite file, made if it is missing.

    Args:
        directory: Where the file is; several processes on one host may share it.
        owner: Whose conversations: owners in one directory never see each other's.

    Raises:
        StorageError: The directory or file cannot be used.
        InvalidAgentError: The owner's name is empty or too long.
    """
    agent = agent_ref("Sessions", owner)
    return DirectSessionStore(await SqliteStorage.open(directory), agent)
