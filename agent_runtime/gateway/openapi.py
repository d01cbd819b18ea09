"""The OpenAPI document of the HTTP API, written by hand; a test holds it to the routes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from agent_runtime.identity import MAX_NAME_BYTES, kebab_case
from agent_runtime.json_value import Json

_VERSION_HEADER: Json = {
    "ETag": {"description": "The state's version, quoted.", "schema": {"type": "string"}}
}
_ANY: Json = {}  # any JSON value: agents decide what their state is


def _ref(place: str, name: str) -> Json:
    return {"$ref": f"#/components/{place}/{name}"}


def _body(schema: Json) -> Json:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(description: str, schema: Json, *, headers: Json = None) -> Json:
    answer = {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }
    return answer if headers is None else {**answer, "headers": headers}


def _problems(*statuses: str) -> Json:
    return {status: _ref("responses", "Problem") for status in (*statuses, "default")}


def _query(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _path(name: str, description: str, **schema: Json) -> Json:
    fields = {"name": name, "in": "path", "required": True, "description": description}
    return {**fields, "schema": {"type": "string", **schema}}


def _header(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "header", "description": description, "schema": schema}


_AGENT = [_ref("parameters", "agent"), _ref("parameters", "name")]
_LIMIT = _query(
    "limit",
    "At most so many.",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
)
_CHANGE = [_ref("parameters", "IdempotencyKey"), _ref("parameters", "IfMatch")]
_CHANGE_PROBLEMS = ("400", "401", "403", "404", "409", "412", "413", "415", "422", "503", "504")


def _change(name: str, summary: str, body: Json = None) -> Json:
    answer = _answer("It is on disk.", _ref("schemas", "Receipt"), headers=_VERSION_HEADER)
    operation = {
        "operationId": name,
        "summary": summary,
        "parameters": _CHANGE,
        "responses": {"200": answer, **_problems(*_CHANGE_PROBLEMS)},
    }
    return operation if body is None else {**operation, "requestBody": _body(body)}


_STATE: Json = {
    "parameters": _AGENT,
    "get": {
        "operationId": "getState",
        "summary": "Read the state; reading one that was never set stores `initial_state`.",
        "parameters": [
            _query(
                "version",
                "An earlier version.",
                {"type": "integer", "minimum": 0, "maximum": 999999999999999999},
            ),
            _header("If-None-Match", "Answer 304 if this is the version.", {"type": "string"}),
        ],
        "responses": {
            "200": _answer("The state's value.", _ANY, headers=_VERSION_HEADER),
            "304": {"description": "The reader has this version.", "headers": _VERSION_HEADER},
            **_problems("400", "401", "403", "404", "503", "504"),
        },
    },
    "put": _change("setState", "Replace the state.", _ANY),
    "patch": _change(
        "mergeState",
        "Replace the given top-level keys; null is a value, nothing is removed.",
        {"type": "object"},
    ),
    "delete": _change("resetState", "Put `initial_state` back; `{}` where there is none."),
}

_PATHS: dict[str, Json] = {
    "/healthz": {
        "get": {
            "operationId": "health",
            "summary": "The process answers.",
            "security": [],
            "responses": {"200": _answer("It does.", _ref("schemas", "Health")), **_problems()},
        }
    },
    "/readyz": {
        "get": {
            "operationId": "readiness",
            "summary": "Storage and Temporal answer.",
            "security": [],
            "responses": {
                "200": _answer("Both do.", _ref("schemas", "Readiness")),
                "503": _answer("One does not.", _ref("schemas", "Readiness")),
                **_problems(),
            },
        }
    },
    "/openapi.json": {
        "get": {
            "operationId": "document",
            "summary": "This document.",
            "security": [],
            "responses": {"200": _answer("OpenAPI 3.1.", {"type": "object"}), **_problems()},
        }
    },
    "/api/agents": {
        "get": {
            "operationId": "listAgents",
            "summary": "List the agents that were ever contacted, by class and name.",
            "parameters": [
                _query("class", "Only of this class.", {"type": "string", "minLength": 1}),
                _LIMIT,
                _query("after", "The `next` of the page before.", {"type": "string"}),
            ],
            "responses": {
                "200": _answer("A page.", _ref("schemas", "AgentPage")),
                **_problems("400", "401", "403", "404", "503"),
            },
        }
    },
    "/api/agents/{agent}/{name}/state": _STATE,
    "/api/agents/{agent}/{name}/history": {
        "parameters": _AGENT,
        "get": {
            "operationId": "getHistory",
            "summary": "List the state's versions, newest first.",
            "parameters": [
                _query(
                    "newest",
                    "Start at this version; the `next` of the page before.",
                    {"type": "integer", "minimum": 0, "maximum": 999999999999999999},
                ),
                _LIMIT,
            ],
            "responses": {
                "200": _answer("A page.", _ref("schemas", "HistoryPage")),
                **_problems("400", "401", "403", "404", "503", "504"),
            },
        },
    },
    "/api/agents/{agent}/{name}/call/{method}": {
        "parameters": [*_AGENT, _path("method", "A `@callable` method.", minLength=1)],
        "post": {
            "operationId": "call",
            "summary": "Call a method and wait for its result.",
            "parameters": [_ref("parameters", "IdempotencyKey")],
            "requestBody": _body(_ref("schemas", "Call")),
            "responses": {
                "200": _answer("It has returned.", _ref("schemas", "Result")),
                **_problems("400", "401", "403", "404", "409", "413", "415", "422", "500", "503"),
            },
        },
    },
}


def _object(required: list[str], **properties: Json) -> Json:
    return {"type": "object", "required": required, "properties": properties}


_INTEGER: Json = {"type": "integer"}
_TEXT: Json = {"type": "string"}
_BOOLEAN: Json = {"type": "boolean"}
_TIME: Json = {"type": ["string", "null"], "format": "date-time"}
_PART: Json = {"enum": ["ok", "unavailable"]}

_SCHEMAS: dict[str, Json] = {
    "Health": _object(["status"], status={"const": "ok"}),
    "Readiness": _object(
        ["status", "storage", "temporal"],
        status={"enum": ["ready", "not ready"]},
        storage=_PART,
        temporal=_PART,
    ),
    "Receipt": _object(
        ["version", "applied", "duplicate"],
        version=_INTEGER,
        applied={**_BOOLEAN, "description": "This very request changed the state."},
        duplicate={**_BOOLEAN, "description": "An earlier request with the key had done it."},
    ),
    "AgentPage": _object(
        ["agents", "next"],
        agents={
            "type": "array",
            "items": _object(
                ["agent", "name", "version", "created_at", "updated_at"],
                agent=_TEXT,
                name=_TEXT,
                version=_INTEGER,
                created_at=_TIME,
                updated_at=_TIME,
            ),
        },
        next={"type": ["string", "null"], "description": "For `after`; null at the end."},
    ),
    "HistoryPage": _object(
        ["history", "next"],
        history={
            "type": "array",
            "items": _object(
                ["version", "kind", "value", "is_full", "source", "key", "at"],
                version=_INTEGER,
                kind={"enum": ["set", "merge", "reset", "update", "init"]},
                value={"description": "The state if `is_full`, else the keys that changed."},
                is_full=_BOOLEAN,
                source=_TEXT,
                key={"type": ["string", "null"]},
                at={"type": "string", "format": "date-time"},
            ),
        },
        next={"type": ["integer", "null"], "description": "For `newest`; null at the end."},
    ),
    "Call": {
        "type": "object",
        "properties": {"args": {"type": "array", "items": _ANY, "default": []}},
        "additionalProperties": False,
    },
    "Result": _object(["result"], result=_ANY),
    "Problem": _object(
        ["type", "title", "status", "detail"],
        type={"type": "string", "format": "uri"},
        title=_TEXT,
        status=_INTEGER,
        detail=_TEXT,
        details={"type": "object", "description": "Facts a program can act on."},
    ),
}


def document(class_names: Sequence[str]) -> dict[str, Json]:
    """Return the document of a gateway that serves some agent classes."""
    segments = [*class_names, *map(kebab_case, class_names)]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "temporal-agent-runtime",
            "description": "State, history and calls of durable agents.",
            "version": metadata.version("temporal-agent-runtime"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _PATHS,
        "security": [{"bearer": []}, {}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "parameters": {
                "agent": _path(
                    "agent", "Class name, or its form in URLs.", enum=list(dict.fromkeys(segments))
                ),
                "name": _path(
                    "name",
                    "Instance name, percent-encoded; at most 512 bytes.",
                    minLength=1,
                    maxLength=MAX_NAME_BYTES,
                    pattern="^[^\\u0000]+$",
                ),
                "IdempotencyKey": _header(
                    "Idempotency-Key",
                    "A repeat with it gives the first answer and changes nothing.",
                    {"type": "string", "minLength": 1, "maxLength": 200},
                ),
                "IfMatch": _header(
                    "If-Match",
                    'Refuse unless the state has this version, as `"7"`; or `*`.',
                    {"type": "string"},
                ),
            },
            "responses": {
                "Problem": {
                    "description": "What went wrong (RFC 9457).",
                    "content": {"application/problem+json": {"schema": _ref("schemas", "Problem")}},
                }
            },
            "schemas": _SCHEMAS,
        },
    }
