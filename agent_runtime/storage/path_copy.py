"""Copying a part of a path into another session without reading its messages (contract 19.5).

A message's text holds its id. Where that comes first in it, as nearly everywhere, a copy is the
text with another id in that place; sizes, labels and terms of the index are made of those there.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from agent_runtime.clock import now_milliseconds
from agent_runtime.json_value import Json
from agent_runtime.storage import message_statements as sql
from agent_runtime.storage.path_reader import PathReader
from agent_runtime.storage.search_terms import scope_prefix
from agent_runtime.storage.session_protocol import OverlayRow, SessionRef
from agent_runtime.storage.session_rows import SessionRows
from agent_runtime.storage.visible_path import PathPart


async def visible_parts(
    rows: SessionRows, ref: SessionRef, leaf_id: str, size: int
) -> list[PathPart | OverlayRow]:
    """See `MessageWrites.visible_parts`."""
    # Kept from other writers: no label of the path changes before it is copied.
    if await rows.find(ref) is None:
        return []
    path = await rows.path_to(ref, leaf_id)
    if path is None:
        return []
    return await PathReader(rows.run, path, is_lenient=True).parts(size)


async def part_contents(rows: SessionRows, part: PathPart) -> list[str]:
    """See `MessageWrites.part_contents`."""
    return await PathReader(rows.run, part.path, is_lenient=True).contents(part)


async def copy_part(
    rows: SessionRows, part: PathPart, target: SessionRef, ids: Sequence[str]
) -> bool:
    """See `MessageWrites.copy_part`."""
    source: dict[str, Json] = {"source": part.path.session, "rows": _places(part, ids)}
    [(count,)] = await rows.run(sql.COUNT_COPYABLE, source)
    if count != part.length:
        return False
    session = await rows.open(target)
    head = session.head
    await rows.run(
        sql.COPY_MESSAGES,
        {
            **source,
            "target": session.number,
            "seq": session.next_seq,
            "parent": head.seq if head else None,
            "branch": head.branch if head else session.next_branch,
            "depth": head.depth + 1 if head else 0,
            "bytes": head.path_bytes if head else 0,
            "tokens": head.path_tokens if head else 0,
            "now": now_milliseconds(),
        },
    )
    await rows.run(
        rows.dialect.copy_message_terms,
        {
            **source,
            "target": session.number,
            "seq": session.next_seq,
            "old": scope_prefix(part.path.session),
            "new": scope_prefix(session.number),
        },
    )
    following = session.next_seq + part.length
    next_branch = session.next_branch if head else session.next_branch + 1
    await rows.run(sql.MOVE_HEAD, (following - 1, following, next_branch, session.number))
    return True


def _places(part: PathPart, ids: Sequence[str]) -> str:
    """Return branch, depth, place and new id of each message as JSON text."""
    labels = [
        (each.branch, depth)
        for each in part.path.slice(part.first_depth, part.last_depth)
        for depth in range(each.first_depth, each.last_depth + 1)
    ]
    rows = [[*at, place, copy] for place, (at, copy) in enumerate(zip(labels, ids, strict=True))]
    return orjson.dumps(rows).decode()
