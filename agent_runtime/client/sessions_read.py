"""Reading what concerns several of an agent's conversations, with the storage or by its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Protocol

from agent_runtime.client.session_page import Ask, answer, ask_items, ask_value
from agent_runtime.client.session_read import ReadOnlyStore
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.model_usage import ModelUsage, model_usage
from agent_runtime.session.session_listing import ListedSession, list_sessions
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.session_record import SessionRecord
from agent_runtime.storage.session_protocol import SessionReads


class SessionsReader(Protocol):
    """What a `SessionsHandle` reads with."""

    async def list_all(self, after: str | None, limit: int) -> list[ListedSession]:
        """Return the sessions that hold anything or are registered, in order of their ids."""

    async def records(self, limit: int, offset: int) -> list[SessionRecord]:
        """Return the records of registered sessions, the last changed one first."""

    async def get(self, session_id: str) -> SessionRecord | None:
        """Return a session's record."""

    async def model_usage(
        self, session_id: str | None, since: int, until: int, limit: int, offset: int
    ) -> list[ModelUsage]:
        """Return what models have cost, by days since 1970."""

    async def search(
        self, query: str, limit: int, session_ids: Sequence[str] | None
    ) -> list[SearchHit]:
        """Return messages of registered sessions that hold every word, best first."""


class StoredSessionsReader:
    """Reads them from the storage."""

    def __init__(self, reads: SessionReads, agent: AgentRef) -> None:
        self._reads = reads
        self._agent = agent
        self._manager = SessionManager(ReadOnlyStore(reads, agent))

    async def list_all(self, after: str | None, limit: int) -> list[ListedSession]:
        """See `SessionsReader.list_all`."""
        return await list_sessions(self._reads, self._agent, after, limit)

    async def records(self, limit: int, offset: int) -> list[SessionRecord]:
        """See `SessionsReader.records`."""
        return await self._manager.list(limit=limit, offset=offset)

    async def get(self, session_id: str) -> SessionRecord | None:
        """See `SessionsReader.get`."""
        return await self._manager.get(session_id)

    async def model_usage(
        self, session_id: str | None, since: int, until: int, limit: int, offset: int
    ) -> list[ModelUsage]:
        """See `SessionsReader.model_usage`."""
        rows = await self._reads.usage_of_days(
            self._agent,
            session_id=session_id,
            since=since,
            until=until,
            limit=limit,
            offset=offset,
        )
        return [model_usage(row) for row in rows]

    async def search(
        self, query: str, limit: int, session_ids: Sequence[str] | None
    ) -> list[SearchHit]:
        """See `SessionsReader.search`."""
        return await self._manager.search(query, limit, session_ids=session_ids)


class RemoteSessionsReader:
    """Reads them by asking the agent's worker."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def list_all(self, after: str | None, limit: int) -> list[ListedSession]:
        """See `SessionsReader.list_all`."""
        rows = await ask_items(self._ask, _request("list_all", after, limit))
        return [_listed(row) for row in rows]

    async def records(self, limit: int, offset: int) -> list[SessionRecord]:
        """See `SessionsReader.records`."""
        rows = await ask_items(self._ask, _request("records", limit, offset))
        return [SessionRecord(**row) for row in rows]

    async def get(self, session_id: str) -> SessionRecord | None:
        """See `SessionsReader.get`."""
        row = await ask_value(self._ask, _request("get", session_id))
        return None if row is None else SessionRecord(**row)

    async def model_usage(
        self, session_id: str | None, since: int, until: int, limit: int, offset: int
    ) -> list[ModelUsage]:
        """See `SessionsReader.model_usage`."""
        wanted = _request("model_usage", session_id, since, until, limit, offset)
        return [ModelUsage(**row) for row in await ask_items(self._ask, wanted)]

    async def search(
        self, query: str, limit: int, session_ids: Sequence[str] | None
    ) -> list[SearchHit]:
        """See `SessionsReader.search`."""
        wanted = None if session_ids is None else list(session_ids)
        rows = await ask_items(self._ask, _request("search", query, limit, wanted))
        return [SearchHit(**row) for row in rows]


async def answer_sessions_query(
    reads: SessionReads, ref: AgentRef, fields: dict[str, Json]
) -> Json:
    """Answer what `RemoteSessionsReader` asks."""
    reader = StoredSessionsReader(reads, ref)
    return answer(await _READS[fields["method"]](reader, fields["args"]), fields["start"])


def _request(method: str, *args: Json) -> dict[str, Json]:
    return {"read": "sessions", "method": method, "args": list(args)}


def _listed(row: dict[str, Json]) -> ListedSession:
    record = row["record"]
    return ListedSession(row["session_id"], None if record is None else SessionRecord(**record))


async def _list_all(reader: StoredSessionsReader, args: list[Json]) -> Json:
    return [asdict(each) for each in await reader.list_all(*args)]


async def _records(reader: StoredSessionsReader, args: list[Json]) -> Json:
    return [asdict(record) for record in await reader.records(*args)]


async def _get(reader: StoredSessionsReader, args: list[Json]) -> Json:
    record = await reader.get(*args)
    return None if record is None else asdict(record)


async def _model_usage(reader: StoredSessionsReader, args: list[Json]) -> Json:
    return [asdict(each) for each in await reader.model_usage(*args)]


async def _search(reader: StoredSessionsReader, args: list[Json]) -> Json:
    return [asdict(hit) for hit in await reader.search(*args)]


_READS: dict[str, Callable[[StoredSessionsReader, list[Json]], Awaitable[Json]]] = {
    "list_all": _list_all,
    "records": _records,
    "get": _get,
    "model_usage": _model_usage,
    "search": _search,
}
