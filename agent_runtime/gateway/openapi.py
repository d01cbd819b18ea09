"""The OpenAPI document of the HTTP API, written by hand; a test holds it to the routes."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from agent_runtime.gateway.compaction_openapi import COMPACTION_PATHS, COMPACTION_SCHEMAS
from agent_runtime.gateway.openapi_parts import (
    AGENT,
    ANY,
    BOOLEAN,
    INTEGER,
    LIMIT,
    TEXT,
    answer_of,
    body_of,
    header,
    object_of,
    path,
    problems,
    query,
    ref,
)
from agent_runtime.gateway.session_openapi import SESSION_PATHS, SESSION_SCHEMAS, SESSION_SEGMENT
from agent_runtime.gateway.sessions_openapi import SESSIONS_PATHS, SESSIONS_SCHEMAS
from agent_runtime.gateway.transfer_openapi import TRANSFER_PATHS
from agent_runtime.identity import MAX_NAME_BYTES, kebab_case
from agent_runtime.json_value import Json

_VERSION_HEADER: Json = {
    "ETag": {"description": "The state's version, quoted.", "schema": {"type": "string"}}
}
_CHANGE = [ref("parameters", "IdempotencyKey"), ref("parameters", "IfMatch")]
_CHANGE_PROBLEMS = ("400", "401", "403", "404", "409", "412", "413", "415", "422", "503", "504")


def _change(name: str, summary: str, body: Json = None) -> Json:
    answer = answer_of("It is on disk.", ref("schemas", "Receipt"), headers=_VERSION_HEADER)
    operation = {
        "operationId": name,
        "summary": summary,
        "parameters": _CHANGE,
        "responses": {"200": answer, **problems(*_CHANGE_PROBLEMS)},
    }
    return operation if body is None else {**operation, "requestBody": body_of(body)}


_STATE: Json = {
    "parameters": AGENT,
    "get": {
        "operationId": "getState",
        "summary": "Read the state as clients see it; never set, it is `initial_state`, version 0.",
        "parameters": [
            query(
                "version",
                "An earlier version.",
                {"type": "integer", "minimum": 0, "maximum": 999999999999999999},
            ),
            header("If-None-Match", "Answer 304 if this is the version.", {"type": "string"}),
        ],
        "responses": {
            "200": answer_of("The state's value.", ANY, headers=_VERSION_HEADER),
            "304": {"description": "The reader has this version.", "headers": _VERSION_HEADER},
            **problems("400", "401", "403", "404", "503", "504"),
        },
    },
    "put": _change("setState", "Replace the state.", ANY),
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
            "responses": {"200": answer_of("It does.", ref("schemas", "Health")), **problems()},
        }
    },
    "/readyz": {
        "get": {
            "operationId": "readiness",
            "summary": "Storage and Temporal answer.",
            "security": [],
            "responses": {
                "200": answer_of("Both do.", ref("schemas", "Readiness")),
                "503": answer_of("One does not.", ref("schemas", "Readiness")),
                **problems(),
            },
        }
    },
    "/openapi.json": {
        "get": {
            "operationId": "document",
            "summary": "This document.",
            "security": [],
            "responses": {"200": answer_of("OpenAPI 3.1.", {"type": "object"}), **problems()},
        }
    },
    "/api/agents": {
        "get": {
            "operationId": "listAgents",
            "summary": "List the agents that were ever contacted, by class and name.",
            "parameters": [
                query("class", "Only of this class.", {"type": "string", "minLength": 1}),
                LIMIT,
                query("after", "The `next` of the page before.", {"type": "string"}),
            ],
            "responses": {
                "200": answer_of("A page.", ref("schemas", "AgentPage")),
                **problems("400", "401", "403", "404", "503"),
            },
        }
    },
    "/api/agents/{agent}/{name}": {
        "parameters": AGENT,
        "delete": {
            "operationId": "destroyAgent",
            "summary": "Destroy the agent with all that it has; the next contact makes a new one.",
            "parameters": _CHANGE,
            "responses": {
                "200": answer_of("It is gone.", ref("schemas", "Receipt")),
                **problems(*_CHANGE_PROBLEMS),
            },
        },
    },
    "/api/agents/{agent}/{name}/state": _STATE,
    "/api/agents/{agent}/{name}/history": {
        "parameters": AGENT,
        "get": {
            "operationId": "getHistory",
            "summary": "List the state's versions as clients see them, newest first.",
            "parameters": [
                query(
                    "newest",
                    "Start at this version; the `next` of the page before.",
                    {"type": "integer", "minimum": 0, "maximum": 999999999999999999},
                ),
                LIMIT,
            ],
            "responses": {
                "200": answer_of("A page.", ref("schemas", "HistoryPage")),
                **problems("400", "401", "403", "404", "503", "504"),
            },
        },
    },
    "/api/agents/{agent}/{name}/call/{method}": {
        "parameters": [*AGENT, path("method", "A `@callable` method.", minLength=1)],
        "post": {
            "operationId": "call",
            "summary": "Call a method and wait for its result.",
            "parameters": [ref("parameters", "IdempotencyKey")],
            "requestBody": body_of(ref("schemas", "Call")),
            "responses": {
                "200": answer_of("It has returned.", ref("schemas", "Result")),
                **problems("400", "401", "403", "404", "409", "413", "415", "422", "500", "503"),
            },
        },
    },
}


_TIME: Json = {"type": ["string", "null"], "format": "date-time"}
_PART: Json = {"enum": ["ok", "unavailable"]}

_SCHEMAS: dict[str, Json] = {
    "Health": object_of(["status"], status={"const": "ok"}),
    "Readiness": object_of(
        ["status", "storage", "temporal"],
        status={"enum": ["ready", "not ready"]},
        storage=_PART,
        temporal=_PART,
    ),
    "Receipt": object_of(
        ["version", "applied", "duplicate"],
        version=INTEGER,
        applied={**BOOLEAN, "description": "This very request changed the state."},
        duplicate={**BOOLEAN, "description": "An earlier request with the key had done it."},
    ),
    "AgentPage": object_of(
        ["agents", "next"],
        agents={
            "type": "array",
            "items": object_of(
                ["agent", "name", "version", "created_at", "updated_at"],
                agent=TEXT,
                name=TEXT,
                version=INTEGER,
                created_at=_TIME,
                updated_at=_TIME,
            ),
        },
        next={"type": ["string", "null"], "description": "For `after`; null at the end."},
    ),
    "HistoryPage": object_of(
        ["history", "next"],
        history={
            "type": "array",
            "items": object_of(
                ["version", "kind", "value", "is_full", "source", "key", "at"],
                version=INTEGER,
                kind={"enum": ["set", "merge", "reset", "update", "init"]},
                value={"description": "The state if `is_full`, else the keys that changed."},
                is_full=BOOLEAN,
                source=TEXT,
                key={"type": ["string", "null"]},
                at={"type": "string", "format": "date-time"},
            ),
        },
        next={"type": ["integer", "null"], "description": "For `newest`; null at the end."},
    ),
    "Call": {
        "type": "object",
        "properties": {"args": {"type": "array", "items": ANY, "default": []}},
        "additionalProperties": False,
    },
    "Result": object_of(["result"], result=ANY),
    "Problem": object_of(
        ["type", "title", "status", "detail"],
        type={"type": "string", "format": "uri"},
        title=TEXT,
        status=INTEGER,
        detail=TEXT,
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
            "description": "State, history, calls and conversations of durable agents.",
            "version": metadata.version("temporal-agent-runtime"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _PATHS | SESSIONS_PATHS | SESSION_PATHS | COMPACTION_PATHS | TRANSFER_PATHS,
        "security": [{"bearer": []}, {}],
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "parameters": {
                "agent": path(
                    "agent", "Class name, or its form in URLs.", enum=list(dict.fromkeys(segments))
                ),
                "name": path(
                    "name",
                    "Instance name, percent-encoded; at most 512 bytes.",
                    minLength=1,
                    maxLength=MAX_NAME_BYTES,
                    pattern="^[^\\u0000]+$",
                ),
                "session": SESSION_SEGMENT,
                "IdempotencyKey": header(
                    "Idempotency-Key",
                    "A repeat with it gives the first answer and changes nothing.",
                    {"type": "string", "minLength": 1, "maxLength": 200},
                ),
                "IfMatch": header(
                    "If-Match",
                    'Refuse unless the state has this version, as `"7"`; or `*`.',
                    {"type": "string"},
                ),
            },
            "responses": {
                "Problem": {
                    "description": "What went wrong (RFC 9457).",
                    "content": {"application/problem+json": {"schema": ref("schemas", "Problem")}},
                }
            },
            "schemas": _SCHEMAS | SESSIONS_SCHEMAS | SESSION_SCHEMAS | COMPACTION_SCHEMAS,
        },
    }
