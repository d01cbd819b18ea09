"""When a session is compacted by itself, and what a compaction can get below (contract 9.4)."""

from __future__ import annotations

from agent_runtime.compaction.compact_context import CompactFunction
from agent_runtime.errors import SessionSetupError


def check_threshold(function: CompactFunction | None, threshold: int | None) -> None:
    """Refuse a threshold that is none, or that compaction could never get below.

    Args:
        threshold: None if none is set yet.

    Raises:
        SessionSetupError: It is no number of tokens, or the function keeps as much.
    """
    if threshold is None:
        return
    if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 0:
        raise SessionSetupError(
            f"compact_after({threshold!r:.80}) is no threshold; give a whole number of tokens"
        )
    tail = getattr(function, "tail_token_budget", None)
    if isinstance(tail, int | float) and tail >= threshold:
        raise SessionSetupError(
            f"the compaction function keeps a tail of {tail} tokens, which must be less than the "
            f"threshold of {threshold} tokens; lower tail_token_budget or raise the threshold of "
            "compact_after"
        )
