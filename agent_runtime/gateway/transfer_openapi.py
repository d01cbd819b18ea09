"""The part of the OpenAPI document about whole conversations."""

from __future__ import annotations

from agent_runtime.gateway.openapi_parts import (
    AGENT,
    INTEGER,
    TEXT,
    answer_of,
    object_of,
    problems,
    query,
)
from agent_runtime.gateway.session_openapi import IN_SESSION
from agent_runtime.gateway.session_openapi import SESSION_SEGMENT as SEGMENT
from agent_runtime.gateway.session_routes import SESSION
from agent_runtime.gateway.transfer_routes import IMPORT, MEDIA_TYPE
from agent_runtime.json_value import Json

_LINES: Json = {MEDIA_TYPE: {"schema": {"type": "string"}}}

TRANSFER_PATHS: dict[str, Json] = {
    f"{SESSION}/export": {
        "parameters": IN_SESSION,
        "get": {
            "operationId": "exportSession",
            "summary": "Read everything that is stored of a session, line by line.",
            "responses": {
                "200": {
                    "description": "Objects in lines; the last one, of type `end`, says that all "
                    "has come.",
                    "content": _LINES,
                },
                **problems("400", "401", "403", "404", "503", "504"),
            },
        },
    },
    IMPORT: {
        "parameters": AGENT,
        "post": {
            "operationId": "importSession",
            "summary": "Bring back what was exported; after a failure repeat it, and what is there "
            "is passed over.",
            "parameters": [
                query(
                    "session",
                    "Where to, as it is written in paths; by default the id it had.",
                    SEGMENT["schema"],
                )
            ],
            "requestBody": {"required": True, "content": _LINES},
            "responses": {
                "200": answer_of(
                    "It is on disk.",
                    object_of(
                        ["sessionId", "messages", "compactions", "contexts", "entries"],
                        sessionId=TEXT,
                        messages=INTEGER,
                        compactions=INTEGER,
                        contexts=INTEGER,
                        entries=INTEGER,
                    ),
                ),
                **problems("400", "401", "403", "404", "409", "413", "415", "422", "503", "504"),
            },
        },
    },
}
