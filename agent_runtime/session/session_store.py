"""Where one owner keeps its conversations: its part of a database, and how it writes there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from agent_runtime.errors import SessionSetupError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.given_text import MAX_ID_BYTES, is_storable_id
from agent_runtime.storage.session_protocol import SessionReads, SessionRef, SessionWrites

T = TypeVar("T")

MAX_SESSION_ID = 1_000

SessionUnit = Callable[[SessionWrites], Awaitable[Json]]
"""Work within one transaction; its result is JSON, so that it can be recorded."""


class SessionStore(Protocol):
    """One owner's conversations in a database.

    An agent's store records each write in the journal of the handler that makes it, so a repeated
    handler writes nothing twice; one opened by `open_session_store` writes at once.
    """

    @property
    def agent(self) -> AgentRef:
        """The owner's address; nothing is ever read or written outside of it."""

    @property
    def reads(self) -> SessionReads:
        """What is stored."""

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """Run a unit of work in one transaction and return its result once it is on disk.

        Within `once` it is what that does once; a result of False says that it was not done.

        Args:
            kind: Names the work in errors.
            payload: With `kind`, tells one piece of work from another.
            is_derived: It writes what follows from other things stored, whenever that is needed.
        """

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """Run an operation whose first write must not be repeated.

        Args:
            payload: What was asked for, and nothing that depends on what is stored.
            run: The operation.
            recall: Returns what it returned, given the recorded result of its first write, or None
                if it ended without one.
        """


def session_ref(store: SessionStore, session_id: str) -> SessionRef:
    """Return the address of one of the owner's sessions.

    Raises:
        SessionSetupError: The id is no text, holds U+0000 or half a character, or has more than
            1,000 characters or 2,000 bytes of UTF-8.
    """
    is_text = isinstance(session_id, str) and is_storable_id(session_id)
    if not is_text or len(session_id) > MAX_SESSION_ID:
        raise SessionSetupError(
            f"a session id is a text of up to {MAX_SESSION_ID} characters, {MAX_ID_BYTES} bytes of "
            f"UTF-8, without U+0000, not {session_id!r:.80}"
        )
    return SessionRef(store.agent, session_id)
