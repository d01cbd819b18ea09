"""An agent's summarizing, watched and cancelled through a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agent_runtime import GatewayClient
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import ReadonlyConnectionError
from agent_runtime.gateway.access import Tokens
from agent_runtime.session.session import Session
from tests.conftest import Serve
from tests.support.compacting_agent import Compacting, setups
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import LiveGateway, live_gateway
from tests.support.session import user

READONLY, FULL = "r" * 20, "f" * 20
NOTHING = {"progress": None, "outcome": None}


@dataclass
class Scene:
    """An agent whose summary is written when it is let."""

    name: str = field(default_factory=lambda: uuid4().hex[:12])
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Set up the agent's sessions."""
        function = create_compact_function(
            self._summarize, protect_head=1, min_tail_messages=1, tail_token_budget=20
        )
        setups[self.name] = lambda session: self._set_up(session, function)

    @property
    def place(self) -> str:
        """The default session's path."""
        return f"/api/agents/compacting/{self.name}/sessions/~default"

    async def begin(self, live: LiveGateway) -> None:
        """Append what sets a compaction off, and wait for it."""
        session = live.served.client.agent("Compacting", self.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await self.has_begun.wait()

    async def _summarize(self, prompt: str) -> str:
        self.has_begun.set()
        await self.may_go_on.wait()
        return "what was said"

    def _set_up(self, session: Session, function: Any) -> Session:
        return session.on_compaction(function).compact_after(100)


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway with a full and a read-only token; requests show the full one."""
    tokens = Tokens(full=[FULL], readonly=[READONLY])
    async with live_gateway(serve, Compacting, tokens=tokens) as started:
        started.http.headers["Authorization"] = f"Bearer {FULL}"
        yield started


async def watched(http: httpx.AsyncClient, scene: Scene, **query: Any) -> Any:
    """Return what is told of the summarizing."""
    answer = await http.get(f"{scene.place}/compact", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_it_is_watched_until_its_end(live: LiveGateway) -> None:
    """Nothing at first, then how far it is, then how it ended; another branch has none."""
    scene = Scene()
    first = await watched(live.http, scene)
    await scene.begin(live)

    async def is_summarizing() -> None:
        told = await watched(live.http, scene)
        expected = {"phase": "summarizing", "stage": 0, "parts": 1, "done": 0}
        assert told == {"progress": expected, "outcome": None}

    await assert_eventually(is_summarizing)
    elsewhere = await watched(live.http, scene, leaf="m3")
    waiting = asyncio.create_task(watched(live.http, scene, wait=60))
    scene.may_go_on.set()
    told = await waiting
    again = await watched(live.http, scene)

    assert first == elsewhere == NOTHING
    assert told["progress"] is None
    assert (told["outcome"]["status"], told["outcome"]["fromMessageId"]) == ("applied", "m1")
    assert again == told


async def test_who_waits_in_vain_is_told_how_far_it_is(live: LiveGateway) -> None:
    """After the seconds that were asked for."""
    scene = Scene()
    await scene.begin(live)
    told = await watched(live.http, scene, wait=1)
    scene.may_go_on.set()

    assert told["outcome"] is None
    assert told["progress"]["done"] == 0


async def test_only_who_may_write_cancels(live: LiveGateway) -> None:
    """A read-only token watches; a full one cancels, and once it has ended there is nothing to."""
    scene, http = Scene(), live.http
    await scene.begin(live)
    place, limited = f"{scene.place}/compact", {"Authorization": f"Bearer {READONLY}"}
    shown = await http.get(place, headers=limited)
    refused = await http.delete(place, headers=limited)
    cancelled = await http.delete(place)
    told = await watched(http, scene, wait=60)
    late = await http.delete(place)

    assert (shown.status_code, shown.json()["outcome"]) == (200, None)
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (
        403,
        "ReadonlyToken",
    )
    assert (cancelled.json(), late.json()) == ({"cancelled": True}, {"cancelled": False})
    assert told["outcome"]["status"] == "cancelled"


@pytest.mark.parametrize("wait", ["-1", "61", "x"])
async def test_a_wait_has_bounds(live: LiveGateway, wait: str) -> None:
    """Nobody holds a connection for ever."""
    answer = await live.http.get(f"{Scene().place}/compact", params={"wait": wait})

    assert answer.status_code == 400


async def test_a_gateway_client_watches_and_cancels(live: LiveGateway) -> None:
    """With the methods of a handle, and the same answers."""
    scene = Scene()
    direct = live.served.client.agent("Compacting", scene.name).session().compaction
    async with (
        GatewayClient(live.url, token=FULL) as client,
        GatewayClient(live.url, token=READONLY) as reader,
    ):
        compaction = client.agent("Compacting", scene.name).session().compaction
        limited = reader.agent("Compacting", scene.name).session().compaction
        before = await compaction.progress(), await compaction.last_outcome()
        await scene.begin(live)

        async def is_summarizing() -> None:
            progress = await limited.progress()
            assert progress is not None and progress.parts == 1
            assert progress == await direct.progress()

        await assert_eventually(is_summarizing)
        with pytest.raises(ReadonlyConnectionError):
            await limited.cancel()
        waiting = asyncio.create_task(limited.last_outcome())
        assert await compaction.cancel()
        outcome = await waiting
        assert not await compaction.cancel()

    assert before == (None, None)
    assert outcome is not None
    assert outcome.status == "cancelled"
    assert outcome == await direct.last_outcome()
