"""What PostgreSQL's error codes mean for the runtime, whichever client has met them."""

from __future__ import annotations

from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    ConfigurationError,
    StorageCorruptError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

LOCK_TIMEOUT = "55P03"
CONFLICTS = frozenset({"40P01", "40001"})
_CANCELLED = "57014"
_NO_SUCH_AGENT = "23503"

_BY_STATE: dict[str, tuple[type[AgentRuntimeError], str]] = {
    "53100": (StorageFullError, "no space left on the server; free some and repeat"),
    "25006": (
        StorageReadOnlyError,
        "the server takes no writes; name the primary, not a standby",
    ),
    "42501": (
        StorageReadOnlyError,
        "the role lacks rights ({}); docs/postgres.md has the grants",
    ),
    "28000": (ConfigurationError, "the server refuses the role: {}"),
    "28P01": (ConfigurationError, "the server refuses the password"),
    "3D000": (ConfigurationError, "{}; create it or name another"),
    "XX001": (StorageCorruptError, "the database is damaged; restore a backup"),
    "XX002": (StorageCorruptError, "an index is damaged; rebuild it with REINDEX"),
    LOCK_TIMEOUT: (StorageUnavailableError, "another process holds the same rows for too long"),
}

# The server's or the connection's state; every other class is about the statement itself.
_OF_THE_SERVER = frozenset({"08", "28", "3D", "40", "53", "55", "57", "58", "F0", "XX"})


def is_of_the_server(state: str) -> bool:
    """Tell whether the server failed, not the statement."""
    return state != _CANCELLED and state[:2] in _OF_THE_SERVER


def error_of_state(place: str, state: str, reason: str) -> AgentRuntimeError | None:
    """Return what to tell of an error, None if it is the statement's own.

    Args:
        place: What the server is called in the message.
        state: The code, `""` for none.
    """
    if state == _NO_SUCH_AGENT:
        return AgentDestroyedError("the agent was destroyed; nothing was stored")
    if state not in _BY_STATE and not is_of_the_server(state):
        return None
    kind, advice = _BY_STATE.get(state, (StorageUnavailableError, "{}"))
    return kind(f"{place}: {advice.format(reason)}", code=state)
