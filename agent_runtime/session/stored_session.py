"""A session's messages in this library's own storage, on either engine (contract 3, 20.2)."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from agent_runtime.clock import now_milliseconds
from agent_runtime.compaction.token_estimate import (
    TOKENS_PER_MESSAGE,
    estimate_message_tokens,
    estimate_string_tokens,
)
from agent_runtime.errors import InvalidSearchError, MessageTooLargeError
from agent_runtime.json_value import Json
from agent_runtime.session.message import (
    COMPACTION_PREFIX,
    Message,
    is_message,
    message_json,
    parse_messages,
    searchable_text,
)
from agent_runtime.session.parent import parent_value
from agent_runtime.session.session_provider import (
    AUTO,
    AppendResult,
    Compaction,
    HistoryPage,
    Parent,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.session.tree_node import TreeNode
from agent_runtime.storage.session_protocol import (
    AttemptsRow,
    HitRow,
    NewMessage,
    OverlayRow,
    SessionReads,
    SessionRef,
    SessionWrites,
    VisibleRow,
)

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_SEARCH_LIMIT = 1000
_ALL = 2**53


class StoredSessionProvider:
    """The messages of one session of a store.

    Every write is one transaction: message, search index, head and sizes; concurrent appends to one
    session line up, in whatever process they are made, and none is lost from the path.

    Args:
        session_id: `""` for the owner's default session.
        has_strict_parents: Refuse an append below an unknown message, instead of starting a root.
    """

    def __init__(
        self, store: SessionStore, session_id: str = "", *, has_strict_parents: bool = False
    ) -> None:
        self._store = store
        self._ref = session_ref(store, session_id)
        self._is_strict = has_strict_parents

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._ref.session_id

    @property
    def ref(self) -> SessionRef:
        """The session's address in its storage."""
        return self._ref

    @property
    def reads(self) -> SessionReads:
        """What is stored, of all sessions of the storage."""
        return self._store.reads

    async def get_message(self, message_id: str) -> Message | None:
        """See `SessionProvider.get_message`."""
        return _one(await self._store.reads.message(self._ref, message_id))

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """See `SessionProvider.get_history`."""
        return visible_messages(await self._store.reads.history(self._ref, leaf_id or None))

    async def get_history_page(
        self, max_content_bytes: int, leaf_id: str | None = None
    ) -> HistoryPage:
        """Return the end of what `get_history` does, at most so many bytes; one item at least."""
        page = await self._store.reads.page(self._ref, leaf_id or None, max_content_bytes)
        return HistoryPage(visible_messages(page.rows), page.earlier_leaf)

    async def get_latest_leaf(self) -> Message | None:
        """See `SessionProvider.get_latest_leaf`."""
        return _one(await self._store.reads.latest(self._ref))

    async def get_branches(self, message_id: str) -> list[Message]:
        """See `SessionProvider.get_branches`."""
        return parse_messages(await self._store.reads.children(self._ref, message_id))

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """See `SessionProvider.get_path_length`."""
        return await self._store.reads.length(self._ref, leaf_id or None)

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """See `RecentHistoryProvider.get_recent_history`."""
        recent = await self._store.reads.recent(
            self._ref, leaf_id or None, max_content_bytes, least_recent(min_recent_messages)
        )
        return RecentHistory(visible_messages(recent.rows), recent.is_truncated, recent.total_bytes)

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """See `RowStatsProvider.get_history_row_stats`."""
        rows = await self._store.reads.sizes(self._ref, leaf_id or None)
        return [RowStats(row.id, row.role, row.bytes) for row in rows]

    async def estimate_visible_tokens(self, leaf_id: str | None = None) -> int:
        """Return the default estimate of the visible history, without reading it."""
        return await self._store.reads.visible_tokens(self._ref, leaf_id or None)

    async def is_on_path(self, message_id: str, leaf_id: str) -> bool:
        """Tell whether a message is on the path to another; False if one is unknown."""
        return await self._store.reads.is_on_path(self._ref, message_id, leaf_id)

    async def append_message(self, message: Message, parent_id: Parent = AUTO) -> AppendResult:
        """Store a message; idempotent by its id (contract 4.1).

        Raises:
            InvalidMessageError: It is no message, or has a reserved id.
            NotSerializableError: A value in it is not JSON.
            MessageTooLargeError: More than 67,108,864 bytes of JSON.
            UnknownMessageError: The parent does not exist and the provider is strict about it.
        """
        [result] = await self.append_messages([message], parent_id)
        return result

    async def append_messages(
        self, messages: Sequence[Message], parent_id: Parent = AUTO
    ) -> list[AppendResult]:
        """Store messages, each below the one before it, all or none in one transaction.

        Args:
            parent_id: Of the first one.

        Raises:
            InvalidMessageError: See `append_message`, whose errors are these.
        """
        prepared = [new_message(message) for message in messages]
        is_auto = parent_id is AUTO
        parent = None if parent_id is AUTO else parent_id

        async def unit(sessions: SessionWrites) -> Json:
            appended = await sessions.messages.append(
                self._ref,
                prepared,
                parent,
                is_auto_parent=is_auto,
                is_strict=self._is_strict,
            )
            return [[each.is_inserted, each.parent_id] for each in appended]

        contents = [message.content for message in prepared]
        payload = [self.session_id, contents, parent_value(parent_id)]
        results = await self._store.write("append_message", payload, unit)
        return [AppendResult(*result) for result in results]

    async def update_message(self, message: Message) -> bool:
        """Replace a message's content and what search finds it by; False if it is unknown.

        Raises:
            InvalidMessageError: See `append_message`, whose errors are these.
        """
        new = new_message(message)

        async def unit(sessions: SessionWrites) -> Json:
            # Not the bare truth: False would say that nothing was to be done.
            return [await sessions.messages.update(self._ref, new)]

        payload = [self.session_id, new.content]
        [is_updated] = await self._store.write("update_message", payload, unit)
        return bool(is_updated)

    async def upsert_message(self, message: Message, parent_id: Parent = AUTO) -> bool:
        """Replace a message's content where it is, or append it if its id is unknown.

        In one transaction: what others append or delete comes before it or after it.

        Returns:
            Whether it was appended.

        Raises:
            InvalidMessageError: See `append_message`, whose errors are these.
        """
        new = new_message(message)

        async def unit(sessions: SessionWrites) -> Json:
            # Not the bare truth: False would say that nothing was to be done.
            if await sessions.messages.update(self._ref, new):
                return [False]
            await sessions.messages.append(
                self._ref,
                [new],
                None if parent_id is AUTO else parent_id,
                is_auto_parent=parent_id is AUTO,
                is_strict=self._is_strict,
            )
            return [True]

        payload = [self.session_id, new.content, parent_value(parent_id)]
        [is_appended] = await self._store.write("upsert_message", payload, unit)
        return bool(is_appended)

    async def delete_messages(self, message_ids: Sequence[str]) -> None:
        """Remove messages; the children of each go to its nearest surviving ancestor."""
        ids = list(message_ids)

        async def unit(sessions: SessionWrites) -> Json:
            return await sessions.messages.delete(self._ref, ids)

        await self._store.write("delete_messages", [self.session_id, ids], unit)

    async def clear_messages(self) -> None:
        """Remove all messages and overlays of the session."""

        async def unit(sessions: SessionWrites) -> Json:
            await sessions.messages.clear(self._ref)

        await self._store.write("clear_messages", [self.session_id], unit)

    async def add_compaction(
        self, summary: str, from_message_id: str, to_message_id: str
    ) -> Compaction:
        """Store an overlay under a new id; one whose ids do not exist never shows."""
        tokens = TOKENS_PER_MESSAGE + estimate_string_tokens(summary)

        async def unit(sessions: SessionWrites) -> Json:
            row = OverlayRow(
                str(uuid.uuid4()),
                summary,
                from_message_id,
                to_message_id,
                now_milliseconds(),
            )
            stored = await sessions.messages.add_overlay(self._ref, row, tokens)
            return [stored.id, stored.created_at]

        payload = [self.session_id, summary, from_message_id, to_message_id]
        overlay_id, created_at = await self._store.write("add_compaction", payload, unit)
        return Compaction(overlay_id, summary, from_message_id, to_message_id, iso_time(created_at))

    async def get_compactions(self) -> list[Compaction]:
        """See `SessionProvider.get_compactions`."""
        return [
            Compaction(row.id, row.summary, row.from_id, row.to_id, iso_time(row.created_at))
            for row in await self._store.reads.overlays(self._ref)
        ]

    async def get_tree(self, after: int = 0, limit: int = 1000) -> list[TreeNode]:
        """Return messages of all branches whose `seq` is higher than `after`, oldest first."""
        return [
            TreeNode(
                row.seq,
                row.parent_seq,
                row.id,
                row.role,
                row.depth,
                row.bytes,
                row.tokens,
                iso_time(row.created_at),
                _one(row.content),
            )
            for row in await self._store.reads.tree(self._ref, after, limit)
        ]

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Return this session's messages, of all branches, that hold every word of the query.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
        """
        check_search(query, limit)
        hits = await self._store.reads.search(self._ref.agent, [self.session_id], query, limit)
        return [search_hit(hit) for hit in hits]

    async def get_attempts(self) -> tuple[int, float]:
        """Return how many automatic compactions failed in a row, and the estimate to try at."""
        row = await self._store.reads.attempts(self._ref)
        return row.failures, row.next_estimate

    async def set_attempts(self, failures: int, next_estimate: float) -> None:
        """Keep what `get_attempts` returns."""
        row = AttemptsRow(failures, next_estimate)

        async def unit(sessions: SessionWrites) -> Json:
            await sessions.jobs.put_attempts(self._ref, row)

        payload = [self.session_id, failures, next_estimate]
        await self._store.write("set_attempts", payload, unit, is_derived=True)


def new_message(message: Mapping[str, Json], created_at: int | None = None) -> NewMessage:
    """Check a message and prepare it for the storage.

    Args:
        created_at: Milliseconds since 1970; by default the time of the append.

    Raises:
        InvalidMessageError: It is no message, or has a reserved id.
        NotSerializableError: A value in it is not JSON.
        MessageTooLargeError: More than 67,108,864 bytes of JSON.
    """
    content = message_json(message)
    if len(content) > MAX_MESSAGE_BYTES:
        raise MessageTooLargeError(
            f"the message has {len(content)} bytes of JSON, at most {MAX_MESSAGE_BYTES} can be "
            "stored; put large content elsewhere and refer to it",
            size=len(content),
            limit=MAX_MESSAGE_BYTES,
        )
    return NewMessage(
        message["id"],
        message["role"],
        content.decode(),
        estimate_message_tokens(message),
        searchable_text(message),
        created_at,
    )


def visible_messages(rows: Sequence[VisibleRow]) -> list[Message]:
    """Return the messages of a visible history, summaries as synthetic ones (contract 6.3)."""
    found: list[Message] = []
    start = 0
    for at, row in enumerate(rows):
        if isinstance(row, OverlayRow):
            found += parse_messages(cast("Sequence[str]", rows[start:at]))
            found.append(synthetic_message(row))
            start = at + 1
    return found + parse_messages(cast("Sequence[str]", rows[start:]))


def synthetic_message(overlay: OverlayRow) -> Message:
    """Return the message that stands for a summarized range."""
    return {
        "id": COMPACTION_PREFIX + overlay.id,
        "role": "assistant",
        "parts": [{"type": "text", "text": overlay.summary}],
        "createdAt": iso_time(overlay.created_at),
    }


def search_hit(row: HitRow) -> SearchHit:
    """Return a hit with the text it was found by."""
    found = _one(row.content)
    text = searchable_text(found) if found is not None else ""
    return SearchHit(row.id, row.role, text, iso_time(row.created_at), row.session_id)


def least_recent(min_recent_messages: float) -> int:
    """Return how many of the newest messages are read whatever their size (contract 5.3)."""
    # No number at all is not above 1 either.
    return math.floor(min(min_recent_messages, _ALL)) if min_recent_messages >= 1 else 1


def check_search(query: str, limit: int) -> None:
    """Refuse what no session can be searched with.

    Raises:
        InvalidSearchError: The query is no text, or the limit is not 1 to 1000.
    """
    if not isinstance(query, str):
        raise InvalidSearchError(f"the query of a search is a text, not {type(query).__name__}")
    is_count = isinstance(limit, int) and not isinstance(limit, bool)
    if not is_count or not 1 <= limit <= MAX_SEARCH_LIMIT:
        raise InvalidSearchError(
            f"the limit of a search is {limit!r:.80}; give 1 to {MAX_SEARCH_LIMIT}"
        )


def iso_time(milliseconds: int) -> str:
    """Return a time as ISO-8601 in UTC with milliseconds and `Z`."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds % 1000:03d}Z"


def _one(content: str | None) -> Message | None:
    found = parse_messages([content]) if content is not None else []
    return found[0] if found and is_message(found[0]) else None
