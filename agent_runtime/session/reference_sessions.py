"""The sessions of the reference's own tables, as if they were this library's, to be sent away."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.reference_import import import_reference_tables
from agent_runtime.session.reference_messages import ImportProblem
from agent_runtime.session.reference_tables import ENTRIES, is_text, open_reference_tables
from agent_runtime.session.session_export import export_session
from agent_runtime.storage.session_protocol import EntryRow
from agent_runtime.storage.session_registry import shared_namespace


class _Export(Protocol):
    def __call__(self, session_id: str) -> AsyncIterator[str]: ...


@dataclass(frozen=True, slots=True)
class ReferenceSessions:
    """What a file holds.

    Args:
        session_ids: In the order of their last changes, unregistered ones last.
        export: Gives a session's lines, see `export_session`.
        entries: Searchable entries, which the reference shares by label.
        problems: What could not be as it was.
    """

    session_ids: list[str]
    export: _Export
    entries: list[EntryRow]
    problems: list[ImportProblem]


@asynccontextmanager
async def reference_sessions(path: str | os.PathLike[str]) -> AsyncIterator[ReferenceSessions]:
    """Read a file with the reference's tables into a temporary database, for as long as it is used.

    Raises:
        InvalidImportError: The file cannot be read or has none of the tables.
    """
    with tempfile.TemporaryDirectory(prefix="agent-runtime-") as folder:
        async with await open_session_store(folder) as store:
            report = await import_reference_tables(store, path)
            # SQLite takes -1 for no limit.
            registered = await store.reads.records(store.agent, limit=-1)
            ids = [record.id for record in reversed(registered)]
            others = sorted({*await store.reads.session_ids(store.agent)} - {*ids})
            yield ReferenceSessions(
                [*ids, *others],
                partial(export_session, store),
                await _entries(store, path),
                report.problems,
            )


async def _entries(store: DirectSessionStore, path: str | os.PathLike[str]) -> list[EntryRow]:
    async with open_reference_tables(path) as tables:
        rows = await tables.rows(ENTRIES)
    labels = dict.fromkeys(label for label, *_ in rows if is_text(label))
    return [
        entry
        for label in labels
        for entry in await store.reads.entries(store.agent, shared_namespace(label))
    ]
