"""How many rows to read at once when nobody knows how long they are."""

from __future__ import annotations

FIRST_ROWS = 16
"""Before anything is known of their size."""

_MOST_ROWS = 200
_BYTES_PER_READ = 2_000_000


def rows_at_once(largest_bytes: int) -> int:
    """Return how many rows to read next.

    Args:
        largest_bytes: Of the rows before.
    """
    return max(1, min(_MOST_ROWS, _BYTES_PER_READ // max(1, largest_bytes)))
