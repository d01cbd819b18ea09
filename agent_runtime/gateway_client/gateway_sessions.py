"""An agent's registry of conversations, over a gateway's HTTP API."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from datetime import timedelta
from typing import BinaryIO

from agent_runtime.client.sessions_handle import ImportedTables, SessionsHandle
from agent_runtime.errors import InvalidRequestError, UnknownSessionError
from agent_runtime.gateway_client.gateway_http import GatewayHttp
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.model_usage import ModelUsage, day_text
from agent_runtime.session.session_file import file_lines
from agent_runtime.session.session_import import ImportedSession
from agent_runtime.session.session_json import fields_of, from_wire
from agent_runtime.session.session_listing import ListedSession
from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.session_record import SessionRecord
from agent_runtime.session.session_segment import path_segment, session_segment
from agent_runtime.storage.session_protocol import MAX_DAY

_CHUNK_BYTES = 64 * 1024

Send = Callable[[str, str, Json], Awaitable[Json]]
"""Sends a request: its HTTP method, the path below the agent, the body."""


class GatewaySessions:
    """What a `SessionsHandle` calls and reads with, in requests."""

    def __init__(self, http: GatewayHttp, ref: AgentRef) -> None:
        self._http = http
        self._agent = f"/{path_segment(ref.class_name)}/{path_segment(ref.name)}"

    async def call(
        self,
        method: str,
        session_id: str,
        args: Sequence[Json],
        key: str | None,
        timeout: timedelta | None,
    ) -> Json:
        """Run one of the registry's methods and return what it returns."""

        async def send(verb: str, path: str, body: Json) -> Json:
            place = self._agent + path
            return await self._http.change(verb, place, body, idempotency_key=key, timeout=timeout)

        return await _CALLS[method](send, f"/sessions/{session_segment(session_id)}", args)

    async def list_all(self, after: str | None, limit: int) -> list[ListedSession]:
        """See `SessionsReader.list_all`."""
        found: list[ListedSession] = []
        while len(found) < limit:
            query = [("limit", str(limit - len(found)))]
            if after is not None:
                query.append(("after", after))
            page = await self._http.get(f"{self._agent}/sessions", query)
            found += [_listed(row) for row in page["sessions"]]
            after = page["next"]
            if after is None:
                break
        return found

    async def records(self, limit: int, offset: int) -> list[SessionRecord]:
        """See `SessionsReader.records`."""
        found: list[SessionRecord] = []
        following: int | None = offset
        while following is not None and len(found) < limit:
            query = [("limit", str(limit - len(found))), ("offset", str(following))]
            page = await self._http.get(f"{self._agent}/session-records", query)
            found += [from_wire(SessionRecord, row) for row in page["records"]]
            following = page["next"]
        return found

    async def get(self, session_id: str) -> SessionRecord | None:
        """See `SessionsReader.get`."""
        path = f"{self._agent}/sessions/{session_segment(session_id)}/record"
        try:
            return from_wire(SessionRecord, await self._http.get(path))
        except UnknownSessionError:
            return None

    async def model_usage(
        self, session_id: str | None, since: int, until: int, limit: int, offset: int
    ) -> list[ModelUsage]:
        """See `SessionsReader.model_usage`."""
        wanted = [] if session_id is None else [("session", session_segment(session_id))]
        if since > 0:
            wanted.append(("since", day_text(since)))
        if until < MAX_DAY:
            wanted.append(("until", day_text(until)))
        found: list[ModelUsage] = []
        following: int | None = offset
        while following is not None and len(found) < limit:
            part = [("limit", str(limit - len(found))), ("offset", str(following))]
            page = await self._http.get(f"{self._agent}/session-usage", [*wanted, *part])
            found += [from_wire(ModelUsage, row) for row in page["usage"]]
            following = page["next"]
        return found

    async def search(
        self, query: str, limit: int, session_ids: Sequence[str] | None
    ) -> list[SearchHit]:
        """See `SessionsReader.search`."""
        if session_ids is not None and not session_ids:
            return []
        given = [("session", session_segment(each)) for each in session_ids or ()]
        asked = [("q", query), ("limit", str(limit)), *given]
        found = await self._http.get(f"{self._agent}/session-search", asked)
        return [from_wire(SearchHit, row) for row in found["hits"]]

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Give everything that is stored of a session as lines."""
        return self._http.lines(f"{self._agent}/sessions/{session_segment(session_id)}/export")

    async def upload(
        self, lines: Iterable[str], session_id: str | None, timeout: timedelta | None
    ) -> ImportedSession:
        """Send the lines of a session and return what was stored."""
        async with aclosing(_chunks(lines)) as content:
            answer = await self._http.upload(
                f"{self._agent}/session-import",
                content,
                media_type="application/jsonl",
                query=[] if session_id is None else [("session", session_segment(session_id))],
                timeout=timeout,
            )
        return from_wire(ImportedSession, answer)


class GatewaySessionsHandle(SessionsHandle):
    """An agent's registry of conversations, through a gateway: `GatewayAgent.sessions()`.

    What gets lost on the way is sent again under its key, but for exports and imports: these raise
    UnavailableError, and may be repeated.
    """

    def __init__(self, sessions: GatewaySessions) -> None:
        super().__init__(sessions.call, sessions, sessions.export)
        self._sessions = sessions

    def export(self, session_id: str) -> AsyncIterator[str]:
        """Give everything that is stored of a session as lines, as they come.

        Raises:
            UnknownSessionError: Nothing is stored of it.
            UnavailableError: The gateway was lost; the last line, of type `end`, is missing then.
        """
        return super().export(session_id)

    async def import_lines(
        self,
        lines: Iterable[str],
        *,
        session_id: str | None = None,
        timeout: timedelta | None = None,
    ) -> ImportedSession:
        """Bring a session back from the lines that `export` gave, sent as they are read.

        The gateway checks all before it stores any. If it fails on the way, repeat it: what is
        stored already is passed over.

        Args:
            session_id: Where to; by default the id it had. A session that holds anything else is
                refused.
            timeout: How long the whole of it may take.

        Raises:
            InvalidImportError: A line is not what it should be, the end is missing, or the session
                holds something else.
            MessageTooLargeError: One message is more than a call takes.
            UnavailableError: The gateway was lost.
        """
        return await self._sessions.upload(lines, session_id, timeout)

    async def import_file(
        self,
        file: BinaryIO,
        *,
        session_id: str | None = None,
        timeout: timedelta | None = None,
    ) -> ImportedSession:
        """Bring a session back as `import_lines` does, from a seekable file."""
        return await self.import_lines(file_lines(file), session_id=session_id, timeout=timeout)

    async def import_reference(
        self, path: str | os.PathLike[str], *, timeout: timedelta | None = None
    ) -> ImportedTables:
        """Refuse: a gateway takes one session at a time.

        Raises:
            InvalidRequestError: Always.
        """
        raise InvalidRequestError(
            "the reference's tables are not imported through a gateway; use an AgentClient, or "
            "`agent-runtime session import --reference`"
        )


async def _chunks(lines: Iterable[str]) -> AsyncGenerator[bytes]:
    parts: list[bytes] = []
    size = 0
    for line in lines:
        parts.append(line.rstrip("\r\n").encode(errors="surrogatepass") + b"\n")
        size += len(parts[-1])
        if size >= _CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


def _listed(row: dict[str, Json]) -> ListedSession:
    record = row["record"]
    return ListedSession(
        row["sessionId"], None if record is None else from_wire(SessionRecord, record)
    )


_Call = Callable[[Send, str, Sequence[Json]], Awaitable[Json]]


async def _create(send: Send, place: str, args: Sequence[Json]) -> Json:
    names = ("name", "parentSessionId", "model", "source")
    body = dict(zip(names, args, strict=True))
    return fields_of(SessionRecord, await send("POST", "/sessions", body))


async def _rename(send: Send, place: str, args: Sequence[Json]) -> Json:
    [name] = args
    await _if_registered(send("PATCH", f"{place}/record", {"name": name}))


async def _delete(send: Send, place: str, args: Sequence[Json]) -> Json:
    await send("DELETE", place, None)


async def _add_usage(send: Send, place: str, args: Sequence[Json]) -> Json:
    names = ("inputTokens", "outputTokens", "cost")
    body = dict(zip(names, args, strict=True))
    await _if_registered(send("POST", f"{place}/usage", body))


async def _fork(send: Send, place: str, args: Sequence[Json]) -> Json:
    body = dict(zip(("atMessageId", "name", "copyContext"), args, strict=True))
    return fields_of(SessionRecord, await send("POST", f"{place}/fork", body))


async def _compact_and_split(send: Send, place: str, args: Sequence[Json]) -> Json:
    body = dict(zip(("summary", "name"), args, strict=True))
    return fields_of(SessionRecord, await send("POST", f"{place}/split", body))


async def _if_registered(sending: Awaitable[Json]) -> None:
    try:
        await sending
    except UnknownSessionError:
        return  # the answer is its record; there is none, and nothing was to be changed


_CALLS: dict[str, _Call] = {
    "create_session": _create,
    "rename_session": _rename,
    "delete_session": _delete,
    "add_usage": _add_usage,
    "fork": _fork,
    "compact_and_split": _compact_and_split,
}
