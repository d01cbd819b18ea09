"""Bug reports C08 and C09 as inputs, and every way in which a state reaches connected clients."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agent_runtime import Agent, callable
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import agent_ref
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.sqlite import SqliteStorage
from tests.conftest import Serve
from tests.e2e.wire import WireClient
from tests.support.live_gateway import LiveGateway, live_gateway
from tests.support.program import run_program


class Scores(Agent[dict[str, int]]):
    """Refuses negative scores."""

    initial_state = {"score": 0}

    def validate_state_change(self, next_state: dict[str, int], source: str) -> None:
        """Refuse what is below zero."""
        if next_state.get("score", 0) < 0:
            raise ValueError("internal rule 7: score cannot be negative")

    @callable()
    async def add(self, amount: int) -> int:
        """Add to the score."""
        await self.update_state(lambda state: {"score": state["score"] + amount})
        return self.state["score"]


class Fresh(Agent[dict[str, int]]):
    """Was never touched before."""

    initial_state = {"count": 0}


def _client(live: LiveGateway, path: str) -> WireClient:
    return WireClient(live.url.removeprefix("http://"), path)


async def test_c08_a_rejected_client_frame(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """The sender gets the fixed text, nobody else anything, and the log has the reason."""
    caplog.set_level(logging.WARNING, logger="agent_runtime")
    async with (
        live_gateway(serve, Scores) as live,
        _client(live, "/agents/scores/c08?_pk=a") as a,
        _client(live, "/agents/scores/c08?_pk=b") as b,
    ):
        await a.greeted()
        await b.greeted()

        await a.set_state({"score": -1})
        refusal = await a.got("cf_agent_state_error")

        assert refusal == {"type": "cf_agent_state_error", "error": "State update rejected"}
        snapshot = await live.served.client.agent("Scores", "c08").get_state()
        assert (snapshot.value, snapshot.version) == ({"score": 0}, 1)
        # Both are still connected: the next update comes through, and nothing came before it.
        await a.set_state({"score": 5})
        await b.told({"score": 5})
        assert b.states == [{"score": 0}, {"score": 5}]
        assert b.of("cf_agent_state_error") == []
    assert "internal rule 7" in caplog.text


async def test_c09_frames_at_connect(serve: Serve) -> None:
    """Each client gets one identity and one state; no older state ever follows a newer one."""
    async with live_gateway(serve, Fresh) as live, _client(live, "/agents/fresh/c09?_pk=a") as a:
        await a.greeted()
        async with _client(live, "/agents/fresh/c09?_pk=b") as b:
            await b.got("cf_agent_identity")
            await b.set_state({"count": 7})
            await a.told({"count": 7})
            await live.served.client.agent("Fresh", "c09").set_state({"count": 8})
            await a.told({"count": 8})
            await b.told({"count": 8})

            assert a.kinds[:3] == ["cf_agent_identity", "cf_agent_state", "cf_agent_mcp_servers"]
            assert len(a.of("cf_agent_identity")) == len(b.of("cf_agent_identity")) == 1
            assert a.states == [{"count": 0}, {"count": 7}, {"count": 8}]
            counts = [state["count"] for state in b.states]
            assert counts == sorted(counts)


async def test_every_way_of_changing_reaches_connected_clients(
    serve: Serve, tmp_path: Path
) -> None:
    """Services, handlers, the command line and other processes on the directory are all heard."""
    async with (
        live_gateway(serve, Scores) as live,
        _client(live, "/agents/scores/ways") as client,
    ):
        await client.greeted()
        agent = live.served.client.agent("Scores", "ways")

        await agent.merge_state({"score": 1})
        await client.told({"score": 1})
        assert await agent.call("add", 1) == 2
        await client.told({"score": 2})
        place = ("--address", live.served.address, "--task-queue", live.served.task_queue)
        command = ("state", "merge", "Scores", "ways", '{"score": 3}', *place)
        ran = await run_program(*command, cwd=tmp_path)
        assert ran.code == 0, ran.out
        await client.told({"score": 3})
        other = await SqliteStorage.open(live.served.data_dir)
        try:
            host = AgentHost(other, AgentRegistry([Scores]), on_inbox=lambda ref: None)
            change = Mutation("other-process", MutationKind.SET, {"score": 4})
            await host.commit_batch(AgentBatch(agent_ref("Scores", "ways"), [change]))
        finally:
            await other.close()
        await client.told({"score": 4})

        assert client.states == [{"score": score} for score in range(5)]
