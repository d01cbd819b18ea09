"""State, history and calls of agents over plain HTTP, for those who speak no WebSocket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.service import RPCError

from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import (
    AgentRuntimeError,
    InternalError,
    InvalidAgentError,
    InvalidRequestError,
    ReadonlyConnectionError,
    StateRejectedError,
    StorageError,
    UnknownAgentClassError,
)
from agent_runtime.gateway.access import is_readonly
from agent_runtime.gateway.bounded_answer import read_page
from agent_runtime.gateway.compaction_routes import CompactionRoutes
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.gateway.openapi import document
from agent_runtime.gateway.preconditions import etag, expected_version, idempotency_key, is_known
from agent_runtime.gateway.problems import STATUS, problem, problem_of
from agent_runtime.gateway.request_parts import (
    Handler,
    Params,
    UnsupportedBody,
    json_answer,
    query_number,
    read_body,
)
from agent_runtime.gateway.session_routes import SessionRoutes
from agent_runtime.gateway.sessions_routes import SessionsRoutes
from agent_runtime.gateway.shown_history import show_history
from agent_runtime.gateway.transfer_routes import TransferRoutes
from agent_runtime.hosting.state_reader import (
    MAX_HISTORY,
    StateHistoryEntry,
    StateSnapshot,
    read_snapshot,
)
from agent_runtime.identity import AgentRef, agent_ref, kebab_case
from agent_runtime.json_value import Json, pack
from agent_runtime.mutation import FROM_CODE, FROM_HTTP, Mutation, MutationKind
from agent_runtime.registry import AgentDefinition
from agent_runtime.state import UNSET

logger = logging.getLogger("agent_runtime")

READING_METHODS = ("GET", "HEAD", "OPTIONS")
_FIRST_SEGMENTS = ("api", "healthz", "readyz", "openapi.json")
_CHECK_SECONDS = 2.0


class HttpApi:
    """Serves what is below `/api` or says how the gateway is; the application serves the rest."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app = app
        self._gateway = gateway
        self._classes = {one.class_name: one.class_name for one in gateway.registry}
        for name in list(self._classes):
            self._classes.setdefault(kebab_case(name), name)
        state = "/api/agents/{agent}/{name}/state"
        self.endpoints: dict[str, dict[str, Handler]] = {
            "/healthz": {"GET": self._health},
            "/readyz": {"GET": self._readiness},
            "/openapi.json": {"GET": self._document},
            "/api/agents": {"GET": self._list_agents},
            "/api/agents/{agent}/{name}": {"DELETE": self._destroy_agent},
            state: {
                "GET": self._get_state,
                "PUT": self._put_state,
                "PATCH": self._patch_state,
                "DELETE": self._delete_state,
            },
            "/api/agents/{agent}/{name}/history": {"GET": self._history},
            "/api/agents/{agent}/{name}/call/{method}": {"POST": self._call},
            **SessionsRoutes(self._agent).endpoints,
            **SessionRoutes(self._agent, self._has_agent).endpoints,
            **CompactionRoutes(self._agent).endpoints,
            **TransferRoutes(self._agent).endpoints,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an ASGI connection."""
        first_segment = _raw_path(scope).split("/")[1:2] if scope["type"] == "http" else []
        if first_segment and first_segment[0] in _FIRST_SEGMENTS:
            response = await self.serve(Request(scope, receive, send))
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def serve(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await self._dispatch(request)
        except AgentRuntimeError as error:
            if STATUS[type(error).__name__] >= 500:
                logger.error("%s %s: %s", request.method, request.url.path, error)
            return problem_of(error)
        except UnsupportedBody as error:
            text = f"the body must be application/json, not {error!s:.80}"
            return problem(415, "UnsupportedBody", text)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it
        except Exception as error:
            # The last place where it can be said in the form that clients of the API read.
            logger.exception("%s %s", request.method, request.url.path)
            return problem_of(InternalError(str(error)))

    async def _dispatch(self, request: Request) -> Response:
        segments = _raw_path(request.scope).split("/")
        for template, handlers in self.endpoints.items():
            params = _match(template.split("/"), segments)
            if params is None:
                continue
            allowed = [*handlers, *(["HEAD"] if "GET" in handlers else []), "OPTIONS"]
            headers = {"Allow": ", ".join(allowed)}
            if request.method == "OPTIONS":
                return Response(status_code=204, headers=headers)
            handler = handlers.get("GET" if request.method == "HEAD" else request.method)
            if handler is None:
                text = f"{request.method} is not for {template}"
                return problem(405, "MethodNotAllowed", text, headers=headers)
            if request.method not in READING_METHODS and is_readonly(request.scope):
                return problem(403, "ReadonlyToken", "this token may only read")
            return await handler(request, params)
        return problem(404, "NoSuchRoute", "there is nothing here; see /openapi.json")

    async def _health(self, request: Request, params: Params) -> Response:
        return json_answer({"status": "ok"})

    async def _readiness(self, request: Request, params: Params) -> Response:
        storage, temporal = await asyncio.gather(self._check_storage(), self._check_temporal())
        is_ready = storage == temporal == "ok"
        fields = {"status": "ready" if is_ready else "not ready"}
        return json_answer(
            {**fields, "storage": storage, "temporal": temporal}, 200 if is_ready else 503
        )

    async def _check_storage(self) -> str:
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await self._gateway.storage.read_feed_end()
        except (TimeoutError, StorageError) as error:
            logger.warning("not ready: storage: %s", error or "no answer")
            return "unavailable"
        return "ok"

    async def _check_temporal(self) -> str:
        service = self._gateway.client.temporal.service_client
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                is_sound = await service.check_health(timeout=timedelta(seconds=_CHECK_SECONDS))
        except (TimeoutError, RPCError) as error:
            logger.warning("not ready: Temporal: %s", error or "no answer")
            return "unavailable"
        return "ok" if is_sound else "unavailable"

    async def _document(self, request: Request, params: Params) -> Response:
        return json_answer(document(self._gateway.registry.class_names))

    async def _list_agents(self, request: Request, params: Params) -> Response:
        limit = query_number(request, "limit", 100, least=1, most=MAX_HISTORY)
        wanted = request.query_params.get("class")
        class_name = None if wanted is None else self._class_name(wanted)
        after = request.query_params.get("after")
        rows = await self._gateway.storage.list_agents(
            class_name=class_name,
            after=None if after is None else AgentRef(*after.partition("/")[::2]),
            limit=limit + 1,
        )
        page = rows[:limit]
        agents = [
            {
                "agent": row.ref.class_name,
                "name": row.ref.name,
                "version": row.version or 0,
                "created_at": _time(row.created_at),
                "updated_at": _time(row.updated_at),
            }
            for row in page
        ]
        return json_answer({"agents": agents, "next": str(page[-1].ref) if rows[limit:] else None})

    async def _destroy_agent(self, request: Request, params: Params) -> Response:
        agent = self._agent(params)
        self._check_may_write(agent.ref)
        key, expected = await _conditions(request, agent)
        receipt = await agent.destroy(idempotency_key=key, expected_version=expected)
        return json_answer(asdict(receipt))

    async def _get_state(self, request: Request, params: Params) -> Response:
        agent = self._agent(params)
        headers = {"Cache-Control": "no-cache"}
        if "version" in request.query_params:
            version = query_number(request, "version", 0)
            try:
                snapshot = await agent.get_state(version=version)
            except InvalidRequestError as error:
                return problem(404, "NoSuchVersion", error.message, details=error.details_map)
        else:
            snapshot = await self._show_state(agent.ref)
        headers["ETag"] = etag(snapshot.version)
        if not snapshot.is_set:
            return problem(404, "NoState", f"{agent.ref} has no state yet", headers=headers)
        if is_known(request.headers, snapshot.version):
            return Response(status_code=304, headers=headers)
        shown = self._definition(agent.ref).show(agent.ref, snapshot.value)
        return Response(pack(shown), 200, headers, "application/json")

    async def _show_state(self, ref: AgentRef) -> StateSnapshot:
        """Return what a first read would store, without storing it: GET changes nothing."""
        snapshot = await read_snapshot(self._gateway.storage, ref)
        if snapshot.is_set:
            return snapshot
        initial = self._definition(ref).schema.initial()
        return snapshot if initial is UNSET else StateSnapshot(initial, snapshot.version)

    async def _put_state(self, request: Request, params: Params) -> Response:
        agent = self._agent(params)
        return await self._write(request, agent, MutationKind.SET, await read_body(request))

    async def _patch_state(self, request: Request, params: Params) -> Response:
        agent, value = self._agent(params), await read_body(request)
        if not isinstance(value, dict):
            raise StateRejectedError("only an object can be merged into the state; use PUT")
        return await self._write(request, agent, MutationKind.MERGE, value)

    async def _delete_state(self, request: Request, params: Params) -> Response:
        return await self._write(request, self._agent(params), MutationKind.RESET)

    async def _write(
        self, request: Request, agent: AgentHandle, kind: MutationKind, value: Json = None
    ) -> Response:
        self._check_may_write(agent.ref)
        key, expected = await _conditions(request, agent)
        source = FROM_HTTP if self._definition(agent.ref).guards_state else FROM_CODE
        channel = self._gateway.client.channel
        mutation = Mutation(key or channel.new_key(), kind, value, expected, source)
        receipt = await channel.submit(agent.ref, mutation)
        headers = {"ETag": etag(receipt.version)}
        return Response(pack(asdict(receipt)), 200, headers, "application/json")

    def _check_may_write(self, ref: AgentRef) -> None:
        if not self._definition(ref).agent_class.may_clients_write:
            raise ReadonlyConnectionError(f"clients do not write the state of {ref.class_name}")

    async def _history(self, request: Request, params: Params) -> Response:
        agent = self._agent(params)
        definition = self._definition(agent.ref)
        limit = query_number(request, "limit", 100, least=1, most=MAX_HISTORY)
        newest = query_number(request, "newest", 0) if "newest" in request.query_params else None
        entries = await agent.state_history(newest=newest, limit=1)
        if not entries:
            return json_answer({"history": [], "next": None})

        async def read(above: int, count: int) -> Sequence[StateHistoryEntry]:
            if above <= 1:
                return []
            found = await agent.state_history(newest=above - 1, limit=count)
            return await show_history(self._gateway.storage, definition, agent.ref, found)

        rows, above = await read_page(
            read, entries[0].version + 1, limit, lambda entry: entry.version, _entry
        )
        following = above - 1 if above is not None and above > 1 else None
        return json_answer({"history": rows, "next": following})

    async def _call(self, request: Request, params: Params) -> Response:
        agent, fields = self._agent(params), await read_body(request)
        is_sound = isinstance(fields, dict) and fields.keys() <= {"args"}
        args = fields.get("args", []) if is_sound else None
        if not isinstance(args, list):
            raise InvalidRequestError('a call is {"args": [...]}, all of them positional')
        definition = self._definition(agent.ref)
        definition.check_call(params["method"], args)
        if definition.callable(params["method"]).streaming:
            raise InvalidRequestError(f"{params['method']} streams; call it over a WebSocket")
        key = idempotency_key(request.headers)
        result = await agent.call(params["method"], *args, idempotency_key=key)
        return json_answer({"result": result})

    def _agent(self, params: Params) -> AgentHandle:
        class_name = self._class_name(params["agent"])
        return self._gateway.client.agent(*agent_ref(class_name, params["name"]))

    def _definition(self, ref: AgentRef) -> AgentDefinition:
        return self._gateway.registry.definition(ref.class_name)

    async def _has_agent(self, ref: AgentRef) -> bool:
        return await self._gateway.storage.read_state(ref) is not None

    def _class_name(self, segment: str) -> str:
        try:
            return self._classes[segment]
        except KeyError:
            raise UnknownAgentClassError(f"there is no agent class {segment!r:.120}") from None


def _raw_path(scope: Scope) -> str:
    raw = scope.get("raw_path") or scope["path"].encode()
    return str(raw.decode("latin-1"))


def _match(template: list[str], segments: list[str]) -> Params | None:
    if len(template) != len(segments):
        return None
    params: Params = {}
    for pattern, segment in zip(template, segments, strict=True):
        if not pattern.startswith("{"):
            if pattern != segment:
                return None
            continue
        try:
            params[pattern[1:-1]] = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            raise InvalidAgentError(f"{segment:.120} is no percent-encoded UTF-8") from None
    return params


async def _conditions(request: Request, agent: AgentHandle) -> tuple[str | None, int | None]:
    key = idempotency_key(request.headers)
    return key, await expected_version(agent, request.headers)


def _entry(entry: StateHistoryEntry) -> Json:
    return {**asdict(entry), "at": entry.at.isoformat()}


def _time(milliseconds: int) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
