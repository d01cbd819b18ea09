"""Statements of the runtime's own that a database refuses: a bug, or a schema changed by hand."""

from __future__ import annotations

import logging

from agent_runtime.errors import StorageError

logger = logging.getLogger("agent_runtime")


def refused_statement(place: str, error: Exception) -> StorageError:
    """Return what to raise; what the database said names tables and values, and is logged only."""
    logger.error("%s refused a statement of the runtime: %s", place, error, exc_info=error)
    return StorageError(f"{place}: the database refused a statement; the log says why")
