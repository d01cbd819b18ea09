"""The two things that are called `SessionManager.create` (contract 19.1, 19.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, overload

from agent_runtime.session.session_record import SessionRecord
from agent_runtime.session.session_setup import SessionOwner
from agent_runtime.session.session_store import SessionStore

if TYPE_CHECKING:
    from agent_runtime.session.session_manager import SessionManager


class Begin(Protocol):
    """Begins a manager, as `SessionManager.begin`."""

    def __call__(self, source: SessionOwner | SessionStore) -> SessionManager:
        """Return a manager over an owner or store."""


class Register(Protocol):
    """Registers a session, as `SessionManager.register`."""

    async def __call__(
        self,
        name: str,
        parent_session_id: str | None = None,
        model: str | None = None,
        source: str | None = None,
        *,
        operation_key: str | None = None,
    ) -> SessionRecord:
        """Return the new session's record."""


class Create:
    """`create` begins a manager when asked of the class, a session when asked of a manager."""

    @overload
    def __get__(self, manager: None, owner: type[SessionManager]) -> Begin: ...

    @overload
    def __get__(self, manager: SessionManager, owner: type[SessionManager]) -> Register: ...

    def __get__(
        self, manager: SessionManager | None, owner: type[SessionManager]
    ) -> Begin | Register:
        """Return the one or the other."""
        return owner.begin if manager is None else manager.register
