"""The handles of an agent's conversations, put together for a caller with or without the storage.

`AgentHandle` loads this module when it is asked for one: who needs no conversations waits for none
of the code for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import cast

from agent_runtime.call import CompactionRun
from agent_runtime.client.channel import Channel
from agent_runtime.client.remote_session_reads import RemoteSessionReads
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.client.session_page import Ask
from agent_runtime.client.session_read import ReadOnlyStore, RemoteSessionReader, SessionReader
from agent_runtime.client.sessions_handle import Call, SessionsHandle
from agent_runtime.client.sessions_read import (
    RemoteSessionsReader,
    SessionsReader,
    StoredSessionsReader,
)
from agent_runtime.durable_compaction.compaction_start import CompactionControl
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.session_export import export_session
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.storage.session_protocol import SessionReads


class AgentSessions:
    """Makes the handles of one agent's conversations.

    Args:
        call: Runs a method of a conversation, or of their registry, in the agent.
        ask: Reads by the agent's worker, for a process without the storage.
    """

    def __init__(self, channel: Channel, ref: AgentRef, call: Call, ask: Ask) -> None:
        self._channel = channel
        self._ref = ref
        self._call = call
        self._ask = ask

    def session(self, session_id: str) -> SessionHandle:
        """See `AgentHandle.session`."""

        async def call(
            method: str, args: Sequence[Json], key: str | None, timeout: timedelta | None
        ) -> Json:
            return await self._call(method, session_id, args, key, timeout)

        storage = self._channel.storage
        reader: SessionReader
        if storage is not None:
            store = ReadOnlyStore(storage.sessions, self._ref)
            reader = StoredSessionProvider(store, session_id)
        else:
            reader = RemoteSessionReader(self._ask, session_id)
        control = CompactionControl(self._channel, CompactionRun(*self._ref, session_id))
        return SessionHandle(call, reader, session_id, control)

    def registry(self) -> SessionsHandle:
        """See `AgentHandle.sessions`."""
        storage = self._channel.storage
        reader: SessionsReader
        if storage is not None:
            reads = storage.sessions
            reader = StoredSessionsReader(reads, self._ref)
        else:
            # An export asks for no more than it has.
            reads = cast(SessionReads, RemoteSessionReads(self._ask))
            reader = RemoteSessionsReader(self._ask)
        store = ReadOnlyStore(reads, self._ref)
        return SessionsHandle(self._call, reader, partial(export_session, store))
