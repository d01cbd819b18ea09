"""What a Session asks of the store of its messages (contract 3).

A store of your own may be any object with these methods, sync or async. `get_recent_history`,
`get_history_row_stats` and `search_messages` are optional; a Session does without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar, runtime_checkable

from agent_runtime.session.message import Message
from agent_runtime.session.parent import AUTO as AUTO
from agent_runtime.session.parent import Parent as Parent

T = TypeVar("T")

MaybeAwaitable: TypeAlias = Awaitable[T] | T
"""An answer, now or awaited."""


@dataclass(frozen=True, slots=True)
class AppendResult:
    """What an append did.

    Args:
        is_inserted: False if a message of that id was there already; nothing changed then.
        parent_id: The parent it has, None for a root.
    """

    is_inserted: bool
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class Compaction:
    """A stored overlay: a summary that stands for a range of a path when it is read (contract 6).

    Args:
        created_at: ISO-8601 in UTC with milliseconds and `Z`.
    """

    id: str
    summary: str
    from_message_id: str
    to_message_id: str
    created_at: str


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """The end of a path that fits a budget (contract 5.3).

    Args:
        is_truncated: Older messages were left out.
        total_content_bytes: Stored size of the whole path.
    """

    messages: list[Message]
    is_truncated: bool
    total_content_bytes: int


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The end of a visible history that fits a size.

    Args:
        earlier_leaf_id: The message that ends the part above, to read on; None at the root.
    """

    messages: list[Message]
    earlier_leaf_id: str | None


@dataclass(frozen=True, slots=True)
class RowStats:
    """The size of one stored message in bytes of UTF-8 (contract 5.4)."""

    id: str
    role: str
    bytes: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that a search found (contract 16.1).

    Args:
        content: The text it was found by.
        created_at: ISO-8601 in UTC, or None if the store does not tell.
        session_id: The session it is in, or None if the store does not tell.
    """

    id: str
    role: str
    content: str
    created_at: str | None = None
    session_id: str | None = None


class SessionProvider(Protocol):
    """The store of one session's messages and overlays."""

    def get_message(self, message_id: str) -> MaybeAwaitable[Message | None]:
        """Return a raw message of this session, on any branch, or None."""

    def get_history(self, leaf_id: str | None = None) -> MaybeAwaitable[list[Message]]:
        """Return the path to a message (default: the latest leaf) with overlays applied."""

    def get_latest_leaf(self) -> MaybeAwaitable[Message | None]:
        """Return the newest message without children, or None."""

    def get_branches(self, message_id: str) -> MaybeAwaitable[list[Message]]:
        """Return a message's direct children, oldest first."""

    def get_path_length(self, leaf_id: str | None = None) -> MaybeAwaitable[int]:
        """Return how many raw messages the path to a message has; 0 if it is unknown."""

    def append_message(
        self, message: Message, parent_id: Parent = AUTO
    ) -> MaybeAwaitable[AppendResult | None]:
        """Store a message unless one of its id is there; it becomes the latest leaf."""

    def update_message(self, message: Message) -> MaybeAwaitable[bool | None]:
        """Replace a message's content; False if there is none of its id."""

    def delete_messages(self, message_ids: Sequence[str]) -> MaybeAwaitable[None]:
        """Remove messages, ignoring unknown ids."""

    def clear_messages(self) -> MaybeAwaitable[None]:
        """Remove all messages and overlays of the session."""

    def add_compaction(
        self, summary: str, from_message_id: str, to_message_id: str
    ) -> MaybeAwaitable[Compaction]:
        """Store an overlay under a new id; the ids need not exist."""

    def get_compactions(self) -> MaybeAwaitable[list[Compaction]]:
        """Return all stored overlays, superseded ones too, oldest first."""


@runtime_checkable
class RecentHistoryProvider(Protocol):
    """A store that reads the end of a path without the rest."""

    def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> MaybeAwaitable[RecentHistory]:
        """Return the newest messages of the path that fit the budget."""


@runtime_checkable
class RowStatsProvider(Protocol):
    """A store that tells sizes without returning content."""

    def get_history_row_stats(self, leaf_id: str | None = None) -> MaybeAwaitable[list[RowStats]]:
        """Return the raw messages' sizes, root first."""


@runtime_checkable
class SearchableProvider(Protocol):
    """A store with full-text search."""

    def search_messages(self, query: str, limit: int = 20) -> MaybeAwaitable[list[SearchHit]]:
        """Return the messages that hold every word of the query, best first."""
