"""Compaction outside of the code that asks for it: as a durable job of the session's owner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from agent_runtime.compaction.compact_context import CompactFunction, CompactResult
from agent_runtime.session.message import Message

CompactionMode: TypeAlias = Literal["inline", "background"]
"""Whether an append waits for the compaction that it sets off, or is answered before."""


class CompactionJobs(Protocol):
    """An owner that carries compactions out as jobs; one at a time for a session and branch."""

    async def start(self, session_id: str) -> bool:
        """Have the session's active path compacted; returns before that is done.

        Returns:
            False if one runs already, which may see no more of the history. A job that cannot be
            begun now is begun by a later append.
        """

    async def run(self, session_id: str, leaf_id: str | None) -> CompactResult | None:
        """Have a path compacted and wait; None if nothing was stored."""


@dataclass(frozen=True, slots=True)
class CompactionBasis:
    """What a job works on.

    Args:
        leaf_id: The path's last message, so that a later step finds the same path.
        overlay_ids: Of the summaries that were stored when the history was read.
        tokens_before: The session's estimate, None if nobody wants to know.
    """

    function: CompactFunction
    history: Sequence[Message]
    leaf_id: str
    overlay_ids: Sequence[str]
    tokens_before: int | None
