"""Reading over the HTTP API changes nothing: no GET of the document makes an agent."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from agent_runtime.gateway.access import Tokens
from agent_runtime.gateway.openapi import document
from tests.conftest import Serve
from tests.support.agents import Counter
from tests.support.chat_agent import Chat
from tests.support.live_gateway import live_gateway

READONLY, FULL = "r" * 20, "f" * 20
DOCUMENT = document(["Chat", "Counter"])
PATHS: dict[str, Any] = DOCUMENT["paths"]
READ = [path for path, item in PATHS.items() if "get" in item]


def resolved(parameter: Any) -> Any:
    """Return a parameter that may be a reference."""
    name = parameter.get("$ref", "").rpartition("/")[2]
    return DOCUMENT["components"]["parameters"][name] if name else parameter


def value_of(parameter: Any, agent: str) -> str:
    """Return something sound for a parameter."""
    schema = parameter["schema"]
    known = {"agent": agent, "session": "~default", "class": agent, "label": "memory"}
    if parameter["name"] in known:
        return known[parameter["name"]]
    if schema.get("format") == "date":
        return "2026-11-30"
    if "minimum" in schema:
        return str(max(schema["minimum"], 1))
    return "true" if schema.get("type") == "boolean" else "x"


def urls_of(path: str, agent: str) -> list[str]:
    """Return a path's addresses: with the query that must be there, and with all of it."""
    item = PATHS[path]
    parameters = [
        resolved(each) for each in (*item.get("parameters", []), *item["get"].get("parameters", []))
    ]
    # A place in a list is one that was told of before.
    query = [each for each in parameters if each["in"] == "query" and each["name"] != "after"]
    for each in parameters:
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote(value_of(each, agent), safe=""))
    least = [each for each in query if each.get("required")]
    return [
        f"{path}?" + "&".join(f"{each['name']}={value_of(each, agent)}" for each in some)
        for some in (least, query)
    ]


@pytest.mark.parametrize("path", READ)
async def test_no_get_makes_an_agent(serve: Serve, path: str) -> None:
    """Whoever asks, an agent that is not there stays so; each route answers as for an empty one."""
    tokens = Tokens(full=[FULL], readonly=[READONLY])
    async with live_gateway(serve, Chat, Counter, tokens=tokens) as live:
        for token in (FULL, READONLY):
            for agent in ("Chat", "Counter"):
                for url in urls_of(path, agent):
                    headers = {"Authorization": f"Bearer {token}"}
                    answer = await live.http.get(url, headers=headers)
                    assert answer.status_code in (200, 403, 404), (url, answer.text)
        found = await live.gateway.storage.list_agents(class_name=None, after=None, limit=10)

    assert found == []
