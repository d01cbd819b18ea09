"""How session commands reach conversations: past Temporal if the database is here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agent_runtime.commands.access import Target, open_client, open_storage

if TYPE_CHECKING:
    from agent_runtime.client.handle import AgentHandle
    from agent_runtime.client.session_handle import SessionHandle
    from agent_runtime.client.sessions_handle import SessionsHandle
    from agent_runtime.identity import AgentRef
    from agent_runtime.json_value import Json
    from agent_runtime.storage.protocol import Storage


class Conversations(Protocol):
    """An agent's conversations; an `AgentHandle` is one."""

    def session(self, session_id: str = "") -> SessionHandle:
        """Return one of them."""

    def sessions(self) -> SessionsHandle:
        """Return their registry."""


class StoredConversations:
    """Conversations that are read from the storage, and not changed."""

    def __init__(self, storage: Storage, ref: AgentRef) -> None:
        self._storage = storage
        self._ref = ref

    def session(self, session_id: str = "") -> SessionHandle:
        """See `Conversations.session`."""
        from agent_runtime.client.session_handle import SessionHandle
        from agent_runtime.client.session_read import ReadOnlyStore
        from agent_runtime.session.stored_session import StoredSessionProvider

        store = ReadOnlyStore(self._storage.sessions, self._ref)
        return SessionHandle(_refuse, StoredSessionProvider(store, session_id), session_id)

    def sessions(self) -> SessionsHandle:
        """See `Conversations.sessions`."""
        from agent_runtime.client.session_read import ReadOnlyStore
        from agent_runtime.client.sessions_handle import SessionsHandle
        from agent_runtime.client.sessions_read import StoredSessionsReader
        from agent_runtime.session.session_export import export_session

        reads = self._storage.sessions
        export = partial(export_session, ReadOnlyStore(reads, self._ref))
        return SessionsHandle(_refuse_any, StoredSessionsReader(reads, self._ref), export)


@asynccontextmanager
async def open_to_read(target: Target, ref: AgentRef) -> AsyncIterator[Conversations]:
    """Reach an agent's conversations as `state get` reaches its state."""
    async with open_storage(target) as storage:
        if storage is not None:
            yield StoredConversations(storage, ref)
            return
    async with open_client(target) as client:
        yield client.agent(*ref)


@asynccontextmanager
async def open_to_change(target: Target, ref: AgentRef) -> AsyncIterator[AgentHandle]:
    """Reach an agent's conversations through Temporal."""
    async with open_client(target) as client:
        yield client.agent(*ref)


async def _refuse(
    method: str, args: Sequence[Json], key: str | None, timeout: timedelta | None
) -> Json:
    from agent_runtime.errors import InternalError

    raise InternalError(f"{method} changes a conversation that was opened to be read")


async def _refuse_any(
    method: str, session_id: str, args: Sequence[Json], key: str | None, timeout: timedelta | None
) -> Json:
    return await _refuse(method, args, key, timeout)
