"""What models have cost an agent, listed for services and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import InvalidRequestError
from agent_runtime.gateway_client.gateway_client import GatewayClient
from agent_runtime.session.model_usage import ModelUsage
from agent_runtime.storage.protocol import Storage
from agent_runtime.storage.session_protocol import DAY_MILLISECONDS, SessionRef, UsageRow
from tests.conftest import Serve
from tests.support.chat_agent import Chat
from tests.support.live_gateway import live_gateway

FIRST = 20_000
"""The 4th of October 2024, in days since 1970."""


async def _spend(storage: Storage, agent: AgentHandle, calls: Sequence[tuple[str, int]]) -> None:
    """Note a call for each session and day."""
    for number, (session_id, day) in enumerate(calls):
        at = (FIRST + day) * DAY_MILLISECONDS + number
        row = UsageRow(f"k{number}", "generate", "m", 10, 2, 0.25, at)
        ref = SessionRef(agent.ref, session_id)
        await storage.write(lambda tx, ref=ref, row=row: tx.sessions.jobs.add_usage(ref, row))  # type: ignore[misc]


def _day(day: str, session_id: str, calls: int) -> ModelUsage:
    return ModelUsage(session_id, day, "m", "generate", calls, 10 * calls, 2 * calls, 0.25 * calls)


@pytest.mark.parametrize("has_storage", [True, False])
async def test_usage_is_listed_by_day(serve: Serve, has_storage: bool) -> None:
    """Of all sessions or one, of some days, and part by part; with the storage or by its worker."""
    async with serve(Chat, has_storage=has_storage) as served:
        agent = served.client.agent("Chat", "r")
        await agent.session().append_message({"id": "m", "role": "user", "parts": []})
        await _spend(
            served.runtime.storage, agent, [("", 0), ("", 0), ("a", 0), ("", 1), ("a", 31)]
        )
        sessions = agent.sessions()

        whole = await sessions.model_usage()

        assert whole == [
            _day("2024-10-04", "", 2),
            _day("2024-10-04", "a", 1),
            _day("2024-10-05", "", 1),
            _day("2024-11-04", "a", 1),
        ]
        assert await sessions.model_usage(limit=2, offset=1) == whole[1:3]
        assert await sessions.model_usage(session_id="a") == [whole[1], whole[3]]
        assert await sessions.model_usage(session_id="") == [whole[0], whole[2]]
        october = await sessions.model_usage(since=date(2024, 10, 5), until=date(2024, 10, 31))
        assert october == [whole[2]]
        assert await sessions.model_usage(until=date(1969, 1, 1)) == []
        for limit, offset in ((0, 0), (1001, 0), (1, -1)):
            with pytest.raises(InvalidRequestError):
                await sessions.model_usage(limit=limit, offset=offset)


async def test_usage_is_read_over_http_page_by_page(serve: Serve) -> None:
    """Each page says where the next begins; sessions and days are as in the other routes."""
    async with live_gateway(serve, Chat) as live:
        agent = live.served.client.agent("Chat", "r")
        await _spend(live.served.runtime.storage, agent, [("", 0), ("a", 0), ("", 1)])
        place = "/api/agents/chat/r/session-usage"
        found: list[Any] = []
        following: int | None = 0
        while following is not None:
            params: dict[str, int] = {"limit": 2, "offset": following}
            page = (await live.http.get(place, params=params)).json()
            found += page["usage"]
            following = page["next"]

        async def days(**params: str) -> list[str]:
            rows = (await live.http.get(place, params=params)).json()["usage"]
            return [row["day"] for row in rows]

        async with GatewayClient(live.url, token=None) as client:
            registry = client.agent("Chat", "r").sessions()
            first = date(2024, 10, 4)
            assert await registry.model_usage() == await agent.sessions().model_usage()
            found_then = await registry.model_usage(session_id="a", since=first, until=first)
            assert found_then == [_day("2024-10-04", "a", 1)]

        assert found[0] == {
            "sessionId": "",
            "day": "2024-10-04",
            "model": "m",
            "purpose": "generate",
            "calls": 1,
            "inputTokens": 10,
            "outputTokens": 2,
            "cost": 0.25,
        }
        assert [row["day"] for row in found] == ["2024-10-04", "2024-10-04", "2024-10-05"]
        assert await days(session="~default", until="2024-10-04") == ["2024-10-04"]
        assert await days(since="2024-10-05") == ["2024-10-05"]
        for wrong in ("since=20241005", "until=2024-13-01", "limit=0", "offset=x", "session=~x"):
            refused = await live.http.get(f"{place}?{wrong}")
            assert refused.status_code == 400, wrong
