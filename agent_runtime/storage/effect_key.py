"""Keys of journals and of the effects in them: a call's own, and those of what it sets off.

The separators cannot occur in keys that callers choose, so the two never meet.
"""

from __future__ import annotations

_SEPARATOR = "\x1f"
_AFTER_SEPARATOR = "\x20"
_INNER_SEPARATOR = "\x1e"


def effect_key(journal: str, position: int) -> str:
    """Return the idempotency key of a journal's effect."""
    return f"{journal}{_SEPARATOR}{position}"


def inner_key(journal: str, position: int) -> str:
    """Return the key of the journal of what one effect sets off, outside of the journal's range."""
    return f"{journal}{_INNER_SEPARATOR}{position}"


def task_key(journal: str, begun_at: int, number: int) -> str:
    """Return the key of the journal of a task, outside of the range of the one that it came from.

    Args:
        begun_at: The position that was next when the task was begun.
        number: Among the tasks that were begun there.
    """
    return f"{journal}{_INNER_SEPARATOR}{begun_at}/{number}"


def journal_key_range(invocation: str) -> tuple[str, str]:
    """Return the first key of an invocation's journal, the inner ones included, and the end."""
    return invocation, f"{invocation}{_SEPARATOR}"


def effect_position(key: str) -> int:
    """Return the position that a key was made of."""
    return int(key.rpartition(_SEPARATOR)[2])


def effect_key_range(journal: str) -> tuple[str, str]:
    """Return the first key of a journal's effects and the first one past them."""
    return f"{journal}{_SEPARATOR}", f"{journal}{_AFTER_SEPARATOR}"
