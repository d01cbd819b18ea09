"""An agent's registry of conversations, from outside."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import BinaryIO

from agent_runtime.argument_check import check_count
from agent_runtime.client.sessions_read import SessionsReader
from agent_runtime.errors import InvalidRequestError
from agent_runtime.idempotency_key import KeyMaker
from agent_runtime.json_value import Json
from agent_runtime.session.id_list import id_list
from agent_runtime.session.model_usage import ModelUsage, day_number
from agent_runtime.session.reference_messages import ImportProblem
from agent_runtime.session.reference_sessions import reference_sessions
from agent_runtime.session.session_batch import MAX_ITEM_BYTES, entry_batches
from agent_runtime.session.session_file import file_lines
from agent_runtime.session.session_import import ImportedSession, imported_session
from agent_runtime.session.session_listing import ListedSession
from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.session_record import SessionRecord
from agent_runtime.session.session_spool import SessionSpool
from agent_runtime.session.stored_session import check_search
from agent_runtime.storage.session_protocol import MAX_DAY

Call = Callable[[str, str, Sequence[Json], str | None, timedelta | None], Awaitable[Json]]
"""Runs a method of the registry: its name, the session's id, the arguments, key and timeout."""

Export = Callable[[str], AsyncIterator[str]]

MAX_LISTED = 1000

_KEYS = KeyMaker()


@dataclass(frozen=True, slots=True)
class ImportedTables:
    """What came over from the reference's tables.

    Args:
        sessions: One for each that there was.
        entries: How many searchable entries there were.
        problems: What could not be as it was.
    """

    sessions: list[ImportedSession]
    entries: int
    problems: list[ImportProblem]


