"""A session on its way into an agent in parts, each small enough for one call.

A part is a list of items, each a list that begins with its kind. Parts are stored in their order;
one that is sent again changes nothing, since what has an id is stored once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, replace

from agent_runtime.errors import InvalidImportError, MessageTooLargeError
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.session.session_content import PlacedMessage, SessionContent, write_content
from agent_runtime.session.session_lines import SessionLines
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.session.stored_session import new_message
from agent_runtime.storage.session_protocol import (
    EntryRow,
    Namespace,
    OverlayRow,
    PromptRow,
    RecordRow,
    SessionRef,
    SessionWrites,
)
from agent_runtime.storage.session_registry import session_namespace, shared_namespace

MAX_BATCH_BYTES = 400_000
"""Temporal warns above 512 KiB."""

MAX_ITEM_BYTES = 1_900_000
"""A call takes 2,000,000 bytes, with what is around the items."""

_MAX_ITEMS = 2_000
_BEFORE_ALL = ("record", "message")


def check_lines(lines: Iterable[str]) -> SessionLines:
    """Check all lines of a session before any is sent, and return what was read, without content.

    Raises:
        InvalidImportError: A line is not what it should be, or the end is missing.
        MessageTooLargeError: One item alone is more than a call takes.
    """
    read = SessionLines()
    for line in lines:
        read.read(line)
        for item in _items(read.take()):
            _size(item)
    read.finish()
    return read


def line_batches(lines: Callable[[], Iterable[str]]) -> Iterator[list[Json]]:
    """Part a session's checked lines; there is one part at least. No more than one is in memory.

    Args:
        lines: Begins to read them; asked twice, as messages come before what refers to them.
    """
    yield from _parts(_line_items(lines))


def entry_batches(entries: Sequence[EntryRow]) -> Iterator[list[Json]]:
    """Part searchable entries that several sessions share.

    Raises:
        MessageTooLargeError: One item alone is more than a call takes.
    """
    if entries:
        yield from _parts(["entry", *asdict(entry).values()] for entry in entries)


async def import_batch(
    store: SessionStore, session_id: str, first_message_id: str | None, items: list[Json]
) -> None:
    """Store what is missing of a part of a session, in one transaction.

    Args:
        first_message_id: Of the whole session, by which one that holds something else is told.

    Raises:
        InvalidImportError: The session began otherwise, or an item is of no known kind.
        InvalidMessageError: A message is none.
        UnknownMessageError: A message's parent is neither stored nor in this part.
    """
    ref = session_ref(store, session_id)
    asked = _content(ref, items)

    async def unit(sessions: SessionWrites) -> Json:
        for row in await sessions.reads.tree(ref, 0, 1):
            if row.id != first_message_id:
                raise InvalidImportError(
                    f"session {session_id!r} holds something else already; import into another one",
                    session_id=session_id,
                )
        await write_content(sessions, ref, await _missing(sessions, ref, asked))

    await store.write("import_batch", [session_id, first_message_id, items], unit)


async def import_entries(store: SessionStore, items: list[Json]) -> None:
    """Store searchable entries for blocks that say `shared_as`; those that are there stay."""
    entries = [EntryRow(*fields) for _, *fields in items]

    async def unit(sessions: SessionWrites) -> Json:
        present: dict[str, set[str]] = {}
        for entry in entries:
            name = shared_namespace(entry.label)
            if name not in present:
                there = await sessions.reads.entries(store.agent, name)
                present[name] = {each.key for each in there}
            if entry.key not in present[name]:
                namespace = Namespace(store.agent, name, entry.label)
                await sessions.context.put_entry(namespace, entry.key, entry.content)

    await store.write("import_entries", items, unit)


def _parts(items: Iterable[list[Json]]) -> Iterator[list[Json]]:
    batch: list[Json] = []
    size = 0
    for item in items:
        item_size = _size(item)
        if batch and (size + item_size > MAX_BATCH_BYTES or len(batch) == _MAX_ITEMS):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += item_size
    yield batch


def _size(item: list[Json]) -> int:
    size = len(pack(item))
    if size > MAX_ITEM_BYTES:
        raise MessageTooLargeError(
            f"the {item[0]} {str(item[1])[:80]!r} has {size} bytes, at most {MAX_ITEM_BYTES} can "
            "be sent to an agent; shorten it",
            size=size,
            limit=MAX_ITEM_BYTES,
        )
    return size


def _line_items(lines: Callable[[], Iterable[str]]) -> Iterator[list[Json]]:
    for has_messages in (True, False):
        read = SessionLines()
        for line in lines():
            read.read(line)
            for item in _items(read.take()):
                if (item[0] in _BEFORE_ALL) == has_messages:
                    yield item


def _items(content: SessionContent) -> Iterator[list[Json]]:
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


async def _missing(
    sessions: SessionWrites, ref: SessionRef, asked: SessionContent
) -> SessionContent:
    """Leave out what is stored already and has no id that would tell."""
    labels = {*await sessions.reads.context_labels(ref)} if asked.contexts else set()
    present: set[tuple[str, str]] = set()
    if asked.entries:
        there = await sessions.reads.entries(ref.agent, session_namespace(ref.session_id))
        present = {(each.label, each.key) for each in there}
    return replace(
        asked,
        contexts={label: text for label, text in asked.contexts.items() if label not in labels},
        entries=[each for each in asked.entries if (each.label, each.key) not in present],
        prompt=None if await sessions.reads.prompt(ref) is not None else asked.prompt,
    )


def _content(ref: SessionRef, items: list[Json]) -> SessionContent:
    content = SessionContent()
    for kind, *fields in items:
        match kind:
            case "record":
                content.record = RecordRow(**{**fields[0], "id": ref.session_id})
            case "message":
                _, parent_id, created_at, message = fields
                placed = PlacedMessage(parent_id, new_message(message, created_at))
                content.messages.append(placed)
            case "overlay":
                content.overlays.append(OverlayRow(*fields))
            case "context":
                label, text = fields
                content.contexts[label] = text
            case "entry":
                content.entries.append(EntryRow(*fields))
            case "prompt":
                content.prompt = PromptRow(*fields)
            case _:
                raise InvalidImportError(f"{kind!r:.80} is no part of a session")
    return content
