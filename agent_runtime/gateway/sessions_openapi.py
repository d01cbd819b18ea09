"""The registry of conversations' part of the OpenAPI document."""

from __future__ import annotations

from agent_runtime.gateway.openapi_parts import (
    AGENT,
    BOOLEAN,
    INTEGER,
    LIMIT,
    TEXT,
    object_of,
    query,
    ref,
)
from agent_runtime.gateway.session_openapi import (
    HITS_LIMIT,
    IN_SESSION,
    MOMENT,
    SESSION_SEGMENT,
    SIZE,
    TEXT_OR_NULL,
    WORDS,
    changing,
    list_of,
    reading,
    strict,
)
from agent_runtime.gateway.session_routes import SESSION, SESSIONS
from agent_runtime.gateway.sessions_routes import MAX_OFFSET, RECORDS, SEARCH, USAGE
from agent_runtime.json_value import Json
from agent_runtime.session.usage_limits import MAX_TOKENS

_DAY: Json = {"type": "string", "format": "date"}
_RECORD = ref("schemas", "SessionRecord")
_COUNT: Json = {"type": "integer", "minimum": -MAX_TOKENS, "maximum": MAX_TOKENS, "default": 0}

SESSIONS_PATHS: dict[str, Json] = {
    SESSIONS: {
        "parameters": AGENT,
        "get": reading(
            "listSessions",
            "List the agent's sessions, registered or not, in order of their ids.",
            list_of(
                "sessions",
                object_of(
                    ["sessionId", "record"],
                    sessionId=TEXT,
                    record={"anyOf": [_RECORD, {"type": "null"}]},
                ),
                next={**TEXT_OR_NULL, "description": "For `after`; null at the end."},
            ),
            LIMIT,
            query("after", "The `next` of the page before.", TEXT),
        ),
        "post": changing(
            "createSession",
            "Register a new session under a new id.",
            strict(
                ["name"],
                name=TEXT,
                parentSessionId=TEXT_OR_NULL,
                model=TEXT_OR_NULL,
                source=TEXT_OR_NULL,
            ),
            _RECORD,
        ),
    },
    SEARCH: {
        "parameters": AGENT,
        "get": reading(
            "searchSessions",
            "Find messages of registered sessions, best first.",
            list_of("hits", ref("schemas", "SearchHit")),
            WORDS,
            HITS_LIMIT,
            query(
                "session",
                "Only in this session, as it is written in paths; repeat it for more.",
                {
                    "type": "array",
                    "items": SESSION_SEGMENT["schema"],
                },
            ),
        ),
    },
    RECORDS: {
        "parameters": AGENT,
        "get": reading(
            "listRecords",
            "List the registered sessions, the last changed one first.",
            list_of(
                "records",
                _RECORD,
                next={"type": ["integer", "null"], "description": "For `offset`; null at the end."},
            ),
            LIMIT,
            query(
                "offset",
                "Leave out so many; the `next` of the page before.",
                {**SIZE, "default": 0},
            ),
        ),
    },
    USAGE: {
        "parameters": AGENT,
        "get": reading(
            "listModelUsage",
            "Read what language models have cost, by day, session, model and purpose.",
            list_of(
                "usage",
                ref("schemas", "ModelUsage"),
                next={
                    "type": ["integer", "null"],
                    "description": "For `offset`; null at the end.",
                },
            ),
            LIMIT,
            query(
                "offset",
                "The `next` of the page before.",
                {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0},
            ),
            query("session", "Of this session alone, as in paths.", SESSION_SEGMENT["schema"]),
            query("since", "The first day, of UTC.", _DAY),
            query("until", "The last day, of UTC.", _DAY),
        ),
    },
    f"{SESSION}/record": {
        "parameters": IN_SESSION,
        "get": reading("getRecord", "Read what the registry knows of a session.", _RECORD),
        "patch": changing(
            "renameSession", "Give a session another name.", strict(["name"], name=TEXT), _RECORD
        ),
    },
    f"{SESSION}/usage": {
        "parameters": IN_SESSION,
        "post": changing(
            "addUsage",
            "Add to a session's counters; negative numbers correct earlier ones.",
            strict([], inputTokens=_COUNT, outputTokens=_COUNT, cost={"type": "number"}),
            _RECORD,
            has_body=False,
        ),
    },
    f"{SESSION}/fork": {
        "parameters": IN_SESSION,
        "post": changing(
            "forkSession",
            "Continue a session from a message in a new one; what is seen of it is copied.",
            strict(["atMessageId", "name"], atMessageId=TEXT, name=TEXT, copyContext=BOOLEAN),
            _RECORD,
        ),
    },
    f"{SESSION}/split": {
        "parameters": IN_SESSION,
        "post": changing(
            "splitSession",
            "End a session and begin a new one with its summary.",
            strict(["summary"], summary=TEXT, name=TEXT_OR_NULL),
            _RECORD,
        ),
    },
}

SESSIONS_SCHEMAS: dict[str, Json] = {
    "ModelUsage": object_of(
        [
            *("sessionId", "day", "model", "purpose", "calls", "inputTokens", "outputTokens"),
            "cost",
        ],
        sessionId=TEXT,
        day=_DAY,
        model=TEXT,
        purpose=TEXT,
        calls=INTEGER,
        inputTokens=INTEGER,
        outputTokens=INTEGER,
        cost={"type": "number"},
    ),
    "SessionRecord": object_of(
        [
            *("id", "name", "parentSessionId", "model", "source", "inputTokens", "outputTokens"),
            *("estimatedCost", "endReason", "createdAt", "updatedAt"),
        ],
        id=TEXT,
        name=TEXT,
        parentSessionId=TEXT_OR_NULL,
        model=TEXT_OR_NULL,
        source=TEXT_OR_NULL,
        inputTokens=INTEGER,
        outputTokens=INTEGER,
        estimatedCost={"type": "number"},
        endReason=TEXT_OR_NULL,
        createdAt=MOMENT,
        updatedAt=MOMENT,
    ),
}
