"""What watches and ends the summarizing of one session, wherever it is reached from."""

from __future__ import annotations

from typing import Protocol

from agent_runtime.call import CompactionOutcome, CompactionProgress


class CompactionWatch(Protocol):
    """The compaction of one session; a leaf of None means the active branch."""

    async def progress(self, leaf_id: str | None = None) -> CompactionProgress | None:
        """Return how far the compaction is that runs now; None if none does."""

    async def cancel(self, leaf_id: str | None = None) -> bool:
        """Cancel the compaction that runs now; False if none does."""

    async def last_outcome(self, leaf_id: str | None = None) -> CompactionOutcome | None:
        """Wait for the newest compaction and return how it ended; None if none is remembered."""
