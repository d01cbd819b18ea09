"""Storing a summary over its range, if that is still what was summarized (contract 9.4)."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.blank_text import is_blank
from agent_runtime.compaction.compact_context import CompactResult
from agent_runtime.session.compaction_range import InvalidRange, compaction_range
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import Message
from agent_runtime.session.session_provider import Compaction, SessionProvider
from agent_runtime.session.stored_session import StoredSessionProvider


async def store_summary(
    provider: SessionProvider,
    history: Sequence[Message],
    overlays: Sequence[Compaction],
    result: CompactResult,
) -> CompactResult | InvalidRange:
    """Store a result over its range, grown as `compaction_range` says, and return both.

    Args:
        history: What was summarized; the tree may have changed meanwhile.
        overlays: As they were then.
    """
    if not _is_result(result):
        return InvalidRange(
            f"the compaction function returned {type(result).__name__}; a CompactResult of two "
            "messages' ids and a text is wanted, or None"
        )
    if is_blank(result.summary):
        return InvalidRange("the summary is blank")
    found = compaction_range(history, overlays, result)
    if isinstance(found, InvalidRange):
        return found
    present = await maybe_await(provider.get_compactions())
    is_same = list(present) == overlays or compaction_range(history, present, result) == found
    ends = (found.from_message_id, found.to_message_id)
    if not is_same or not await _is_still_path(provider, history, *ends):
        return InvalidRange("its range was changed while it was made")
    await maybe_await(provider.add_compaction(result.summary, *ends))
    return CompactResult(*ends, result.summary)


def _is_result(result: object) -> bool:
    if not isinstance(result, CompactResult):
        return False
    fields = (result.from_message_id, result.to_message_id, result.summary)
    return all(isinstance(each, str) for each in fields)


async def _is_still_path(
    provider: SessionProvider, history: Sequence[Message], first: str, last: str
) -> bool:
    if isinstance(provider, StoredSessionProvider):
        return await provider.is_on_path(first, last)
    # Ends that come from earlier summaries are theirs to answer for.
    for end in {first, last} & {message["id"] for message in history}:
        if await maybe_await(provider.get_message(end)) is None:
            return False
    return True
