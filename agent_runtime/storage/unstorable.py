"""Values that neither engine can hold."""

from __future__ import annotations

from agent_runtime.errors import NotSerializableError


def unstorable_error() -> NotSerializableError:
    """Return what to tell of a value that a database's client refused to send."""
    return NotSerializableError(
        "a value cannot be stored; give text without half characters, where text belongs, and "
        "whole numbers of up to 64 bits"
    )
