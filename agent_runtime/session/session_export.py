"""A session as JSON Lines: everything that is stored of it, to be kept or taken elsewhere.

Each line is an object with a `type`: first `session`, the header; then `message` in the order of
their making, parents before children; `compaction`, oldest first; `context`; `entry`; `prompt`; and
last `end`, by which a file that was cut off is told from a whole one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from agent_runtime.errors import UnknownSessionError
from agent_runtime.json_value import Json, from_json
from agent_runtime.session.message import parse_messages
from agent_runtime.session.session_record import session_record
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.session.stored_session import iso_time
from agent_runtime.storage.read_size import FIRST_ROWS, rows_at_once
from agent_runtime.storage.session_protocol import SessionReads, SessionRef
from agent_runtime.storage.session_registry import session_namespace

EXPORT_FORMAT = 1


async def export_session(store: SessionStore, session_id: str) -> AsyncIterator[str]:
    """Give a session's lines, without line ends; a session of nothing has header and end only.

    Rows that are no message are left out, and their children given to the nearest ancestor that is
    one; the last line tells how many. Messages appended meanwhile may be left out.
    """
    ref = session_ref(store, session_id)
    reads = store.reads
    record = await reads.record(ref)
    yield _line(
        type="session",
        format=EXPORT_FORMAT,
        session_id=session_id,
        record=None if record is None else session_record(record).to_json(),
    )
    # Before the messages, so that no summary is given whose messages are not.
    overlays = await reads.overlays(ref)
    messages, left_out = 0, 0
    async for line in _message_lines(reads, ref):
        if line is None:
            left_out += 1
            continue
        messages += 1
        yield line
    for overlay in overlays:
        yield _line(
            type="compaction",
            id=overlay.id,
            summary=overlay.summary,
            from_message_id=overlay.from_id,
            to_message_id=overlay.to_id,
            created_at=iso_time(overlay.created_at),
        )
    for label in await reads.context_labels(ref):
        block = await reads.context(ref, label)
        if block is not None:
            yield _line(type="context", label=label, content=block.content)
    for entry in await reads.entries(store.agent, session_namespace(session_id)):
        yield _line(type="entry", label=entry.label, key=entry.key, content=entry.content)
    prompt = await reads.prompt(ref)
    if prompt is not None:
        yield _line(type="prompt", prompt=prompt.prompt, fingerprint=prompt.fingerprint)
    yield _line(type="end", messages=messages, left_out=left_out)


async def existing_lines(lines: AsyncIterator[str], shown: str) -> AsyncIterator[str]:
    """Give the lines of a session; refuse one of which nothing is stored.

    Args:
        shown: What the session is called in the error.

    Raises:
        UnknownSessionError: It is a header and an end only.
    """
    held: list[str] | None = []
    async for line in lines:
        if held is None:
            yield line
            continue
        held.append(line)
        if len(held) < 2:
            continue
        if from_json(held[1])["type"] == "end" and from_json(held[0])["record"] is None:
            raise UnknownSessionError(f"nothing is stored of session {shown}")
        for each in held:
            yield each
        held = None


async def _message_lines(reads: SessionReads, ref: SessionRef) -> AsyncIterator[str | None]:
    """Give a line for each message, None for a row that is none."""
    # A row that is no message is known by its parent's id, so that its children find that.
    id_of: dict[int, str | None] = {}
    after, count = 0, FIRST_ROWS
    while rows := await reads.tree(ref, after, count):
        for row in rows:
            parent_id = id_of.get(row.parent_seq) if row.parent_seq is not None else None
            if not parse_messages([row.content]):
                id_of[row.seq] = parent_id
                yield None
                continue
            id_of[row.seq] = row.id
            yield _line(
                type="message",
                parent_id=parent_id,
                created_at=iso_time(row.created_at),
                message=orjson.Fragment(row.content),
            )
        after = rows[-1].seq
        count = rows_at_once(max(row.bytes for row in rows))


def _line(**fields: Json) -> str:
    return orjson.dumps(fields).decode()
