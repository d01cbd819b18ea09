"""Bringing a session back from the lines that `export_session` gave."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass

from agent_runtime.json_value import Json
from agent_runtime.session.session_batch import content_of
from agent_runtime.session.session_content import refuse_filled, write_content
from agent_runtime.session.session_lines import SessionLines
from agent_runtime.session.session_spool import SessionSpool
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.storage.session_protocol import SessionWrites


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """How much an import has stored, and where."""

    session_id: str
    messages: int
    compactions: int
    contexts: int
    entries: int


def imported_session(read: SessionLines, session_id: str) -> ImportedSession:
    """Return what lines that were read to their end have brought."""
    counts = (read.counts[kind] for kind in ("message", "compaction", "context", "entry"))
    return ImportedSession(session_id, *counts)


async def import_session(
    store: SessionStore,
    lines: Iterable[str] | AsyncIterable[str],
    *,
    session_id: str | None = None,
) -> ImportedSession:
    """Restore an exported session: tree, ids, order, times, summaries, blocks, entries, prompt.

    All lines are read and checked before anything is stored, in one transaction. They wait in a
    temporary file: a part of them and the messages' ids are in memory. A session that was
    registered is registered again, unless its id is registered here already.

    Args:
        lines: With or without line ends; blank ones are passed over.
        session_id: Where to; by default the id it had. It must hold nothing yet.

    Raises:
        InvalidImportError: A line is not what it should be, or the end is missing; the message
            names the line. Or the session holds something already.
    """
    with SessionSpool() as spool:
        await spool.read_all_async(lines)
        read = spool.lines
        ref = session_ref(store, read.session_id if session_id is None else session_id)

        async def unit(sessions: SessionWrites) -> Json:
            await refuse_filled(sessions, ref)
            for part in spool.parts():
                await write_content(sessions, ref, content_of(ref, part))

        await store.write("import_session", [ref.session_id, read.digest], unit)
    return imported_session(read, ref.session_id)
