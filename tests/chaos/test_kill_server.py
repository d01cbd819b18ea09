"""The Temporal server dies by kill -9 and comes back on its data; agents go on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.history import stored_keys
from tests.support.worker_process import WorkerProcess

CALLERS, ROUNDS = 6, 30


@pytest.mark.timeout(600)
async def test_callers_ride_out_a_killed_server(tmp_path: Path) -> None:
    """Calls under way when the server is killed complete after its restart, once each."""
    done: dict[str, int] = {}
    async with TemporalServer(tmp_path / "temporal") as server:
        worker = WorkerProcess(
            "tests.chaos.agents",
            address=server.address,
            data_dir=tmp_path / "data",
            task_queue="server-kill",
        )
        await worker.start()
        async with await AgentClient.connect(server.address, task_queue="server-kill") as client:
            ledger = client.agent("Ledger", "l")

            async def call(caller: int) -> None:
                for number in range(ROUNDS):
                    key = f"{caller}-{number}"
                    receipt = await ledger.merge_state(
                        {f"caller{caller}": number}, idempotency_key=key
                    )
                    done[key] = receipt.version

            async def kill() -> None:
                async def is_half_done() -> None:
                    assert len(done) >= CALLERS * ROUNDS // 2

                await assert_eventually(is_half_done, every=0.002)
                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)
                await server.stop()
                await asyncio.sleep(0.5)  # a pause without any server is what is tested here
                await server.start()

            await asyncio.gather(kill(), *(call(caller) for caller in range(CALLERS)))

            assert await stored_keys(ledger) == done
            assert len(done) == CALLERS * ROUNDS
        await worker.stop()
