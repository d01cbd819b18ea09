"""Idempotency keys for those who give none."""

from __future__ import annotations

import itertools
import os
import secrets


class KeyMaker:
    """Makes keys of a random prefix per process and a counter, so that they sort by age."""

    def __init__(self) -> None:
        self._pid = 0
        self._prefix = ""
        self._count = itertools.count()

    def next(self) -> str:
        """Return a key that nobody else has."""
        if self._pid != os.getpid():  # also after a fork, whose copy must not repeat our keys
            self._pid, self._prefix = os.getpid(), secrets.token_urlsafe(12)
        return f"{self._prefix}-{next(self._count)}"
