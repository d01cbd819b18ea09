"""Writing to a session's message tree: append, update, clear, overlays (contract 4, 6).

Each message carries labels: its branch and depth, and sums over its path. An append continues its
parent's branch if nothing does yet and opens a new one otherwise, so labels of stored messages
change only when messages are deleted; `deletion` does that.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import orjson

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import UnknownMessageError
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.message_deletion import delete_messages
from agent_runtime.storage.path_copy import copy_part, part_contents, visible_parts
from agent_runtime.storage.search_terms import index_terms
from agent_runtime.storage.session_protocol import (
    Appended,
    MessageWrites,
    NewMessage,
    OverlayRow,
    SessionRef,
)
from agent_runtime.storage.session_rows import Node, OpenSession, SessionRows
from agent_runtime.storage.visible_path import PathPart

logger = logging.getLogger("agent_runtime")


class MessageTree(MessageWrites):
    """`MessageWrites` as named statements."""

    def __init__(self, rows: SessionRows) -> None:
        self._rows = rows
        self._run = rows.run
        self._run_many = rows.run_many

    async def append(
        self,
        ref: SessionRef,
        messages: Sequence[NewMessage],
        parent_id: str | None,
        *,
        is_auto_parent: bool,
        is_strict: bool = False,
    ) -> list[Appended]:
        """See `MessageWrites.append`."""
        if not messages:
            return []
        wanted = {message.id for message in messages}
        if parent_id is not None and not is_auto_parent:
            wanted.add(parent_id)
        session = await self._rows.open(ref, wanted)
        nodes = {node.id: node for node in session.found}
        if is_auto_parent:
            at = _head_node(session)
            if at is not None:
                # One object for it, also if the append names it: a node is continued once.
                at = nodes.setdefault(at.id, at)
        else:
            at = nodes.get(parent_id) if parent_id is not None else None
            if at is None and parent_id is not None:
                await self._refuse_unknown(ref, parent_id, is_strict=is_strict)
        addition = _Addition(session)
        results: list[Appended] = []
        for message in messages:
            node = nodes.get(message.id)
            if node is None:
                node = addition.add(message, at)
                nodes[message.id] = node
                results.append(Appended(True, node.parent_id))
            else:
                results.append(Appended(False, node.parent_id))
            at = node
        if addition.rows:
            await self._insert(addition)
        return results

    async def visible_parts(
        self, ref: SessionRef, leaf_id: str, size: int
    ) -> list[PathPart | OverlayRow]:
        """See `MessageWrites.visible_parts`."""
        return await visible_parts(self._rows, ref, leaf_id, size)

    async def copy_part(self, part: PathPart, target: SessionRef, ids: Sequence[str]) -> bool:
        """See `MessageWrites.copy_part`."""
        return await copy_part(self._rows, part, target, ids)

    async def part_contents(self, part: PathPart) -> list[str]:
        """See `MessageWrites.part_contents`."""
        return await part_contents(self._rows, part)

    async def update(self, ref: SessionRef, message: NewMessage) -> bool:
        """See `MessageWrites.update`."""
        session = await self._rows.find(ref)
        if session is None:
            return False
        at = (session.number, message.id)
        found = await self._run(sql.FIND_FOR_UPDATE, at)
        if not found:
            return False
        [(number, branch, depth, old_bytes, old_tokens)] = found
        size = len(message.content.encode())
        await self._run(
            sql.UPDATE_MESSAGE, (message.role, message.content, size, message.tokens, *at)
        )
        more = (size - old_bytes, message.tokens - old_tokens)
        if more != (0, 0):
            [(has_children,)] = await self._run(sql.HAS_CHILDREN, at)
            if has_children:
                await self._run(
                    sql.SHIFT_SIZES,
                    {
                        "branch": branch,
                        "depth": depth,
                        "session": session.number,
                        "bytes": more[0],
                        "tokens": more[1],
                    },
                )
            else:
                await self._run(sql.SHIFT_TIP_SIZES, (*more, session.number, branch, depth))
        await self._run(self._rows.dialect.delete_message_terms, (number,))
        terms = index_terms(message.text, session.number)
        if terms:
            await self._run(self._rows.dialect.put_message_terms, (number, terms))
        return True

    async def delete(self, ref: SessionRef, message_ids: Sequence[str]) -> list[str]:
        """See `MessageWrites.delete`."""
        session = await self._rows.find(ref)
        if session is None or not message_ids:
            return []
        return await delete_messages(self._rows, ref, session.number, message_ids)

    async def clear(self, ref: SessionRef) -> None:
        """See `MessageWrites.clear`."""
        session = await self._rows.find(ref)
        if session is not None:
            await self._rows.clear(session.number)

    async def add_overlay(self, ref: SessionRef, overlay: OverlayRow, tokens: int) -> OverlayRow:
        """See `MessageWrites.add_overlay`."""
        number = (await self._rows.open(ref)).number
        before = await self._run(sql.CURRENT_OVERLAYS_FROM, (number, overlay.from_id))
        await self._run(
            sql.ADD_OVERLAY,
            (
                number,
                overlay.id,
                overlay.from_id,
                overlay.to_id,
                tokens,
                overlay.created_at,
                overlay.summary,
            ),
        )
        [(ordinal, *fields)] = await self._run(sql.READ_OVERLAY, (number, overlay.id))
        path = await self._rows.path_to(ref, overlay.to_id) if before else None
        if path is not None and fields[2] == overlay.from_id:
            # It starts where they do and ends below them: where it applies they never show again.
            hidden = [[row[0]] for row in before if path.holds(row[3], row[4]) and row[0] < ordinal]
            await self._run(sql.SUPERSEDE_OVERLAYS, (ordinal, orjson.dumps(hidden).decode()))
        return OverlayRow(*fields)

    async def _refuse_unknown(self, ref: SessionRef, parent_id: str, *, is_strict: bool) -> None:
        if is_strict:
            raise UnknownMessageError(
                f"the parent {parent_id!r} does not exist in this session; nothing was stored",
                parent_id=parent_id,
            )
        logger.warning(
            "%s session %r: the parent %r does not exist, the message starts a new root",
            ref.agent,
            ref.session_id,
            parent_id,
        )

    async def _insert(self, addition: _Addition) -> None:
        session = addition.session
        if addition.branches:
            await self._run_many(sql.ADD_BRANCH, addition.branches)
        await self._run_many(sql.ADD_MESSAGE, addition.rows)
        terms = [
            (terms, session.number, seq)
            for seq, text in addition.texts
            if (terms := index_terms(text, session.number))
        ]
        if terms:
            await self._run_many(self._rows.dialect.add_message_terms, terms)
        await self._run_many(
            sql.MOVE_HEAD,
            [(addition.next_seq - 1, addition.next_seq, addition.next_branch, session.number)],
        )


class _Addition:
    """Rows on their way in: labels each new message after its parent."""

    def __init__(self, session: OpenSession) -> None:
        self.session = session
        self.next_seq = session.next_seq
        self.next_branch = session.next_branch
        self.rows: list[tuple[object, ...]] = []
        self.branches: list[tuple[int, int, int, int]] = []
        self.texts: list[tuple[int, str]] = []
        self._now = now_milliseconds()

    def add(self, message: NewMessage, parent: Node | None) -> Node:
        size = len(message.content.encode())
        if parent is not None and not parent.is_continued:
            branch = parent.branch
            parent.is_continued = True
        else:
            branch = self.next_branch
            self.next_branch += 1
            if parent is not None:
                self.branches.append((self.session.number, branch, parent.branch, parent.depth))
        node = Node(
            message.id,
            self.next_seq,
            branch,
            parent.depth + 1 if parent else 0,
            (parent.path_bytes if parent else 0) + size,
            (parent.path_tokens if parent else 0) + message.tokens,
            parent.id if parent else None,
            is_continued=False,
        )
        self.next_seq += 1
        self.rows.append(
            (
                self.session.number,
                node.seq,
                message.id,
                parent.seq if parent else None,
                branch,
                node.depth,
                size,
                message.tokens,
                node.path_bytes,
                node.path_tokens,
                self._now if message.created_at is None else message.created_at,
                message.role,
                message.content,
            )
        )
        if message.text:
            self.texts.append((node.seq, message.text))
        return node


def _head_node(session: OpenSession) -> Node | None:
    head = session.head
    if head is None:
        return None
    return Node(
        head.message_id,
        head.seq,
        head.branch,
        head.depth,
        head.path_bytes,
        head.path_tokens,
        parent_id=None,
        is_continued=False,
    )
