"""Continuing a conversation in a new session: by a copy, or by a summary (contract 19.5, 19.6)."""

from __future__ import annotations

import uuid
from dataclasses import replace

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import UnknownMessageError, UnknownSessionError
from agent_runtime.session.given_text import given_text
from agent_runtime.session.message import Message, parse_messages, text_message
from agent_runtime.session.session_record import checked_name
from agent_runtime.session.stored_session import new_message, synthetic_message
from agent_runtime.storage.session_protocol import (
    Namespace,
    OverlayRow,
    RecordRow,
    SessionRef,
    SessionWrites,
)
from agent_runtime.storage.session_registry import session_namespace
from agent_runtime.storage.visible_path import PathPart

END_REASON = "compaction"
SPLIT_NAME = "Compacted"
SPLIT_HEADING = "[Context from previous session]"

_COPIED_IDS = uuid.UUID("1f6d7f1c-5f0e-4f39-9d0b-6a2f3f9b7c55")
_MESSAGES_PER_APPEND = 500


def copied_message_id(session_id: str, index: int) -> str:
    """Return the id of the message at an index that a new session begins with."""
    return str(uuid.uuid5(_COPIED_IDS, f"{session_id}/{index}"))


def new_record(
    name: str,
    *,
    parent_session_id: str | None = None,
    model: str | None = None,
    source: str | None = None,
) -> RecordRow:
    """Return the record of a session that begins now, under a new id.

    Raises:
        InvalidRequestError: The name is no text, or another argument neither a text nor None.
    """
    checked_name(name)
    given = {"parent_session_id": parent_session_id, "model": model, "source": source}
    for what, value in given.items():
        if value is not None:
            given_text(value, what)
    now = now_milliseconds()
    return RecordRow(
        str(uuid.uuid4()), name, parent_session_id, model, source, 0, 0, 0.0, None, now, now
    )


async def fork(
    sessions: SessionWrites, ref: SessionRef, at_message_id: str, name: str, *, has_context: bool
) -> RecordRow:
    """Copy what is seen of a path into a new session, as one chain under new ids.

    Args:
        has_context: Copy the context blocks and their searchable entries too.

    Raises:
        UnknownSessionError: There is no session of that id, registered or not.
        UnknownMessageError: There is no such message in it.
    """
    parent = await sessions.reads.record(ref)
    parts = await sessions.messages.visible_parts(ref, at_message_id, _MESSAGES_PER_APPEND)
    if not parts:
        await _refuse(sessions, ref, at_message_id)
    record = await sessions.registry.create_record(
        ref.agent,
        new_record(
            name,
            parent_session_id=ref.session_id,
            model=parent.model if parent else None,
            source=parent.source if parent else None,
        ),
    )
    target = replace(ref, session_id=record.id)
    await _copy_messages(sessions, target, parts)
    if has_context:
        await _copy_context(sessions, ref, target)
    return record


async def split(
    sessions: SessionWrites, ref: SessionRef, summary: str, name: str | None
) -> RecordRow:
    """End a session and begin a new one with its summary.

    Raises:
        UnknownSessionError: The session is not registered.
    """
    ended = await sessions.reads.record(ref)
    if ended is None:
        raise unknown_session(ref.session_id)
    await sessions.registry.update_record(ref.agent, ref.session_id, end_reason=END_REASON)
    record = await sessions.registry.create_record(
        ref.agent,
        new_record(
            name or ended.name or SPLIT_NAME,
            parent_session_id=ref.session_id,
            model=ended.model,
            source=ended.source,
        ),
    )
    message_id = copied_message_id(record.id, 0)
    message = text_message("assistant", f"{SPLIT_HEADING}\n\n{summary}", id=message_id)
    target = replace(ref, session_id=record.id)
    await sessions.messages.append(target, [new_message(message)], None, is_auto_parent=True)
    return record


def unknown_session(session_id: str) -> UnknownSessionError:
    """Return the error for a session that is not registered."""
    return UnknownSessionError(
        f"no session {session_id!r} is registered; nothing was stored", id=session_id
    )


async def _refuse(sessions: SessionWrites, ref: SessionRef, message_id: str) -> None:
    if await sessions.reads.record(ref) is None and await sessions.reads.latest(ref) is None:
        raise unknown_session(ref.session_id)
    raise UnknownMessageError(
        f"{message_id!r} is no message of session {ref.session_id!r}; nothing was stored",
        id=message_id,
    )


async def _copy_messages(
    sessions: SessionWrites, target: SessionRef, parts: list[PathPart | OverlayRow]
) -> None:
    index = 0
    for part in parts:
        if isinstance(part, PathPart):
            places = range(index, index + part.length)
            ids = [copied_message_id(target.session_id, place) for place in places]
            if await sessions.messages.copy_part(part, target, ids):
                index += part.length
                continue
        copies = [
            new_message({**message, "id": copied_message_id(target.session_id, index + place)})
            for place, message in enumerate(await _messages(sessions, part))
        ]
        await sessions.messages.append(target, copies, None, is_auto_parent=True)
        index += len(copies)


async def _messages(sessions: SessionWrites, part: PathPart | OverlayRow) -> list[Message]:
    if isinstance(part, PathPart):
        return parse_messages(await sessions.messages.part_contents(part))
    return [{**synthetic_message(part), "metadata": {"compaction": True}}]


async def _copy_context(sessions: SessionWrites, source: SessionRef, target: SessionRef) -> None:
    for label in await sessions.reads.context_labels(source):
        block = await sessions.reads.context(source, label)
        if block is not None:
            await sessions.context.put_context(target, label, block.content)
    for entry in await sessions.reads.entries(source.agent, session_namespace(source.session_id)):
        namespace = Namespace(source.agent, session_namespace(target.session_id), entry.label)
        await sessions.context.put_entry(namespace, entry.key, entry.content)
