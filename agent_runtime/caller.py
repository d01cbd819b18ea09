"""Who is calling: the connection or request through which the running code was entered."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_runtime.agent_connection import Connection
    from agent_runtime.http_message import Request


@dataclass(frozen=True, slots=True)
class Caller:
    """The client behind a handler (state-and-sync 8).

    Args:
        connection: Set in connect, message and close hooks and in calls by clients.
        request: Set in request and connect hooks.
        was_readonly: The connection has gone since it asked, and could only read.
    """

    connection: Connection | None = None
    request: Request | None = None
    was_readonly: bool = False

    @property
    def is_readonly(self) -> bool:
        """What is called may neither change the agent's state nor destroy the agent."""
        return self.was_readonly if self.connection is None else self.connection.is_readonly


NOBODY = Caller()

_caller: ContextVar[Caller] = ContextVar("agent_runtime_caller", default=NOBODY)


def current_caller() -> Caller:
    """Return who is calling; it follows awaits. Start, hooks of workflows and schedules: nobody."""
    return _caller.get()


def enter_as(caller: Caller) -> None:
    """Let the running task, and those it starts, be called by `caller`."""
    _caller.set(caller)
