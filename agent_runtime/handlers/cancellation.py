"""Telling a call's cancellation by its caller from the end of the process that runs it."""

from __future__ import annotations

import asyncio

_BY_CALLER = "by its caller"


def cancel_for_caller(task: asyncio.Task[None]) -> None:
    """Cancel a task because whoever asked for its work wants it no more."""
    task.cancel(_BY_CALLER)


def is_cancelled_by_caller(error: asyncio.CancelledError) -> bool:
    """Tell whether the work is wanted no more; otherwise somebody else goes on with it."""
    return error.args == (_BY_CALLER,)
