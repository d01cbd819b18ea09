"""A worker is asked to stop under load: it leaves soon and no call fails."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.history import stored_keys
from tests.support.worker_process import WorkerProcess

CLIENTS, CALLERS, AGENTS = 4, 4, 4
STOP_CEILING_SECONDS = 20.0


@pytest.mark.timeout(600)
async def test_a_worker_stops_soon_under_load_and_no_call_fails(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Four clients mutate the same agents all the time while the worker is replaced."""
    queue = "stop-under-load"
    worker = WorkerProcess(
        "tests.chaos.agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue=queue,
    )
    await worker.start()
    acknowledged: dict[str, set[str]] = {f"l{number}": set() for number in range(AGENTS)}
    stopping: list[float] = []
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                await AgentClient.connect(temporal.address, task_queue=queue)
            )
            for _ in range(CLIENTS)
        ]
        is_over = False

        def count() -> int:
            return sum(map(len, acknowledged.values()))

        async def call(client: AgentClient, caller: int) -> None:
            name, number = f"l{caller % AGENTS}", 0
            while not is_over:
                key = f"{clients.index(client)}-{caller}-{number}"
                await client.agent("Ledger", name).merge_state({"n": number}, idempotency_key=key)
                acknowledged[name].add(key)
                number += 1

        async def replace() -> None:
            nonlocal is_over
            for _ in range(2):

                async def load_has_built_up(goal: int = count() + 100) -> None:
                    assert count() >= goal

                await assert_eventually(load_has_built_up)
                started = time.monotonic()
                await worker.stop()
                stopping.append(time.monotonic() - started)
                await worker.start()
            is_over = True

        await asyncio.gather(
            replace(), *(call(client, caller) for client in clients for caller in range(CALLERS))
        )

        for name, keys in acknowledged.items():
            assert keys == (await stored_keys(clients[0].agent("Ledger", name))).keys()
    await worker.stop()
    assert max(stopping) < STOP_CEILING_SECONDS
