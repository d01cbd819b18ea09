"""Worker and gateway share a process that dies by kill -9; clients of WebSockets lose nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

from agent_runtime import GatewayClient
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import UnavailableError
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.gateway_process import GatewayProcess
from tests.support.history import stored_keys

AGENTS, CLIENTS, ROUNDS, KILLS = 3, 6, 25, 4
QUEUE = "kill-joint"


class Clients:
    """Clients under load, and what each was told."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._chance = random.Random(5)
        self.receipts: dict[str, dict[str, int]] = {f"l{n}": {} for n in range(AGENTS)}
        self.answers: dict[str, dict[str, int]] = {f"r{n}": {} for n in range(AGENTS)}
        self.lost: dict[str, set[str]] = {f"r{n}": set() for n in range(AGENTS)}

    @property
    def done(self) -> int:
        """How many changes and calls are behind them."""
        told = [*self.receipts.values(), *self.answers.values(), *self.lost.values()]
        return sum(len(each) for each in told)

    async def run(self) -> None:
        """Change and call, all at the same time."""
        work = [each(number) for number in range(CLIENTS) for each in (self._change, self._call)]
        await asyncio.gather(*work)

    async def _change(self, number: int) -> None:
        name = f"l{number % AGENTS}"

        async def change(client: GatewayClient, key: str, count: int) -> None:
            agent = client.agent("Ledger", name)
            receipt = await agent.merge_state({f"client{number}": count}, idempotency_key=key)
            self.receipts[name][key] = receipt.version

        await self._in_rounds(number, change)

    async def _call(self, number: int) -> None:
        name = f"r{number % AGENTS}"

        async def call(client: GatewayClient, key: str, count: int) -> None:
            try:
                self.answers[name][key] = await client.agent("Register", name).call("enter", key)
            except UnavailableError:
                self.lost[name].add(key)

        await self._in_rounds(number, call)

    async def _in_rounds(
        self, number: int, work: Callable[[GatewayClient, str, int], Awaitable[None]]
    ) -> None:
        async with GatewayClient(self._url, timeout=timedelta(seconds=120)) as client:
            for count in range(ROUNDS):
                await work(client, f"{number}-{count}", count)
                await asyncio.sleep(self._chance.random() * 0.02)


@pytest.mark.timeout(600)
async def test_nothing_is_lost_and_nothing_done_twice(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """150 changes and 150 calls; every call that was taken in has ended in the end."""
    data_dir = tmp_path / "data"
    process = GatewayProcess(
        "tests.chaos.agents",
        address=temporal.address,
        data_dir=data_dir,
        task_queue=QUEUE,
        has_worker=True,
    )
    await process.start()
    clients = Clients(f"http://{process.host}")

    async def kill() -> None:
        for kills in range(1, KILLS + 1):
            await _reached(clients, kills * 2 * CLIENTS * ROUNDS // (KILLS + 1))
            await process.kill()
            await process.start()

    await asyncio.gather(kill(), clients.run())

    async with await AgentClient.connect(
        temporal.address, data_dir=data_dir, task_queue=QUEUE
    ) as client:
        storage = client.channel.storage
        assert storage is not None

        async def all_have_ended() -> None:
            assert await storage.read_waiting_agents(now_milliseconds() + 1_000, 10) == []

        await assert_eventually(all_have_ended, seconds=90)
        for name, receipts in clients.receipts.items():
            assert await stored_keys(client.agent("Ledger", name)) == receipts
        for name, answers in clients.answers.items():
            counts = (await client.agent("Register", name).get_state()).value
            assert set(counts.values()) == {1}
            assert set(answers) <= set(counts) <= set(answers) | clients.lost[name]
            assert set(answers.values()) == {1}
    await process.stop()


async def _reached(clients: Clients, goal: int) -> None:
    async def check() -> None:
        assert clients.done >= goal

    await assert_eventually(check, seconds=200, every=0.005)
