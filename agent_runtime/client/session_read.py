"""Reading one of an agent's conversations from outside, with the storage or by its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

from agent_runtime.client.session_page import MAX_PAGE_BYTES, Ask, answer, ask_items, ask_value
from agent_runtime.errors import InternalError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.message import Message
from agent_runtime.session.session_provider import (
    Compaction,
    HistoryPage,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.session_store import SessionStore, SessionUnit
from agent_runtime.session.stored_session import StoredSessionProvider, least_recent
from agent_runtime.session.tree_node import TreeNode
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.session_protocol import SessionReads

T = TypeVar("T")


class SessionReader(Protocol):
    """What a `SessionHandle` reads with."""

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """Return the path to a message with overlays applied."""

    async def get_history_page(
        self, max_content_bytes: int, leaf_id: str | None = None
    ) -> HistoryPage:
        """Return the end of what `get_history` does that fits a size."""

    async def get_message(self, message_id: str) -> Message | None:
        """Return a stored message, or None."""

    async def get_latest_leaf(self) -> Message | None:
        """Return the newest message without children, or None."""

    async def get_branches(self, message_id: str) -> list[Message]:
        """Return a message's direct children, oldest first."""

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """Return how many stored messages a path has."""

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """Return the end of a path that fits a budget."""

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """Return the stored sizes along a path."""

    async def get_compactions(self) -> list[Compaction]:
        """Return all stored summaries, oldest first."""

    async def get_tree(self, after: int = 0, limit: int = 1000) -> list[TreeNode]:
        """Return messages of all branches with a higher `seq`, oldest first."""

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """Return the messages that hold every word of the query, best first."""


class ReadOnlyStore(SessionStore):
    """An agent's conversations for who may only read them."""

    def __init__(self, reads: SessionReads, agent: AgentRef) -> None:
        self._reads = reads
        self._agent = agent

    @property
    def agent(self) -> AgentRef:
        """See `SessionStore.agent`."""
        return self._agent

    @property
    def reads(self) -> SessionReads:
        """See `SessionStore.reads`."""
        return self._reads

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """Refuse to write."""
        raise InternalError(f"{kind}: an agent's conversations are written by the agent only")

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """Run the operation; what it writes is refused."""
        return await run()


async def answer_session_query(storage: Storage, ref: AgentRef, fields: dict[str, Json]) -> Json:
    """Answer a read of one of the agent's sessions, a page of it where it is a list."""
    provider = StoredSessionProvider(ReadOnlyStore(storage.sessions, ref), fields["session"])
    return answer(await _READS[fields["method"]](provider, fields["args"]), fields["start"])


class RemoteSessionReader:
    """Reads a session by asking the agent's worker."""

    def __init__(self, ask: Ask, session_id: str) -> None:
        self._ask = ask
        self._session_id = session_id

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """See `Session.get_history`."""
        if leaf_id is None:
            # Pages of one path, whatever is appended between them.
            latest = await self.get_latest_leaf()
            if latest is None:
                return []
            leaf_id = latest["id"]
        return await self._items("get_history", leaf_id)

    async def get_history_page(
        self, max_content_bytes: int, leaf_id: str | None = None
    ) -> HistoryPage:
        """See `SessionHandle.get_history_page`; at most 2,000,000 bytes."""
        found = await self._value(
            "get_history_page", min(max_content_bytes, MAX_PAGE_BYTES), leaf_id
        )
        return HistoryPage(**found)

    async def get_message(self, message_id: str) -> Message | None:
        """See `Session.get_message`."""
        found: Message | None = await self._value("get_message", message_id)
        return found

    async def get_latest_leaf(self) -> Message | None:
        """See `Session.get_latest_leaf`."""
        found: Message | None = await self._value("get_latest_leaf")
        return found

    async def get_branches(self, message_id: str) -> list[Message]:
        """See `Session.get_branches`."""
        return await self._items("get_branches", message_id)

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """See `Session.get_path_length`."""
        length: int = await self._value("get_path_length", leaf_id)
        return length

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """See `Session.get_recent_history`; at most 2,000,000 bytes unless a message has more."""
        budget = min(max_content_bytes, MAX_PAGE_BYTES)
        least = least_recent(min_recent_messages)
        found = await self._value("get_recent_history", leaf_id, budget, least)
        return RecentHistory(**found)

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """See `Session.get_history_row_stats`."""
        return [RowStats(**row) for row in await self._items("get_history_row_stats", leaf_id)]

    async def get_compactions(self) -> list[Compaction]:
        """See `Session.get_compactions`."""
        return [Compaction(**row) for row in await self._items("get_compactions")]

    async def get_tree(self, after: int = 0, limit: int = 1000) -> list[TreeNode]:
        """See `StoredSessionProvider.get_tree`."""
        return [TreeNode(**row) for row in await self._items("get_tree", after, limit)]

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """See `Session.search`."""
        return [SearchHit(**row) for row in await self._items("search_messages", query, limit)]

    async def _value(self, method: str, *args: Json) -> Json:
        return await ask_value(self._ask, self._request(method, args))

    async def _items(self, method: str, *args: Json) -> list[Json]:
        return await ask_items(self._ask, self._request(method, args))

    def _request(self, method: str, args: Sequence[Json]) -> dict[str, Json]:
        fields = {"read": "session", "session": self._session_id}
        return {**fields, "method": method, "args": list(args)}


_Read = Callable[[StoredSessionProvider, list[Json]], Awaitable[Json]]


async def _get_history_page(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return asdict(await provider.get_history_page(*args))


async def _get_recent_history(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return asdict(await provider.get_recent_history(*args))


async def _get_history_row_stats(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return [asdict(row) for row in await provider.get_history_row_stats(*args)]


async def _get_compactions(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return [asdict(row) for row in await provider.get_compactions()]


async def _get_tree(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return [asdict(node) for node in await provider.get_tree(*args)]


async def _search_messages(provider: StoredSessionProvider, args: list[Json]) -> Json:
    return [asdict(hit) for hit in await provider.search_messages(*args)]


_READS: dict[str, _Read] = {
    "get_history": lambda provider, args: provider.get_history(*args),
    "get_history_page": _get_history_page,
    "get_message": lambda provider, args: provider.get_message(*args),
    "get_latest_leaf": lambda provider, args: provider.get_latest_leaf(),
    "get_branches": lambda provider, args: provider.get_branches(*args),
    "get_path_length": lambda provider, args: provider.get_path_length(*args),
    "get_recent_history": _get_recent_history,
    "get_history_row_stats": _get_history_row_stats,
    "get_compactions": _get_compactions,
    "get_tree": _get_tree,
    "search_messages": _search_messages,
}
