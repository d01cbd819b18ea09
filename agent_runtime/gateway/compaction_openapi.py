"""The summarizing of conversations' part of the OpenAPI document."""

from __future__ import annotations

from agent_runtime.gateway.compaction_routes import MAX_WAIT_SECONDS
from agent_runtime.gateway.openapi_parts import (
    BOOLEAN,
    INTEGER,
    TEXT,
    answer_of,
    object_of,
    problems,
    query,
    ref,
)
from agent_runtime.gateway.session_openapi import (
    IN_SESSION,
    TEXT_OR_NULL,
    changing,
    reading,
    strict,
)
from agent_runtime.gateway.session_routes import SESSION
from agent_runtime.json_value import Json


def _or_null(schema: Json, description: str) -> Json:
    return {"anyOf": [schema, {"type": "null"}], "description": description}


_LEAF = query("leaf", "Of the branch that ends at this message; by default the active one.", TEXT)

COMPACTION_PATHS: dict[str, Json] = {
    f"{SESSION}/compact": {
        "parameters": IN_SESSION,
        "get": reading(
            "getCompaction",
            "Tell how far the summarizing is, or how the last one ended.",
            object_of(
                ["progress", "outcome"],
                progress=_or_null(ref("schemas", "CompactionProgress"), "null if none runs."),
                outcome=_or_null(
                    ref("schemas", "CompactionOutcome"),
                    "null while one runs, and if none is remembered.",
                ),
            ),
            _LEAF,
            query(
                "wait",
                "Wait for the end of the one that runs, at most so many seconds.",
                {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_SECONDS, "default": 0},
            ),
        ),
        "post": changing(
            "compact",
            "Have the agent summarize a part of the history now.",
            strict([], leafId=TEXT_OR_NULL),
            object_of(
                ["compaction"],
                compaction=_or_null(
                    object_of(
                        ["fromMessageId", "toMessageId", "summary"],
                        fromMessageId=TEXT,
                        toMessageId=TEXT,
                        summary=TEXT,
                    ),
                    "null if nothing was stored.",
                ),
            ),
            has_body=False,
        ),
        "delete": {
            "operationId": "cancelCompaction",
            "summary": "Cancel the summarizing that runs, for all who wait for it.",
            "parameters": [_LEAF],
            "responses": {
                "200": answer_of(
                    "It ends soon.",
                    object_of(
                        ["cancelled"],
                        cancelled={**BOOLEAN, "description": "false if none runs."},
                    ),
                ),
                **problems("400", "401", "403", "404", "503", "504"),
            },
        },
    },
}

COMPACTION_SCHEMAS: dict[str, Json] = {
    "CompactionProgress": object_of(
        ["phase", "stage", "parts", "done"],
        phase={**TEXT, "description": "planning, summarizing, committing, or how it ends."},
        stage={**INTEGER, "description": "How often summaries were merged or cut shorter."},
        parts={**INTEGER, "description": "How many summaries the stage has."},
        done={**INTEGER, "description": "How many of them are stored."},
    ),
    "CompactionOutcome": object_of(
        ["status", "reason", "fromMessageId", "toMessageId", "overlayId", "summaryTokens"],
        status={"enum": ["applied", "skipped", "failed", "cancelled"]},
        reason=TEXT,
        fromMessageId=TEXT,
        toMessageId=TEXT,
        overlayId=TEXT,
        summaryTokens=INTEGER,
    ),
}
