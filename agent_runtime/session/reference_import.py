"""Bringing conversations over from the reference's own tables (contract 20.1, 20.3)."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field

from agent_runtime.clock import now_milliseconds
from agent_runtime.json_value import Json
from agent_runtime.session.reference_messages import ImportProblem, place_messages, time_of
from agent_runtime.session.reference_tables import (
    COMPACTIONS,
    CONTEXTS,
    ENTRIES,
    MESSAGES,
    SESSIONS,
    ReferenceTables,
    is_text,
    open_reference_tables,
)
from agent_runtime.session.session_content import (
    SessionContent,
    refuse_filled,
    write_content,
)
from agent_runtime.session.session_store import SessionStore, session_ref
from agent_runtime.storage.session_protocol import (
    Namespace,
    OverlayRow,
    PromptRow,
    RecordRow,
    SessionWrites,
)
from agent_runtime.storage.session_registry import shared_namespace

_PROMPT = "_system_prompt"


@dataclass(slots=True)
class ReferenceImport:
    """What was imported, and what could not be as it was.

    Args:
        records: Sessions that are registered now.
    """

    messages: int = 0
    compactions: int = 0
    records: int = 0
    contexts: int = 0
    prompts: int = 0
    entries: int = 0
    problems: list[ImportProblem] = field(default_factory=list)


async def import_reference_tables(
    store: SessionStore, path: str | os.PathLike[str]
) -> ReferenceImport:
    """Import an SQLite file with the reference's tables, all in one transaction.

    Sessions keep their ids; messages keep ids, order and times. A parent that is gone makes its
    children roots, as the reference shows them; rows that are damaged are left out. Both are told
    in the result. Stored prompts and blocks go to the session that their key names. Searchable
    entries, which the reference shares by label, go to where
    `StoredSearchProvider(store, shared_as=label)` finds them in a block of that label.

    Args:
        path: Opened for reading only; the tables of one session at a time must fit into memory.

    Raises:
        InvalidImportError: The file cannot be read or has none of the tables, or one of its
            sessions holds something here already.
    """
    return await import_tables(store, os.fspath(path), open_reference_tables(path))


async def import_tables(
    store: SessionStore, source: str, opening: AbstractAsyncContextManager[ReferenceTables]
) -> ReferenceImport:
    """Import tables, wherever they are, all in one transaction.

    Args:
        source: Tells one import from another.
        opening: Entered within the transaction.

    Raises:
        InvalidImportError: The tables cannot be read, or one of their sessions holds something here
            already.
    """

    async def unit(sessions: SessionWrites) -> Json:
        async with opening as tables:
            return asdict(await _Import(store, sessions, tables).run())

    result = await store.write("import_reference", [source], unit)
    problems = [ImportProblem(**each) for each in result.pop("problems")]
    return ReferenceImport(**result, problems=problems)


class _Import:
    def __init__(
        self, store: SessionStore, sessions: SessionWrites, tables: ReferenceTables
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._tables = tables
        self._done = ReferenceImport()
        self._now = now_milliseconds()

    async def run(self) -> ReferenceImport:
        session_ids = {"", *await self._tables.session_ids()}
        contexts = await self._contexts(session_ids)
        records = await self._records()
        # In the order of their last changes, which is the order of the list.
        for session_id in (*records, *sorted(session_ids - records.keys())):
            content = contexts[session_id]
            content.record = records.get(session_id)
            await self._import(session_id, content)
        await self._entries()
        return self._done

    async def _import(self, session_id: str, content: SessionContent) -> None:
        rows = await self._tables.rows(MESSAGES, session_id)
        content.messages = place_messages(rows, self._done.problems)
        ids = {each.message.id for each in content.messages}
        for row in await self._tables.rows(COMPACTIONS, session_id):
            overlay = self._overlay(row, ids)
            if overlay is not None:
                content.overlays.append(overlay)
        ref = session_ref(self._store, session_id)
        if content != SessionContent():
            await refuse_filled(self._sessions, ref)
            await write_content(self._sessions, ref, content)
        done = self._done
        done.messages += len(content.messages)
        done.compactions += len(content.overlays)
        done.contexts += len(content.contexts)
        done.prompts += content.prompt is not None
        done.records += content.record is not None

    def _overlay(self, row: tuple[Json, ...], ids: set[str]) -> OverlayRow | None:
        overlay_id, summary, from_id, to_id, created_at = row
        if not is_text(overlay_id) or not is_text(summary):
            self._leave_out(COMPACTIONS, overlay_id, "its id or summary is no text")
        elif from_id not in ids or to_id not in ids:
            self._leave_out(COMPACTIONS, overlay_id, "an end of its range is no message here")
        else:
            return OverlayRow(overlay_id, summary, from_id, to_id, self._time(created_at))
        return None

    async def _records(self) -> dict[str, RecordRow]:
        found: dict[str, RecordRow] = {}
        for row in await self._tables.rows(SESSIONS):
            session_id, name, parent_id, model, source, *counters, end_reason, created, updated = (
                row
            )
            numbers = [value or 0 for value in counters]
            texts = (parent_id, model, source, end_reason)
            if not is_text(session_id) or not is_text(name):
                self._leave_out(SESSIONS, session_id, "its id or name is no text")
            elif not all(value is None or is_text(value) for value in texts):
                self._leave_out(SESSIONS, session_id, "a field that should be a text is none")
            elif not all(_is_count(value) for value in numbers):
                self._leave_out(SESSIONS, session_id, "a counter is no number")
            else:
                found[session_id] = RecordRow(
                    session_id,
                    name,
                    parent_id,
                    model,
                    source,
                    int(numbers[0]),
                    int(numbers[1]),
                    float(numbers[2]),
                    end_reason,
                    self._time(created),
                    self._time(updated),
                )
        return found

    async def _contexts(self, session_ids: set[str]) -> dict[str, SessionContent]:
        found: dict[str, SessionContent] = {each: SessionContent() for each in session_ids}
        for key, content in await self._tables.rows(CONTEXTS):
            if not is_text(key) or not is_text(content) or not key:
                self._leave_out(CONTEXTS, key, "its label or content is no text")
                continue
            label, session_id = _split_key(key, session_ids)
            if label == _PROMPT:
                found[session_id].prompt = PromptRow(content, None)
            elif label.startswith(f"{_PROMPT}_"):
                self._leave_out(CONTEXTS, key, "the prompt of a session that does not exist")
            else:
                found[session_id].contexts[label] = content
        return found

    async def _entries(self) -> None:
        agent = self._store.agent
        present: dict[str, set[tuple[str, str]]] = {}
        for label, key, content in await self._tables.rows(ENTRIES):
            if not all(is_text(value) for value in (label, key, content)):
                self._leave_out(ENTRIES, f"{label} {key}", "a field that should be a text is none")
                continue
            name = shared_namespace(label)
            if label not in present:
                there = await self._sessions.reads.entries(agent, name)
                present[label] = {(each.label, each.key) for each in there}
            if (label, key) in present[label]:
                self._leave_out(ENTRIES, f"{label} {key}", "there is one of that key here")
                continue
            await self._sessions.context.put_entry(Namespace(agent, name, label), key, content)
            self._done.entries += 1

    def _time(self, value: Json) -> int:
        found = time_of(value)
        return self._now if found is None else found

    def _leave_out(self, table: str, key: Json, reason: str) -> None:
        shown = key if is_text(key) else repr(key)
        self._done.problems.append(ImportProblem(table, shown, f"left out: {reason}"))


def _split_key(key: str, session_ids: set[str]) -> tuple[str, str]:
    """Return the label and session that a flat key stands for; the longest id that fits wins."""
    prompt_of = key.removeprefix(f"{_PROMPT}_")
    if key == _PROMPT or (prompt_of != key and prompt_of in session_ids):
        return _PROMPT, "" if key == _PROMPT else prompt_of
    for at, character in enumerate(key):
        if character == "_" and at > 0 and key[at + 1 :] and key[at + 1 :] in session_ids:
            return key[:at], key[at + 1 :]
    return key, ""


def _is_count(value: Json) -> bool:
    return isinstance(value, int | float) and value == value and abs(value) < 2**53
