"""An exported session between being checked and being stored: a temporary file of its items.

An item is a list that begins with its kind. Lines are read once; what they say is kept in the form
in which it is sent and stored, so nothing of it is checked again on its way.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator
from dataclasses import asdict
from typing import Self, cast

from agent_runtime.errors import MessageTooLargeError
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.session.session_content import SessionContent
from agent_runtime.session.session_lines import SessionLines

MAX_PART_BYTES = 400_000
"""Temporal warns above 512 KiB."""

_MAX_ITEMS = 2_000
_MAX_MEMORY_BYTES = 1_000_000
_BEFORE_ALL = ("record", "message")

Item = list[Json]


class SessionSpool:
    """A session's checked lines, given out in parts; a context manager that deletes its file.

    Of the session no more is in memory than one part, a megabyte of what waits, and the ids of its
    messages.

    Args:
        max_item_bytes: What one item may have; None for no limit.
    """

    def __init__(self, max_item_bytes: int | None = None) -> None:
        self.lines = SessionLines()
        self._max_item_bytes = max_item_bytes
        # Messages come before what refers to them, in whichever order the lines are.
        self._first = _temporary_file()
        self._rest = _temporary_file()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._first.close()
        self._rest.close()

    def read_all(self, lines: Iterable[str]) -> None:
        """Check all lines of a session and keep what they say.

        Raises:
            InvalidImportError: A line is not what it should be, or the end is missing.
            MessageTooLargeError: One item alone is more than there may be.
        """
        for line in lines:
            self._read(line)
        self.lines.finish()

    async def read_all_async(self, lines: Iterable[str] | AsyncIterable[str]) -> None:
        """Do as `read_all` with lines that may have to be waited for."""
        if isinstance(lines, AsyncIterable):
            async for line in lines:
                self._read(line)
            self.lines.finish()
        else:
            self.read_all(lines)

    def parts(self) -> Iterator[list[Json]]:
        """Give all items from the beginning in parts of bounded size; there is one at least."""
        yield from item_parts(self._items())

    def _items(self) -> Iterator[tuple[int, Item]]:
        for file in (self._first, self._rest):
            file.seek(0)
            for text in file:
                yield len(text), cast(Item, from_json(text))

    def _read(self, line: str) -> None:
        self.lines.read(line)
        for item in _items(self.lines.take()):
            text = packed_item(item, self._max_item_bytes)
            file = self._first if item[0] in _BEFORE_ALL else self._rest
            # JSON as it is packed holds no line end.
            file.write(text + b"\n")


def item_parts(items: Iterable[tuple[int, Item]]) -> Iterator[list[Json]]:
    """Part items, each with its size in bytes; without items there is one empty part."""
    part: list[Json] = []
    size = 0
    for item_size, item in items:
        if part and (size + item_size > MAX_PART_BYTES or len(part) == _MAX_ITEMS):
            yield part
            part, size = [], 0
        part.append(item)
        size += item_size
    yield part


def packed_item(item: Item, limit: int | None) -> bytes:
    """Return an item as JSON text.

    Raises:
        MessageTooLargeError: It has more bytes than the limit.
    """
    text = pack(item)
    if limit is not None and len(text) > limit:
        raise MessageTooLargeError(
            f"the {item[0]} {str(item[1])[:80]!r} has {len(text)} bytes, at most {limit} can "
            "be sent to an agent; shorten it",
            size=len(text),
            limit=limit,
        )
    return text


def _items(content: SessionContent) -> Iterator[Item]:
    if content.record is not None:
        yield ["record", asdict(content.record)]
    for placed in content.messages:
        message = placed.message
        place = [message.id, placed.parent_id, message.created_at]
        yield ["message", *place, from_json(message.content)]
    for overlay in content.overlays:
        yield ["overlay", *asdict(overlay).values()]
    for label, text in content.contexts.items():
        yield ["context", label, text]
    for entry in content.entries:
        yield ["entry", *asdict(entry).values()]
    if content.prompt is not None:
        yield ["prompt", content.prompt.prompt, content.prompt.fingerprint]


def _temporary_file() -> tempfile.SpooledTemporaryFile[bytes]:
    return tempfile.SpooledTemporaryFile(max_size=_MAX_MEMORY_BYTES)
