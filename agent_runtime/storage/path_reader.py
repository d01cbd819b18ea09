"""Reads what a known path shows: only the rows of visible stretches.

The path and its rows are read by separate statements. Labels of stored messages change only when
some are deleted, which changes the session's `tree_version`; rows are asked for under the version
of the path, and none come if it has passed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

import orjson

from agent_runtime.json_value import Json
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.session_protocol import OverlayRow, PageRows, SizeRow, VisibleRow
from agent_runtime.storage.visible_path import (
    BranchRange,
    OverlayRange,
    Path,
    PathPart,
    Stretch,
    needs_superseded,
    visible_stretches,
    visible_tokens,
)

Read = Callable[[str, Sequence[Json] | Mapping[str, Json]], Awaitable[list[tuple[Json, ...]]]]

_FIRST_WINDOW = 64

_depth: Callable[[tuple[Json, ...]], int] = itemgetter(0)


class PathChangedError(Exception):
    """Messages were deleted since the path was read; read it again."""


class PathReader:
    """Reads rows of one path.

    Args:
        is_lenient: Take what is there where rows are missing, instead of raising.
    """

    def __init__(self, read: Read, path: Path, *, is_lenient: bool) -> None:
        self.path = path
        self._read = read
        self._is_lenient = is_lenient

    async def visible(self, first_depth: int) -> list[VisibleRow]:
        """Return what a reader sees from a depth on; overlays that begin above it do not apply."""
        overlays = await self._overlays() if self.path.has_overlays else []
        return await self._show(visible_stretches(self.path, overlays, first_depth))

    async def page(self, max_bytes: int) -> PageRows:
        """Return the end of what a reader of the whole path sees that fits, one item at least."""
        overlays = await self._overlays() if self.path.has_overlays else []
        shown: list[Stretch] = []
        left = max_bytes
        for stretch in reversed(visible_stretches(self.path, overlays)):
            first, size = await self._fitting(stretch, left, is_needed=not shown)
            if first <= stretch.last_depth:
                shown.append(replace(stretch, first_depth=first))
                left -= size
            if first > stretch.first_depth:
                break
        rows = await self._show(shown[::-1])
        above = shown[-1].first_depth - 1
        named = (
            await self._rows(sql.READ_SIZES, self.path.slice(above, above)) if above >= 0 else []
        )
        return PageRows(rows, named[-1][1] if named else None)

    async def _fitting(
        self, stretch: Stretch, max_bytes: int, *, is_needed: bool
    ) -> tuple[int, int]:
        """Return the depth from which on a stretch's end fits, and its size; one past it if none.

        Args:
            is_needed: The last item is taken whatever its size.
        """
        if stretch.overlay is not None:
            [summary] = (await self._summaries([stretch.overlay])).values()
            size = len(summary.summary.encode())
            fits = is_needed or size <= max_bytes
            return (stretch.first_depth, size) if fits else (stretch.last_depth + 1, 0)
        total, last, width = 0, stretch.last_depth, _FIRST_WINDOW
        while last >= stretch.first_depth:
            first = max(stretch.first_depth, last - width + 1)
            for depth, _, _, size in reversed(
                await self._rows(sql.READ_SIZES, self.path.slice(first, last))
            ):
                if total + size > max_bytes and not is_needed:
                    return int(depth) + 1, total
                total, is_needed = total + size, False
            last, width = first - 1, width * 4
        return stretch.first_depth, total

    async def _show(self, stretches: Sequence[Stretch]) -> list[VisibleRow]:
        raw = [each for each in stretches if each.overlay is None]
        rows = await self._rows(
            sql.READ_CONTENTS,
            [part for each in raw for part in self.path.slice(each.first_depth, each.last_depth)],
        )
        summaries = await self._summaries([each.overlay for each in stretches if each.overlay])
        found: list[VisibleRow] = []
        start = 0
        for each in stretches:
            if each.overlay is not None:
                found.append(summaries[each.overlay.ordinal])
                continue
            end = bisect_right(rows, each.last_depth, start, key=_depth)
            found.extend([content for _, content in rows[start:end]])
            start = end
        return found

    async def parts(self, size: int) -> list[PathPart | OverlayRow]:
        """Return what a reader of the whole path sees without reading messages, in order.

        Args:
            size: How many messages a part has at the most.
        """
        overlays = await self._overlays() if self.path.has_overlays else []
        stretches = visible_stretches(self.path, overlays)
        summaries = await self._summaries([each.overlay for each in stretches if each.overlay])
        found: list[PathPart | OverlayRow] = []
        for each in stretches:
            if each.overlay is not None:
                found.append(summaries[each.overlay.ordinal])
                continue
            for first in range(each.first_depth, each.last_depth + 1, size):
                last = min(first + size - 1, each.last_depth)
                found.append(PathPart(self.path, first, last))
        return found

    async def contents(self, part: PathPart) -> list[str]:
        """Return the messages of a part as they are stored."""
        ranges = self.path.slice(part.first_depth, part.last_depth)
        return [content for _, content in await self._rows(sql.READ_CONTENTS, ranges)]

    async def window_start(self, max_bytes: int, min_messages: int) -> int:
        """Return the depth from which on the path fits a budget (contract 5.3)."""
        if max_bytes <= 0:
            # No message has no bytes, so it is as many as are wanted at least.
            return max(0, self.path.length - min_messages)
        taken, total = 0, 0
        last = self.path.length - 1
        width = max(_FIRST_WINDOW, min_messages)
        while last >= 0:
            first = max(0, last - width + 1)
            rows = await self._rows(sql.READ_SIZES, self.path.slice(first, last))
            for depth, _, _, size in reversed(rows):
                if taken >= min_messages and total + size > max_bytes:
                    return int(depth) + 1
                taken += 1
                total += size
            if taken >= min_messages and total > max_bytes:
                return first
            last = first - 1
            width *= 4
        return 0

    async def holds(self, message_id: str) -> bool:
        """Tell whether a message is on the path."""
        wanted = orjson.dumps([[message_id]]).decode()
        rows = await self._read(sql.FIND_NODES, (wanted, self.path.session))
        return any(self.path.holds(row[2], row[3]) for row in rows)

    async def sizes(self) -> list[SizeRow]:
        """Return the sizes of all raw rows."""
        rows = await self._rows(sql.READ_SIZES, self.path.slice(0, self.path.length - 1))
        return [SizeRow(*row[1:]) for row in rows]

    async def visible_tokens(self) -> int:
        """Return the token estimate of what a reader of the whole path sees."""
        overlays = await self._overlays() if self.path.has_overlays else []
        return visible_tokens(self.path, overlays)

    async def _rows(self, statement: str, ranges: Sequence[BranchRange]) -> list[tuple[Json, ...]]:
        if not ranges:
            return []
        wanted = orjson.dumps(
            [[each.branch, each.first_depth, each.last_depth] for each in ranges]
        ).decode()
        path = self.path
        rows = await self._read(statement, (wanted, path.session, path.session, path.tree_version))
        expected = sum(each.last_depth - each.first_depth + 1 for each in ranges)
        if len(rows) != expected and not self._is_lenient:
            raise PathChangedError
        return sorted(rows, key=_depth)

    async def _overlays(self) -> list[OverlayRange]:
        current = await self._overlay_ranges(sql.READ_CURRENT_OVERLAYS)
        if not needs_superseded(self.path, current):
            return current
        return await self._overlay_ranges(sql.READ_ALL_OVERLAYS)

    async def _overlay_ranges(self, statement: str) -> list[OverlayRange]:
        rows = await self._read(statement, (self.path.session, self.path.tree_version))
        if not rows:
            raise PathChangedError
        return [
            OverlayRange(ordinal, (f_branch, f_depth), (t_branch, t_depth), *sizes)
            for ordinal, f_branch, f_depth, t_branch, t_depth, *sizes in rows
            if f_branch is not None and t_branch is not None
        ]

    async def _summaries(self, overlays: Sequence[OverlayRange]) -> dict[int, OverlayRow]:
        if not overlays:
            return {}
        wanted = orjson.dumps([[each.ordinal] for each in overlays]).decode()
        found = {
            ordinal: OverlayRow(overlay_id, summary, "", "", created_at)
            for ordinal, overlay_id, summary, created_at in await self._read(
                sql.READ_SUMMARIES, (wanted,)
            )
        }
        if len(found) != len(overlays):
            raise PathChangedError
        return found
