"""Where our recordings of SQL, silence and destroy differ from those of the reference."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.differences import DATE, SENT_MCP, Difference, result, told
from tests.e2e.differences_newest import NEWEST

_TABLES = (
    "__miniflare_do_name",
    "_cf_KV",
    "cf_agent_tool_runs",
    "cf_agents_facet_runs",
    "cf_agents_fibers",
    "cf_agents_mcp_servers",
    "cf_agents_queues",
    "cf_agents_runs",
    "cf_agents_schedules",
    "cf_agents_state",
    "cf_agents_workflows",
    "t",
)


def _returns(call: int, method: str, value: Any) -> tuple[str, str]:
    return result(call, method, json.dumps(value))


def _tables(*names: str) -> tuple[str, str]:
    return _returns(8, "tables", [{"name": name} for name in names])


def _refusal(cause: str, query: str) -> dict[str, str]:
    return {"name": "SqlError", "message": f"SQL query failed: {cause}", "query": query}


_NONSENSE = "SELEC nonsense WHERE x = ?"

LASTING_DIFFERENCES: list[Difference] = [
    Difference(
        "hibernate",
        "A",
        (
            *told('{"count":1,"at":"1970-01-01T00:00:00.000Z"}'),
            *_returns(4, "withDate", {"keys": ["count", "at", "gone"], "at": "Date"}),
        ),
        (
            *told('{"count":1,"at":"1970-01-01T00:00:00+00:00"}'),
            *_returns(4, "withDate", {"keys": ["count", "at"], "at": "string"}),
        ),
        f"{DATE}; 19.1.7: what is read is what is stored, at once",
    ),
    Difference(
        "hibernate",
        "A",
        (SENT_MCP, *_returns(6, "lifetime", {"starts": 1, "log": ["onStart"]})),
        _returns(6, "lifetime", {"starts": 1, "log": ["onStart", "before"]}),
        "13.2: a silent agent stays in memory while there is room, so nothing tells of a wake",
    ),
    Difference(
        "sql",
        "A",
        _returns(3, "bindBoolean", [{"b": "true"}]),
        _returns(3, "bindBoolean", [{"b": 1}]),
        "15.3: booleans are bound as 0 and 1",
    ),
    Difference(
        "sql",
        "A",
        _returns(5, "bindObject", [{"b": "[object Object]"}]),
        _returns(
            5,
            "bindObject",
            _refusal(
                "value 1 is {'a': 1}; bind None, bool, int, float, str or bytes, and write objects "
                "as JSON text",
                "SELECT ? AS b",
            ),
        ),
        "15.3: objects are refused",
    ),
    Difference(
        "sql",
        "A",
        _returns(
            6,
            "syntaxError",
            _refusal('near "SELEC": syntax error at offset 0: SQLITE_ERROR', _NONSENSE),
        ),
        _returns(6, "syntaxError", _refusal('near "SELEC": syntax error', _NONSENSE)),
        "15.4: the cause as Python's own SQLite says it",
    ),
    Difference(
        "sql",
        "A",
        _tables(*_TABLES),
        _tables("_agent_runtime_effects", "_agent_runtime_owner", "t"),
        "13.4: internal tables of either side",
    ),
    Difference(
        "destroy",
        "A",
        (
            '{"kind":"close","code":1001,"reason":"Durable Object destroyed"}',
            '{"kind":"error","method":"destroyMe","message":"Connection closed"}',
        ),
        (
            *_returns(3, "destroyMe", "destroyed"),
            '{"kind":"close","code":1006,"reason":""}',
        ),
        "13.3: the reply arrives before the socket drops, and it drops without a close frame, as "
        "with the first release; the client comes back after either",
        release=NEWEST,
    ),
]
