"""One turn at a time for each conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

from agent_runtime.errors import InvalidRequestError

_own: ContextVar[frozenset[tuple[int, str]]] = ContextVar(
    "agent_runtime_own_turns", default=frozenset()
)


class SessionTurns:
    """The turns of one agent's conversations; those of one conversation queue, first come first."""

    def __init__(self) -> None:
        # A lock lives as long as somebody has it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Pairs: who has the first one's turn waits for the second one's.
        self._waits: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def turn(self, session_id: str) -> AsyncIterator[None]:
        """Wait for the conversation's turn and keep it for the block.

        Raises:
            InvalidRequestError: The code runs within a turn of it, or of one that it waits for, and
                would wait for itself.
        """
        held = {own for turns, own in _own.get() if turns == id(self)}
        if self._waits_for(session_id, held):
            raise InvalidRequestError(
                f"a turn of session {session_id!r:.80} was asked for by a tool of that turn or of "
                "one that it waits for, which would wait for itself; use another session",
                session_id=session_id,
            )
        lock = self._locks.get(session_id)
        if lock is None:
            lock = self._locks[session_id] = asyncio.Lock()
        waits = {(own, session_id) for own in held}
        self._waits |= waits
        try:
            await lock.acquire()
        finally:
            self._waits -= waits
        token = _own.set(_own.get() | {(id(self), session_id)})
        try:
            yield
        finally:
            _own.reset(token)
            lock.release()

    def _waits_for(self, session_id: str, held: set[str]) -> bool:
        """Tell whether a turn is one of these, or waits for one, perhaps through others."""
        seen, found = set[str](), {session_id}
        while found - seen:
            seen |= found
            found = {wanted for own, wanted in self._waits if own in seen}
        return bool(seen & held)
