"""What the checks of session storage share: messages to put in, and reading them back by id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from agent_runtime.storage.session_protocol import (
    Appended,
    NewMessage,
    OverlayRow,
    SessionReads,
    SessionRef,
    VisibleRow,
)
from agent_runtime.testing.storage_bench import OTHER, ROOM, StorageBench, expect

CHAT: Final = SessionRef(ROOM, "chat")
NEIGHBOURS: Final = (SessionRef(ROOM, ""), SessionRef(ROOM, "Chat"), SessionRef(OTHER, "chat"))
"""Sessions that a check of `CHAT` must not touch."""

AUTO: Final = "\0auto"
"""As a parent: the latest leaf."""

SEARCH_LIMIT = 20


class SessionBench:
    """One session of the storage under test."""

    def __init__(self, bench: StorageBench, ref: SessionRef = CHAT) -> None:
        self.bench = bench
        self.ref = ref

    def of(self, ref: SessionRef) -> SessionBench:
        """Return another session of the same storage."""
        return SessionBench(self.bench, ref)

    @property
    def reads(self) -> SessionReads:
        """The storage's reading half, also after it was opened again."""
        return self.bench.storage.sessions

    async def append(
        self, *messages: NewMessage | str, parent: str | None = AUTO, is_strict: bool = False
    ) -> list[Appended]:
        """Append messages; a string is the id of one that holds `<id> message`."""
        rows = [message(each) if isinstance(each, str) else each for each in messages]
        return await self.bench.storage.write(
            lambda tx: tx.sessions.messages.append(
                self.ref,
                rows,
                None if parent == AUTO else parent,
                is_auto_parent=parent == AUTO,
                is_strict=is_strict,
            )
        )

    async def chain(self, count: int, prefix: str = "m", first: int = 0) -> None:
        """Append messages `m0`, `m1`, ... with alternating roles."""
        await self.append(*(numbered(n, prefix) for n in range(first, first + count)))

    async def update(self, new: NewMessage) -> bool:
        """Replace a message's content."""
        return await self.bench.storage.write(lambda tx: tx.sessions.messages.update(self.ref, new))

    async def delete(self, *ids: str) -> list[str]:
        """Remove messages and return which were there."""
        return await self.bench.storage.write(lambda tx: tx.sessions.messages.delete(self.ref, ids))

    async def clear(self) -> None:
        """Remove all messages and overlays."""
        await self.bench.storage.write(lambda tx: tx.sessions.messages.clear(self.ref))

    async def overlay(
        self, name: str, from_id: str, to_id: str, *, tokens: int = 7, at: int = 5
    ) -> OverlayRow:
        """Store an overlay called `name` whose summary is `Summary <name>`."""
        row = OverlayRow(name, f"Summary {name}", from_id, to_id, at)
        return await self.bench.storage.write(
            lambda tx: tx.sessions.messages.add_overlay(self.ref, row, tokens)
        )

    async def delete_session(self) -> None:
        """Remove every row of the session."""
        await self.bench.storage.write(lambda tx: tx.sessions.registry.delete_session(self.ref))

    async def visible(self, leaf: str | None = None) -> list[str]:
        """Return ids of the visible history; a summary is `<name>!`."""
        return visible_ids(await self.reads.history(self.ref, leaf))

    async def pages(self, max_bytes: int, leaf: str | None) -> list[str]:
        """Return ids of the visible history, read page by page."""
        page = await self.reads.page(self.ref, leaf, max_bytes)
        found = visible_ids(page.rows)
        while page.earlier_leaf is not None:
            page = await self.reads.page(self.ref, page.earlier_leaf, max_bytes)
            found = visible_ids(page.rows) + found
        return found

    async def raw(self, leaf: str | None = None) -> list[str]:
        """Return ids of the raw path."""
        return [row.id for row in await self.reads.sizes(self.ref, leaf)]

    async def latest(self) -> str | None:
        """Return the latest leaf's id."""
        content = await self.reads.latest(self.ref)
        return None if content is None else message_id(content)

    async def children(self, parent: str) -> list[str]:
        """Return ids of a message's children."""
        return [message_id(each) for each in await self.reads.children(self.ref, parent)]

    async def recent(self, max_bytes: int, min_messages: int = 1) -> tuple[list[str], bool]:
        """Return ids of the end of the path that fits, and whether more was left out."""
        found = await self.reads.recent(self.ref, None, max_bytes, min_messages)
        return visible_ids(found.rows), found.is_truncated

    async def found(self, query: str, *ids: str, limit: int = SEARCH_LIMIT) -> list[str]:
        """Return ids of hits in this session, or in the named ones."""
        hits = await self.reads.search(self.ref.agent, ids or (self.ref.session_id,), query, limit)
        return [hit.id for hit in hits]

    async def expect_path(self, *ids: str, leaf: str | None = None) -> None:
        """Check a path by every read that tells of it.

        Raises:
            AssertionError: They disagree with what is expected.
        """
        expect(list(ids), await self.raw(leaf), "raw path")
        expect(len(ids), await self.reads.length(self.ref, leaf), "length")
        if leaf is None:
            expect(ids[-1] if ids else None, await self.latest(), "latest leaf")


def message(
    id: str,
    text: str | None = None,
    *,
    role: str = "user",
    tokens: int = 10,
    searched: str | None = None,
) -> NewMessage:
    """Make a message of one text part, found by that text unless said otherwise."""
    text = f"{id} message" if text is None else text
    content = orjson.dumps({"id": id, "role": role, "parts": [{"type": "text", "text": text}]})
    return NewMessage(id, role, content.decode(), tokens, text if searched is None else searched)


def numbered(number: int, prefix: str = "m") -> NewMessage:
    """Make the `number`-th message of a chain."""
    role = "assistant" if number % 2 else "user"
    return message(f"{prefix}{number}", f"{prefix} message {number}", role=role, tokens=number + 1)


def ids(first: int, last: int, prefix: str = "m") -> list[str]:
    """Return `m<first>` to `m<last>`."""
    return [f"{prefix}{number}" for number in range(first, last + 1)]


def message_id(content: str) -> str:
    """Return the id in a message's JSON text."""
    found: str = orjson.loads(content)["id"]
    return found


def visible_ids(rows: Sequence[VisibleRow]) -> list[str]:
    """Return what a history shows: message ids, and `<overlay>!` for summaries."""
    shown = []
    for row in rows:
        if isinstance(row, OverlayRow):
            expect(f"Summary {row.id}", row.summary, "summary")
            shown.append(f"{row.id}!")
        else:
            shown.append(message_id(row))
    return shown
