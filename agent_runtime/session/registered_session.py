"""What a manager's sessions are made over: a store that keeps their records' times true (19.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.compaction_jobs import CompactionJobs
from agent_runtime.session.session_events import Broadcast
from agent_runtime.session.session_setup import SessionSetup, SessionSource, store_of
from agent_runtime.session.session_store import SessionStore, SessionUnit, session_ref
from agent_runtime.storage.session_protocol import SessionReads, SessionWrites

T = TypeVar("T")

_MESSAGE_CHANGES = frozenset(
    {"append_message", "update_message", "upsert_message", "delete_messages", "clear_messages"}
)


class RegisteredSession:
    """The owner of one session that a manager made.

    Args:
        source: The manager's owner or store; what an owner does for its sessions, such as telling
            clients of their status, it does for this one.
    """

    def __init__(self, source: SessionSource, session_id: str) -> None:
        setup = SessionSetup(source)
        self.broadcast: Broadcast | None = setup.broadcast()
        self.session_compaction_jobs: CompactionJobs | None = setup.compaction_jobs()
        self._store = TouchingStore(source, session_id)

    @property
    def session_store(self) -> SessionStore:
        """Where the session is."""
        return self._store


class TouchingStore:
    """Notes each change of a session's messages in its record, in the same transaction.

    The owner is asked for its store each time: an agent has one while a handler of it runs only.
    """

    def __init__(self, source: SessionSource, session_id: str) -> None:
        self._source = source
        self._session_id = session_id

    @property
    def agent(self) -> AgentRef:
        """See `SessionStore.agent`."""
        return self._inner.agent

    @property
    def reads(self) -> SessionReads:
        """See `SessionStore.reads`."""
        return self._inner.reads

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """See `SessionStore.write`."""
        inner = self._inner
        ref = session_ref(inner, self._session_id)

        async def touching(sessions: SessionWrites) -> Json:
            result = await unit(sessions)
            if result is not False:
                await sessions.registry.touch_record(ref)
            return result

        chosen = touching if kind in _MESSAGE_CHANGES else unit
        return await inner.write(kind, payload, chosen, is_derived=is_derived)

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """See `SessionStore.once`."""
        return await self._inner.once(kind, payload, run, recall)

    @property
    def _inner(self) -> SessionStore:
        store = store_of(self._source)
        # A manager is made over an owner or store only.
        assert store is not None
        return store
