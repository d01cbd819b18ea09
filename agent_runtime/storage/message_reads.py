"""Reading message trees (contract 5, 16): a path first, then only the rows that are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import orjson

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.path_reader import PathChangedError, PathReader, Read
from agent_runtime.storage.search_terms import query_phrases
from agent_runtime.storage.session_dialect import SessionDialect
from agent_runtime.storage.session_protocol import (
    HitRow,
    OverlayRow,
    PageRows,
    RecentRows,
    SessionRef,
    SizeRow,
    TreeRow,
    VisibleRow,
)
from agent_runtime.storage.session_rows import read_path

T = TypeVar("T")

_SESSIONS_PER_QUERY = 100


class MessageReads:
    """The messages' half of `SessionReads`, as named statements."""

    def __init__(self, read: Read, dialect: SessionDialect) -> None:
        self._read = read
        self._dialect = dialect

    async def history(self, ref: SessionRef, leaf_id: str | None) -> list[VisibleRow]:
        """See `SessionReads.history`."""
        return await self._on_path(ref, leaf_id, lambda path: path.visible(0)) or []

    async def recent(
        self, ref: SessionRef, leaf_id: str | None, max_bytes: int, min_messages: int
    ) -> RecentRows:
        """See `SessionReads.recent`."""

        async def window(reader: PathReader) -> RecentRows:
            first = await reader.window_start(max_bytes, min_messages)
            return RecentRows(await reader.visible(first), first > 0, reader.path.total_bytes)

        return await self._on_path(ref, leaf_id, window) or RecentRows([], False, 0)

    async def page(self, ref: SessionRef, leaf_id: str | None, max_bytes: int) -> PageRows:
        """See `SessionReads.page`."""
        found = await self._on_path(ref, leaf_id, lambda path: path.page(max_bytes))
        return found or PageRows([], None)

    async def sizes(self, ref: SessionRef, leaf_id: str | None) -> list[SizeRow]:
        """See `SessionReads.sizes`."""
        return await self._on_path(ref, leaf_id, lambda path: path.sizes()) or []

    async def visible_tokens(self, ref: SessionRef, leaf_id: str | None) -> int:
        """See `SessionReads.visible_tokens`."""
        return await self._on_path(ref, leaf_id, lambda path: path.visible_tokens()) or 0

    async def message(self, ref: SessionRef, message_id: str) -> str | None:
        """See `SessionReads.message`."""
        content: str | None = _first(await self._read(sql.READ_MESSAGE, (*_at(ref), message_id)))
        return content

    async def latest(self, ref: SessionRef) -> str | None:
        """See `SessionReads.latest`."""
        content: str | None = _first(await self._read(sql.READ_LATEST, _at(ref)))
        return content

    async def length(self, ref: SessionRef, leaf_id: str | None) -> int:
        """See `SessionReads.length`."""
        if leaf_id is None:
            return _first(await self._read(sql.READ_LENGTH, _at(ref))) or 0
        return _first(await self._read(sql.READ_LENGTH_TO, (*_at(ref), leaf_id))) or 0

    async def is_on_path(self, ref: SessionRef, message_id: str, leaf_id: str) -> bool:
        """See `SessionReads.is_on_path`."""

        async def holds(reader: PathReader) -> bool:
            return await reader.holds(message_id)

        return await self._on_path(ref, leaf_id, holds) or False

    async def children(self, ref: SessionRef, message_id: str) -> list[str]:
        """See `SessionReads.children`."""
        rows = await self._read(sql.READ_CHILDREN, (*_at(ref), message_id))
        return [content for (content,) in rows]

    async def overlays(self, ref: SessionRef) -> list[OverlayRow]:
        """See `SessionReads.overlays`."""
        return [OverlayRow(*row) for row in await self._read(sql.LIST_OVERLAYS, _at(ref))]

    async def tree(self, ref: SessionRef, after: int, limit: int) -> list[TreeRow]:
        """See `SessionReads.tree`."""
        rows = await self._read(sql.READ_TREE, (*_at(ref), after, limit))
        return [TreeRow(*row) for row in rows]

    async def search(
        self, agent: AgentRef, session_ids: Sequence[str], query: str, limit: int
    ) -> list[HitRow]:
        """See `SessionReads.search`."""
        wanted = orjson.dumps([[*agent, each] for each in session_ids]).decode()
        numbers = [row[0] for row in await self._read(sql.READ_SESSION_NUMBERS, (wanted,))]
        found: list[tuple[Json, ...]] = []
        for start in range(0, len(numbers), _SESSIONS_PER_QUERY):
            some = numbers[start : start + _SESSIONS_PER_QUERY]
            alternatives = [query_phrases(query, number) for number in some]
            if alternatives[0]:
                asked = self._dialect.search_query(alternatives)
                found += await self._read(self._dialect.search_messages, (asked, limit))
        found.sort(key=lambda row: (row[0], -row[1]))
        return [HitRow(*row[2:]) for row in found[:limit]]

    async def _on_path(
        self, ref: SessionRef, leaf_id: str | None, read: Callable[[PathReader], Awaitable[T]]
    ) -> T | None:
        version: int | None = None
        while True:
            path = await read_path(self._read, ref, leaf_id)
            if path is None or not path.ranges:
                return None
            # Rows missing although nothing was deleted meanwhile were lost outside this library.
            is_lenient = version == path.tree_version
            version = path.tree_version
            try:
                return await read(PathReader(self._read, path, is_lenient=is_lenient))
            except PathChangedError:
                continue


def _at(ref: SessionRef) -> tuple[str, str, str]:
    return (*ref.agent, ref.session_id)


def _first(rows: Sequence[tuple[Json, ...]]) -> Json:
    return rows[0][0] if rows else None
