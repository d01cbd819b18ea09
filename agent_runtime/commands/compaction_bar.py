"""A compaction on the terminal: how far it is, how it ended, and Ctrl-C to cancel it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from agent_runtime.call import CompactionProgress
    from agent_runtime.client.session_handle import SessionHandle
    from agent_runtime.compaction.compact_context import CompactResult

_LOOK_SECONDS = 0.3


async def compact_visibly(
    session: SessionHandle,
    leaf_id: str | None = None,
    *,
    idempotency_key: str | None = None,
    console: Console | None = None,
) -> tuple[CompactResult | None, str]:
    """Compact a session, and show progress if somebody is looking.

    Cancelling this cancels the compaction, for all who wait for it.

    Args:
        console: Where to draw; by default stderr, if that is a terminal.

    Returns:
        What was stored, and why nothing was, as far as that is known.

    Raises:
        AgentRuntimeError: As `SessionHandle.compact`.
    """
    from rich.console import Console

    console = console or Console(stderr=True)
    compacting = asyncio.create_task(session.compact(leaf_id, idempotency_key=idempotency_key))
    try:
        async with _bar(session, leaf_id, console):
            result = await compacting
    except asyncio.CancelledError:
        await session.compaction.cancel(leaf_id)
        compacting.cancel()
        print("the compaction is cancelled; nothing is stored of it", file=sys.stderr)
        raise
    if result is not None:
        return result, ""
    outcome = await session.compaction.last_outcome(leaf_id)
    return None, "" if outcome is None or outcome.status == "applied" else outcome.reason


@asynccontextmanager
async def _bar(
    session: SessionHandle, leaf_id: str | None, console: Console
) -> AsyncIterator[None]:
    if not console.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as display:
        row = display.add_task("compacting", total=None)

        async def look() -> None:
            while True:
                progress = await session.compaction.progress(leaf_id)
                if progress is not None:
                    total = progress.parts or None
                    text = describe_progress(progress)
                    display.update(row, description=text, total=total, completed=progress.done)
                await asyncio.sleep(_LOOK_SECONDS)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            # A look that failed is no reason to give up what it looked at.
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def describe_progress(progress: CompactionProgress) -> str:
    """Return a progress in a few words."""
    if progress.phase != "summarizing":
        return progress.phase
    parts = f"{progress.done} of {progress.parts} part{'' if progress.parts == 1 else 's'}"
    return f"summarizing {parts}" + (f", round {progress.stage + 1}" if progress.stage else "")
