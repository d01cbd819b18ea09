"""What a session does with its messages: in the store's own way, or with what any store has."""

from __future__ import annotations

from agent_runtime.errors import InvalidCompactionError, UnknownMessageError
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.message import COMPACTION_PREFIX, Message
from agent_runtime.session.session_provider import (
    AppendResult,
    Parent,
    RowStatsProvider,
    SessionProvider,
)
from agent_runtime.session.stored_session import StoredSessionProvider


async def append_all(
    provider: SessionProvider, messages: list[Message], parent_id: Parent
) -> list[AppendResult | None]:
    """Append messages, each below the one before it; in one transaction if the store can."""
    if isinstance(provider, StoredSessionProvider):
        return [*await provider.append_messages(messages, parent_id)]
    results: list[AppendResult | None] = []
    for message in messages:
        results.append(await maybe_await(provider.append_message(message, parent_id)))
        parent_id = message["id"]
    return results


async def upsert(provider: SessionProvider, message: Message, parent_id: Parent) -> bool:
    """Replace a message or append it, and tell whether it was appended."""
    if isinstance(provider, StoredSessionProvider):
        return await provider.upsert_message(message, parent_id)
    if await maybe_await(provider.get_message(message["id"])) is None:
        result = await maybe_await(provider.append_message(message, parent_id))
        if result is None or result.is_inserted:
            return True
    await maybe_await(provider.update_message(message))
    return False


async def check_ends(provider: SessionProvider, first: str, last: str) -> None:
    """Refuse the ends of a summary that no path connects.

    Raises:
        InvalidCompactionError: An end is a summary itself, or no path leads from one to the other.
        UnknownMessageError: An end does not exist.
    """
    for end in (first, last):
        if end.startswith(COMPACTION_PREFIX):
            raise InvalidCompactionError(
                f"{end!r} is a summary; give the ids of the messages it stands for"
            )
        if await maybe_await(provider.get_message(end)) is None:
            raise UnknownMessageError(f"{end!r} does not exist in this session", id=end)
    if not await _is_on_path(provider, first, last):
        raise InvalidCompactionError(
            f"no path leads from {first!r} to {last!r}; nothing was stored"
        )


async def _is_on_path(provider: SessionProvider, message_id: str, leaf_id: str) -> bool:
    if isinstance(provider, StoredSessionProvider):
        return await provider.is_on_path(message_id, leaf_id)
    if isinstance(provider, RowStatsProvider):
        rows = await maybe_await(provider.get_history_row_stats(leaf_id))
        return any(row.id == message_id for row in rows)
    # Without rows a summary may hide the message, so only a bare path without it tells.
    history = await maybe_await(provider.get_history(leaf_id))
    ids = [message["id"] for message in history]
    return message_id in ids or any(each.startswith(COMPACTION_PREFIX) for each in ids)
