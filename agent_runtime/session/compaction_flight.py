"""One compaction at a time for a session, whichever of its objects asks (contract 9.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary, WeakValueDictionary

from agent_runtime.errors import SessionSetupError
from agent_runtime.session.session_provider import SessionProvider
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.storage.session_protocol import SessionReads, SessionRef


class CompactionFlight:
    """The turns of a session's compactions, in the order they were asked for."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a compaction has its turn."""
        return self._lock.locked()

    def check_may_wait(self) -> None:
        """Refuse to wait for a turn that the running task has.

        Raises:
            SessionSetupError: It would wait for itself.
        """
        if self._holder is not None and self._holder is asyncio.current_task():
            raise SessionSetupError(
                "the session is being compacted by the code that asks for it; a compaction "
                "function cannot call compact()"
            )

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and keep it for the block."""
        async with self._lock:
            self._holder = asyncio.current_task()
            try:
                yield
            finally:
                self._holder = None


_stored: WeakKeyDictionary[SessionReads, WeakValueDictionary[SessionRef, CompactionFlight]] = (
    WeakKeyDictionary()
)
_custom: WeakKeyDictionary[SessionProvider, CompactionFlight] = WeakKeyDictionary()


def flight_of(provider: SessionProvider) -> CompactionFlight:
    """Return the turns of a session, the same for all its objects in this process.

    Sessions of one storage are told apart by owner and id, those of a message store of one's own by
    the store object; one that cannot be kept weakly has turns of each session object's own.
    """
    if isinstance(provider, StoredSessionProvider):
        flights = _stored.setdefault(provider.reads, WeakValueDictionary())
        flight = flights.get(provider.ref)
        if flight is None:
            flight = flights[provider.ref] = CompactionFlight()
        return flight
    try:
        return _custom.setdefault(provider, CompactionFlight())
    except TypeError:
        return CompactionFlight()
