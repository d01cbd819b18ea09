"""An agent's registry of conversations over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from agent_runtime.client.handle import AgentHandle
from agent_runtime.client.sessions_handle import MAX_LISTED
from agent_runtime.errors import InvalidRequestError, UnknownSessionError
from agent_runtime.gateway.bounded_answer import fitting, read_page
from agent_runtime.gateway.request_parts import (
    Handler,
    Params,
    body_fields,
    json_answer,
    query_day,
    query_number,
    request_key,
    search_terms,
    text_field,
)
from agent_runtime.gateway.session_routes import SESSION, SESSIONS
from agent_runtime.json_value import Json
from agent_runtime.session.session_json import all_to_wire, to_wire
from agent_runtime.session.session_listing import ListedSession
from agent_runtime.session.session_segment import session_id_of
from agent_runtime.session.usage_limits import check_usage

MAX_OFFSET = 10**9
USAGE = "/api/agents/{agent}/{name}/session-usage"
SEARCH = "/api/agents/{agent}/{name}/session-search"
RECORDS = "/api/agents/{agent}/{name}/session-records"


class SessionsRoutes:
    """Serves the registry.

    Args:
        agent_of: Returns the agent that a path names.
    """

    def __init__(self, agent_of: Callable[[Params], AgentHandle]) -> None:
        self._agent_of = agent_of
        self.endpoints: dict[str, dict[str, Handler]] = {
            SESSIONS: {"GET": self._list, "POST": self._create},
            SEARCH: {"GET": self._search},
            RECORDS: {"GET": self._get_records},
            USAGE: {"GET": self._get_usage},
            f"{SESSION}/record": {
                "GET": self._get_record,
                "PATCH": self._rename,
            },
            f"{SESSION}/usage": {"POST": self._add_usage},
            f"{SESSION}/fork": {"POST": self._fork},
            f"{SESSION}/split": {"POST": self._split},
        }

    async def _list(self, request: Request, params: Params) -> Response:
        sessions = self._agent_of(params).sessions()
        limit = query_number(request, "limit", 100, least=1, most=MAX_LISTED)
        after = request.query_params.get("after")

        async def read(after: str | None, count: int) -> Sequence[ListedSession]:
            return await sessions.list_all(after=after, limit=count)

        # A full page may be the last one; then the next is empty.
        rows, following = await read_page(read, after, limit, lambda each: each.session_id, _row)
        return json_answer({"sessions": rows, "next": following})

    async def _create(self, request: Request, params: Params) -> Response:
        sessions = self._agent_of(params).sessions()
        fields = await body_fields(request, ("name",), ("parentSessionId", "model", "source"))
        record = await sessions.create(
            text_field(fields, "name"),
            parent_session_id=_optional(fields, "parentSessionId"),
            model=_optional(fields, "model"),
            source=_optional(fields, "source"),
            idempotency_key=request_key(request),
        )
        return json_answer(to_wire(record))

    async def _search(self, request: Request, params: Params) -> Response:
        wanted = request.query_params.getlist("session") or None
        ids = None if wanted is None else [session_id_of(each) for each in wanted]
        query, limit = search_terms(request)
        hits = await self._agent_of(params).sessions().search(query, limit, session_ids=ids)
        return json_answer({"hits": fitting(all_to_wire(hits))})

    async def _get_records(self, request: Request, params: Params) -> Response:
        limit = query_number(request, "limit", 100, least=1, most=MAX_LISTED)
        offset = query_number(request, "offset", 0)
        found = await self._agent_of(params).sessions().list(limit=limit, offset=offset)
        records = fitting(all_to_wire(found))
        # A full page may be the last one; then the next is empty.
        is_last = len(records) == len(found) < limit
        return json_answer({"records": records, "next": None if is_last else offset + len(records)})

    async def _get_usage(self, request: Request, params: Params) -> Response:
        limit = query_number(request, "limit", 100, least=1, most=MAX_LISTED)
        offset = query_number(request, "offset", 0, most=MAX_OFFSET)
        session = request.query_params.get("session")
        found = (
            await self._agent_of(params)
            .sessions()
            .model_usage(
                session_id=None if session is None else session_id_of(session),
                since=query_day(request, "since"),
                until=query_day(request, "until"),
                limit=limit,
                offset=offset,
            )
        )
        following = offset + limit if len(found) == limit else None
        return json_answer({"usage": all_to_wire(found), "next": following})

    async def _get_record(self, request: Request, params: Params) -> Response:
        session_id = _id(params)
        record = await self._agent_of(params).sessions().get(session_id)
        if record is None:
            raise UnknownSessionError(f"session {session_id!r:.120} is not registered")
        return json_answer(to_wire(record))

    async def _rename(self, request: Request, params: Params) -> Response:
        sessions, session_id = self._agent_of(params).sessions(), _id(params)
        name = text_field(await body_fields(request, ("name",)), "name")
        await sessions.rename(session_id, name, idempotency_key=request_key(request))
        return await self._get_record(request, params)

    async def _add_usage(self, request: Request, params: Params) -> Response:
        sessions, session_id = self._agent_of(params).sessions(), _id(params)
        fields = await body_fields(request, (), ("inputTokens", "outputTokens", "cost"))
        usage = [fields.get(name, 0) for name in ("inputTokens", "outputTokens", "cost")]
        check_usage(*usage)
        await sessions.add_usage(session_id, *usage, idempotency_key=request_key(request))
        return await self._get_record(request, params)

    async def _fork(self, request: Request, params: Params) -> Response:
        sessions, session_id = self._agent_of(params).sessions(), _id(params)
        fields = await body_fields(request, ("atMessageId", "name"), ("copyContext",))
        copy_context = fields.get("copyContext", False)
        if not isinstance(copy_context, bool):
            raise InvalidRequestError("copyContext is true or false")
        record = await sessions.fork(
            session_id,
            text_field(fields, "atMessageId"),
            text_field(fields, "name"),
            copy_context=copy_context,
            idempotency_key=request_key(request),
        )
        return json_answer(to_wire(record))

    async def _split(self, request: Request, params: Params) -> Response:
        sessions, session_id = self._agent_of(params).sessions(), _id(params)
        fields = await body_fields(request, ("summary",), ("name",))
        record = await sessions.compact_and_split(
            session_id,
            text_field(fields, "summary"),
            _optional(fields, "name"),
            idempotency_key=request_key(request),
        )
        return json_answer(to_wire(record))


def _id(params: Params) -> str:
    return session_id_of(params["session"])


def _row(listed: ListedSession) -> Json:
    record = None if listed.record is None else to_wire(listed.record)
    return {"sessionId": listed.session_id, "record": record}


def _optional(fields: Mapping[str, Json], name: str) -> str | None:
    return None if fields.get(name) is None else text_field(fields, name)
