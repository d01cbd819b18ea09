"""Idempotency keys of effects inside a handler: the invocation's key and the effect's position.

The separator cannot occur in keys that callers choose, so the two never meet.
"""

from __future__ import annotations

_SEPARATOR = "\x1f"
_AFTER_SEPARATOR = "\x20"


def effect_key(invocation: str, position: int) -> str:
    """Return the key of an invocation's effect."""
    return f"{invocation}{_SEPARATOR}{position}"


def effect_position(key: str) -> int:
    """Return the position that a key was made of."""
    return int(key.rpartition(_SEPARATOR)[2])


def effect_key_range(invocation: str) -> tuple[str, str]:
    """Return the first key of an invocation's effects and the first one past them."""
    return f"{invocation}{_SEPARATOR}", f"{invocation}{_AFTER_SEPARATOR}"