class SessionsHandle:
    """An agent's registry of conversations, from outside; `client.agent(...).sessions()`.

    What changes it runs in the agent's own process and is on disk when it returns. Each takes an
    `idempotency_key` for repeating it safely after an error, and a `timeout` to give up waiting.
    """

    def __init__(self, call: Call, reader: SessionsReader, export: Export) -> None:
        self._call = call
        self._reader = reader
        self._export = export

    async def create(
        self,
        name: str,
        *,
        parent_session_id: str | None = None,
        model: str | None = None,
        source: str | None = None,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> SessionRecord:
        """Register a new session under a new id; names need not be unique."""
        args = [name, parent_session_id, model, source]
        return SessionRecord(
            **await self._call("create_session", "", args, idempotency_key, timeout)
        )

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return a session's record, None if it is not registered."""
        return await self._reader.get(session_id)

    async def list(self, *, limit: int = MAX_LISTED, offset: int = 0) -> list[SessionRecord]:
        """Return the records of registered sessions, the last changed one first.

        Raises:
            InvalidRequestError: `limit` is not 1 to 1,000, or `offset` below 0.
        """
        _check_range(limit, offset)
        return await self._reader.records(limit, offset)

    async def list_all(
        self, *, after: str | None = None, limit: int = MAX_LISTED
    ) -> builtins.list[ListedSession]:
        """Return all sessions, registered or not, in order of their ids.

        Args:
            after: Only those behind this id, to read on; `""` is the default session's.

        Raises:
            InvalidRequestError: `limit` is not 1 to 1,000.
        """
        _check_range(limit)
        return await self._reader.list_all(after, limit)

    async def rename(
        self,
        session_id: str,
        name: str,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        """Give a session another name; nothing happens if it is not registered."""
        await self._call("rename_session", session_id, [name], idempotency_key, timeout)

    async def delete(
        self,
        session_id: str,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        """Remove a session with all that is stored of it; nothing happens if there is none."""
        await self._call("delete_session", session_id, [], idempotency_key, timeout)

    async def add_usage(
        self,
        session_id: str,
        input_tokens: int,
        output_tokens: int,
        cost: float = 0.0,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> None:
        """Add to a session's counters; nothing happens if it is not registered."""
        args = [input_tokens, output_tokens, cost]
        await self._call("add_usage", session_id, args, idempotency_key, timeout)

    async def model_usage(
        self,
        *,
        session_id: str | None = None,
        since: date | None = None,
        until: date | None = None,
        limit: int = MAX_LISTED,
        offset: int = 0,
    ) -> builtins.list[ModelUsage]:
        """Return what the runtime's own calls of models have cost, days of UTC in order.

        Each call counts once, in turns and in summaries; sums stay as long as the session does.
        What `add_usage` was given is in the session's record alone.

        Args:
            session_id: Of this session alone, registered or not.
            since: The first day.
            until: The last day.

        Raises:
            InvalidRequestError: `limit` is not 1 to 1,000, or `offset` below 0.
        """
        _check_range(limit, offset)
        for day in (since, until):
            if not isinstance(day, date | None):
                raise InvalidRequestError(f"since and until are dates or None, not {day!r:.40}")
        first = 0 if since is None else day_number(since)
        last = MAX_DAY if until is None else day_number(until)
        return await self._reader.model_usage(session_id, first, last, limit, offset)

    async def fork(
        self,
        session_id: str,
        at_message_id: str,
        new_name: str,
        *,
        copy_context: bool = False,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> SessionRecord:
        """Continue a session from a message in a new one; see `SessionManager.fork`.

        Raises:
            UnknownSessionError: There is no such session.
            UnknownMessageError: There is no such message in it.
        """
        args = [at_message_id, new_name, copy_context]
        return SessionRecord(**await self._call("fork", session_id, args, idempotency_key, timeout))

    async def compact_and_split(
        self,
        session_id: str,
        summary: str,
        new_name: str | None = None,
        *,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> SessionRecord:
        """End a session and begin a new one with its summary.

        Raises:
            UnknownSessionError: The session is not registered.
        """
        args = [summary, new_name]
        return SessionRecord(
            **await self._call("compact_and_split", session_id, args, idempotency_key, timeout)
        )

    async def search(
        self, query: str, limit: int = 20, *, session_ids: Sequence[str] | None = None
    ) -> builtins.list[SearchHit]:
        """Return messages of registered sessions that hold every word, best first.

        Args:
            session_ids: Only in these of them.

        Raises:
            InvalidSearchError: `limit` is not 1 to 1000.
            InvalidRequestError: `session_ids` is one text, or not all of them are texts.
        """
        check_search(query, limit)
        wanted = None if session_ids is None else id_list(session_ids, "session_ids")
        return await self._reader.search(query, limit, wanted)

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Give everything that is stored of a session as lines; see `export_session`."""
        return self._export(session_id)

    async def import_lines(
        self,
        lines: Iterable[str],
        *,
        session_id: str | None = None,
        timeout: timedelta | None = None,
    ) -> ImportedSession:
        """Bring a session back from the lines that `export` gave, in calls of bounded size.

        All lines are checked before anything is sent, and wait in a temporary file: what one call
        takes and the messages' ids are in memory. If it fails on the way, repeat it: what is stored
        already is passed over.

        Args:
            session_id: Where to; by default the id it had. A session that holds anything else is
                refused.
            timeout: How long one call may take.

        Raises:
            InvalidImportError: A line is not what it should be, the end is missing, or the session
                holds something else.
            MessageTooLargeError: One message is more than a call takes.
        """
        with SessionSpool(MAX_ITEM_BYTES) as spool:
            spool.read_all(lines)
            return await self._send(spool, session_id, timeout)

    async def import_file(
        self,
        file: BinaryIO,
        *,
        session_id: str | None = None,
        timeout: timedelta | None = None,
    ) -> ImportedSession:
        """Bring a session back as `import_lines` does, whatever its size.

        Args:
            file: Must be seekable; read from its beginning.

        Raises:
            AgentRuntimeError: As `import_lines`.
        """
        with SessionSpool(MAX_ITEM_BYTES) as spool:
            # A large file takes seconds, in which this process has other things to do.
            reading = asyncio.create_task(asyncio.to_thread(spool.read_all, file_lines(file)))
            try:
                await asyncio.shield(reading)
            finally:
                # The thread cannot be stopped, and needs the file until it ends.
                await asyncio.wait([reading])
            return await self._send(spool, session_id, timeout)

    async def _send(
        self, spool: SessionSpool, session_id: str | None, timeout: timedelta | None
    ) -> ImportedSession:
        read = spool.lines
        target = read.session_id if session_id is None else session_id
        for part in spool.parts():
            args: builtins.list[Json] = [read.first_message_id, part]
            await self._call("import_batch", target, args, _KEYS.next(), timeout)
        return imported_session(read, target)

    async def import_reference(
        self, path: str | os.PathLike[str], *, timeout: timedelta | None = None
    ) -> ImportedTables:
        """Bring over all sessions of an SQLite file with the reference's tables.

        If it fails on the way, repeat it: what is stored already is passed over.

        Args:
            path: Opened for reading only.
            timeout: How long one call may take.

        Raises:
            InvalidImportError: The file cannot be read or has none of the tables, or one of its
                sessions holds something else here already.
        """
        done: list[ImportedSession] = []
        async with reference_sessions(path) as found:
            for session_id in found.session_ids:
                with SessionSpool(MAX_ITEM_BYTES) as spool:
                    await spool.read_all_async(found.export(session_id))
                    done.append(await self._send(spool, None, timeout))
            for part in entry_batches(found.entries):
                await self._call("import_entries", "", [part], _KEYS.next(), timeout)
        return ImportedTables(done, len(found.entries), found.problems)


def _check_range(limit: int, offset: int = 0) -> None:
    check_count(limit, "limit", 1, MAX_LISTED)
    check_count(offset, "offset", 0)
