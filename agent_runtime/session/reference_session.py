"""Reading a conversation where the reference keeps it on PostgreSQL (contract 3, 20.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from agent_runtime.errors import SessionError
from agent_runtime.session.message import Message, parse_messages, searchable_text
from agent_runtime.session.parent import AUTO, Parent
from agent_runtime.session.postgres_connection import PostgresConnection, sql_connection
from agent_runtime.session.reference_messages import time_of
from agent_runtime.session.session_provider import (
    Compaction,
    RecentHistory,
    RowStats,
    SearchHit,
)
from agent_runtime.session.stored_session import check_search, iso_time, visible_messages
from agent_runtime.storage.session_protocol import OverlayRow, VisibleRow
from agent_runtime.storage.visible_path import (
    BranchRange,
    OverlayRange,
    Path,
    visible_stretches,
)

_MESSAGES = """
SELECT id, parent_id, role, content FROM assistant_messages WHERE session_id = $1
ORDER BY created_at, ctid"""

_MESSAGE = "SELECT content FROM assistant_messages WHERE session_id = $1 AND id = $2"

_CHILDREN = """
SELECT content FROM assistant_messages WHERE session_id = $1 AND parent_id = $2
ORDER BY created_at, ctid"""

_OVERLAYS = """
SELECT id, summary, from_message_id, to_message_id, created_at FROM assistant_compactions
WHERE session_id = $1 ORDER BY created_at, ctid"""

_SEARCH = """
SELECT m.id, m.role, m.content, m.created_at
FROM assistant_messages m, plainto_tsquery('english', $2) AS asked
WHERE m.session_id = $1 AND m.content_tsv @@ asked
ORDER BY ts_rank(m.content_tsv, asked) DESC, m.created_at DESC, m.ctid DESC LIMIT $3"""


@dataclass(frozen=True, slots=True)
class _Row:
    id: str
    parent_id: str | None
    role: str
    content: str

    @property
    def size(self) -> int:
        return len(self.content.encode())


class ReferencePostgresSession:
    """One session's messages in the reference's own tables, for reading only.

    Each read of a path reads the rows of the whole session; bring conversations over with
    `import_reference_postgres` to go on with them. Searching finds what the reference's index has:
    English words.

    Args:
        connection: See `PostgresSessionStore`; unqualified names mean the reference's tables.
        session_id: `""` for the default session.

    Raises:
        SessionSetupError: The connection is none of the kinds of `PostgresConnection`.
    """

    def __init__(self, connection: PostgresConnection, session_id: str = "") -> None:
        self._fetch = sql_connection(connection).fetch
        self._session_id = session_id

    async def get_message(self, message_id: str) -> Message | None:
        """See `SessionProvider.get_message`."""
        rows = await self._fetch(_MESSAGE, (self._session_id, message_id))
        return _first_message([content for (content,) in rows])

    async def get_history(self, leaf_id: str | None = None) -> list[Message]:
        """See `SessionProvider.get_history`."""
        return _visible(await self._path(leaf_id), await self._overlays(), 0)

    async def get_latest_leaf(self) -> Message | None:
        """See `SessionProvider.get_latest_leaf`."""
        return _first_message([row.content for row in (await self._path(None))[-1:]])

    async def get_branches(self, message_id: str) -> list[Message]:
        """See `SessionProvider.get_branches`."""
        rows = await self._fetch(_CHILDREN, (self._session_id, message_id))
        return parse_messages([content for (content,) in rows])

    async def get_path_length(self, leaf_id: str | None = None) -> int:
        """See `SessionProvider.get_path_length`."""
        return len(await self._path(leaf_id))

    async def get_recent_history(
        self, leaf_id: str | None, max_content_bytes: int, min_recent_messages: float = 1
    ) -> RecentHistory:
        """See `RecentHistoryProvider.get_recent_history`."""
        path = await self._path(leaf_id)
        is_number = min_recent_messages >= 1
        floor = math.floor(min(min_recent_messages, len(path))) if is_number else 1
        first, total = len(path), 0
        while first > 0:
            total += path[first - 1].size
            if len(path) - first >= floor and total > max_content_bytes:
                break
            first -= 1
        messages = _visible(path, await self._overlays(), first)
        return RecentHistory(messages, first > 0, sum(row.size for row in path))

    async def get_history_row_stats(self, leaf_id: str | None = None) -> list[RowStats]:
        """See `RowStatsProvider.get_history_row_stats`."""
        return [RowStats(row.id, row.role, row.size) for row in await self._path(leaf_id)]

    async def get_compactions(self) -> list[Compaction]:
        """See `SessionProvider.get_compactions`."""
        return [
            Compaction(row.id, row.summary, row.from_id, row.to_id, iso_time(row.created_at))
            for row in await self._overlays()
        ]

    async def search_messages(self, query: str, limit: int = 20) -> list[SearchHit]:
        """See `SearchableProvider.search_messages`.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
        """
        check_search(query, limit)
        asked = query.replace("\0", " ").encode(errors="replace").decode()
        found = []
        for message_id, role, content, created_at in await self._fetch(
            _SEARCH, (self._session_id, asked, limit)
        ):
            message = _first_message([content])
            text = searchable_text(message) if message is not None else ""
            time = iso_time(time_of(created_at) or 0)
            found.append(SearchHit(message_id, role, text, time, self._session_id))
        return found

    async def append_message(self, message: Message, parent_id: Parent = AUTO) -> NoReturn:
        """Refuse to write: these tables are the reference's.

        Raises:
            SessionError: Always.
        """
        raise _only_read()

    async def update_message(self, message: Message) -> NoReturn:
        """See `append_message`."""
        raise _only_read()

    async def delete_messages(self, message_ids: Sequence[str]) -> NoReturn:
        """See `append_message`."""
        raise _only_read()

    async def clear_messages(self) -> NoReturn:
        """See `append_message`."""
        raise _only_read()

    async def add_compaction(
        self, summary: str, from_message_id: str, to_message_id: str
    ) -> NoReturn:
        """See `append_message`."""
        raise _only_read()

    async def _path(self, leaf_id: str | None) -> list[_Row]:
        rows = {row[0]: _Row(*row) for row in await self._fetch(_MESSAGES, (self._session_id,))}
        return _path_to(leaf_id or _latest_leaf(rows), rows)

    async def _overlays(self) -> list[OverlayRow]:
        return [
            OverlayRow(overlay_id, summary, from_id, to_id, time_of(created_at) or 0)
            for overlay_id, summary, from_id, to_id, created_at in await self._fetch(
                _OVERLAYS, (self._session_id,)
            )
        ]


def _latest_leaf(rows: dict[str, _Row]) -> str | None:
    parents = {row.parent_id for row in rows.values()}
    return next((each for each in reversed(rows) if each not in parents), None)


def _path_to(leaf_id: str | None, rows: Mapping[str, _Row]) -> list[_Row]:
    # A damaged tree may have circles.
    path: dict[str, _Row] = {}
    while leaf_id is not None and leaf_id in rows and leaf_id not in path:
        path[leaf_id] = rows[leaf_id]
        leaf_id = rows[leaf_id].parent_id
    return list(path.values())[::-1]


def _visible(path: Sequence[_Row], overlays: Sequence[OverlayRow], first: int) -> list[Message]:
    places = {row.id: place for place, row in enumerate(path)}
    ranges = [
        OverlayRange(ordinal, (0, places[each.from_id]), (0, places[each.to_id]), 0, 0, 0)
        for ordinal, each in enumerate(overlays)
        if each.from_id in places and each.to_id in places
    ]
    one_branch = Path(0, 0, bool(ranges), 0, 0, (BranchRange(0, 0, len(path) - 1),))
    visible: list[VisibleRow] = []
    for stretch in visible_stretches(one_branch, ranges, first):
        if stretch.overlay is not None:
            visible.append(overlays[stretch.overlay.ordinal])
        else:
            shown = path[stretch.first_depth : stretch.last_depth + 1]
            visible += [row.content for row in shown]
    return visible_messages(visible)


def _first_message(contents: Sequence[str]) -> Message | None:
    found = parse_messages(contents)
    return found[0] if found else None


def _only_read() -> SessionError:
    return SessionError(
        "the reference's tables are only read; bring the conversation over with "
        "import_reference_postgres and go on there"
    )
