"""Profiling a process's event loop from inside."""

from __future__ import annotations

import cProfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Write what the calling thread does within the block to a cProfile file; None does not."""
    if path is None:
        yield
        return
    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        profile.dump_stats(path)
