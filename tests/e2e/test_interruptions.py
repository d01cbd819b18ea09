"""Three real clients of one agent, while the gateway and the worker come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from agent_runtime.local.temporal_server import TemporalServer
from tests.e2e.conftest import Shell
from tests.e2e.wire import WireClient
from tests.support.eventually import assert_eventually
from tests.support.gateway_process import GatewayProcess
from tests.support.worker_process import WorkerProcess

AGENTS = "tests.e2e.agents"

THREE = """
const clients = kept.clients = ["A", "B", "C"].map((id) => connect(agent, name, { id }));
await Promise.all(clients.map((one) => until(() => one.state)));
"""


@dataclass
class Site:
    """A worker and a gateway in processes of their own."""

    worker: WorkerProcess
    gateway: GatewayProcess


@pytest.fixture
async def site(temporal: TemporalServer, tmp_path: Path) -> AsyncIterator[Site]:
    """Both are running."""
    queue = f"e2e-{uuid4().hex[:12]}"
    address, data = temporal.address, tmp_path / "data"
    running = Site(
        WorkerProcess(AGENTS, address=address, data_dir=data, task_queue=queue),
        GatewayProcess(AGENTS, address=address, data_dir=data, task_queue=queue),
    )
    await running.worker.start()
    await running.gateway.start()
    yield running
    await running.gateway.stop()
    await running.worker.stop()


@pytest.fixture
async def clients(shell: Shell, site: Site) -> Shell:
    """Runs snippets at the site's gateway."""
    shell.host = site.gateway.host
    return shell


def _room() -> str:
    return f"room-{uuid4().hex[:8]}"


async def test_three_clients_stay_in_step(clients: Shell) -> None:
    """What each writes, and what a method does, all show; a refused write shows nowhere else."""
    found = await clients.run(
        THREE
        + """
        const all = (score) => until(() => clients.every((one) => one.state.score == score));
        for (const [index, one] of clients.entries()) {
          one.setState({ score: index + 1 });
          await all(index + 1);
        }
        await clients[0].call("setScore", [50]);
        await all(50);
        clients[1].setState({ score: -1 });
        await until(() => clients[1].seen.some(([kind]) => kind == "refused"));
        clients[2].setState({ score: 60 });
        await all(60);
        return clients.map((one) => [
          one.seen.filter(([kind]) => kind == "refused"),
          one.seen.filter(([, state, source]) => source == "server" && state.score < 0)
        ]);""",
        agent="ValidatedAgent",
        name=_room(),
    )

    assert found == [[[], []], [[["refused", "State update rejected"]], []], [[], []]]


async def test_clients_survive_a_killed_gateway(clients: Shell, site: Site) -> None:
    """They come back by themselves; what they wrote meanwhile arrives, in order, and all agree."""
    await clients.run(THREE, agent="CounterAgent", name=(name := _room()))
    await site.gateway.kill()
    await clients.run(
        """await until(() => kept.clients.every((one) => !one.identified));
        kept.clients[0].setState({ count: 41 });
        kept.call = kept.clients[0].call("increment");"""
    )
    await site.gateway.start()
    found = await clients.run(
        """const counted = await kept.call;
        await until(() => kept.clients.every((one) => one.identified && one.state.count == 42));
        kept.clients[1].setState({ count: 50 });
        await until(() => kept.clients.every((one) => one.state.count == 50));
        return [counted, (await kept.clients[2].call("connectionIds")).sort()];"""
    )

    assert found[0] == 42
    # The sockets of the killed gateway are forgotten soon, those of the new one are there.
    async with WireClient(site.gateway.host, f"/agents/counter-agent/{name}?_pk=D") as observer:

        async def forgotten() -> None:
            assert sorted(await observer.result("connectionIds")) == ["A", "B", "C", "D"]

        await assert_eventually(forgotten)


async def test_the_close_hook_hears_of_a_killed_gateway(clients: Shell, site: Site) -> None:
    """The next gateway tells the agent that the connection was dropped."""
    name = _room()
    await clients.run("await connect('EchoAgent', name, { id: 'A' }).ready", name=name)
    await site.gateway.kill()
    await clients.run("closeAll()")
    await site.gateway.start()
    async with WireClient(site.gateway.host, f"/agents/echo-agent/{name}") as client:

        async def told() -> None:
            reason = "WebSocket disconnected without sending Close frame."
            dropped = {"code": 1006, "reason": reason, "wasClean": False}
            assert await client.result("closes") == [dropped]

        await assert_eventually(told)


async def test_w290_clients_survive_a_stopped_gateway(clients: Shell, site: Site) -> None:
    """Closed with 1012 they come back with the same id; a sent call is rejected."""
    found = await clients.run(
        THREE
        + """
        kept.sent = failure(clients[0].call("slowIncrement", [60000]));
        kept.closed = new Promise((resolve) =>
          clients[0].addEventListener("close", (event) => resolve(event.code), { once: true }));
        return clients.length;""",
        agent="CounterAgent",
        name=_room(),
    )
    assert found == 3
    await site.gateway.stop()
    found = await clients.run("return [await kept.closed, await kept.sent]")
    assert found == [1012, "Connection closed"]
    await site.gateway.start()
    found = await clients.run(
        """await until(() => kept.clients.every((one) => one.identified));
        return (await kept.clients[1].call("connectionIds")).sort();"""
    )
    assert found == ["A", "B", "C"]


async def test_clients_survive_a_killed_worker(clients: Shell, site: Site) -> None:
    """They stay connected; what they do meanwhile waits, and is done once when a worker is back."""
    await clients.run(THREE, agent="CounterAgent", name=_room())
    await site.worker.kill()
    await clients.run(
        """kept.clients[0].setState({ count: 41 });
        kept.call = kept.clients[0].call("getState");"""
    )
    await site.worker.start()
    found = await clients.run(
        """await until(() => kept.clients.every((one) => one.state.count == 41));
        const stored = await kept.call;
        const count = await kept.clients[2].call("increment");
        await until(() => kept.clients.every((one) => one.state.count == 42));
        const told = kept.clients[1].seen.filter(([kind]) => kind == "state");
        return [stored, count, told.map(([, state, source]) => [state.count, source])];"""
    )

    server = "server"
    assert found == [{"count": 41}, 42, [[0, server], [41, server], [42, server]]]
