"""A session on its way into an agent in parts, each small enough for one call.

A part is a list of items, as `session_spool.py` makes them. Parts are stored in their order;
one that is sent again changes nothing, since what has an id is stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace

from agent_runtime.errors import InvalidImportError
from agent_runtime.json_value import Json
from agent_runtime.session.session_content import PlacedMessage, SessionContent, write_content
from agent_runtime.session.session_spool import Item, item_parts, packed_item
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

MAX_ITEM_BYTES = 1_900_000
"""A call takes 2,000,000 bytes, with what is around the items."""


def entry_batches(entries: Sequence[EntryRow]) -> Iterator[list[Json]]:
    """Part searchable entries that several sessions share.

    Raises:
        MessageTooLargeError: One item alone is more than a call takes.
    """
    if entries:
        items: Iterator[Item] = (["entry", *asdict(entry).values()] for entry in entries)
        yield from item_parts((len(packed_item(item, MAX_ITEM_BYTES)), item) for item in items)


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
    asked = content_of(ref, items)

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


def content_of(ref: SessionRef, items: list[Json]) -> SessionContent:
    """Return what a part says is to be stored.

    Raises:
        InvalidImportError: An item is of no known kind.
        InvalidMessageError: A message is none.
    """
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
