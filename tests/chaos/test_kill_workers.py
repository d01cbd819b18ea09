"""Workers die by kill -9 at random points; what was acknowledged is there exactly once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from tests.support.eventually import assert_eventually
from tests.support.history import stored_keys
from tests.support.worker_process import WorkerProcess

AGENTS, CALLERS, ROUNDS = 5, 20, 25
KILLS = 6


@pytest.mark.timeout(600)
async def test_acknowledged_mutations_are_stored_once_each_in_order(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """500 mutations by 20 callers on 5 agents while workers are killed."""
    chance = random.Random(7)
    worker = _worker("ledger", temporal, tmp_path)
    await worker.start()
    acknowledged: dict[str, list[tuple[str, int]]] = {f"l{n}": [] for n in range(AGENTS)}
    async with await AgentClient.connect(temporal.address, task_queue="chaos-ledger") as client:

        async def call(caller: int) -> None:
            name = f"l{caller % AGENTS}"
            for number in range(ROUNDS):
                key = f"{caller}-{number}"
                receipt = await client.agent("Ledger", name).merge_state(
                    {f"caller{caller}": number}, idempotency_key=key
                )
                acknowledged[name].append((key, receipt.version))
                await asyncio.sleep(chance.random() * 0.02)

        async def kill() -> None:
            for kills in range(1, KILLS + 1):
                await _reached(lambda: _count(acknowledged), kills * 500 // (KILLS + 1))
                await worker.kill()
                await asyncio.sleep(chance.random() * 0.3)
                await worker.start()

        await asyncio.gather(kill(), *(call(caller) for caller in range(CALLERS)))

        assert _count(acknowledged) == CALLERS * ROUNDS
        for name, receipts in acknowledged.items():
            stored = await stored_keys(client.agent("Ledger", name))
            assert stored == dict(receipts)
            _assert_order_of_each_caller(sorted(stored, key=lambda key: stored[key]))
            state = (await client.agent("Ledger", name).get_state()).value
            assert set(state.values()) == {ROUNDS - 1}
    await worker.stop()


@pytest.mark.timeout(600)
async def test_handlers_do_not_repeat_what_they_have_done(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Handlers set state, run steps, write rows and append to files while workers are killed."""
    chance = random.Random(11)
    worker = _worker("journal", temporal, tmp_path)
    await worker.start()
    kills, names = 3, ["a", "b", "c", "d"]
    async with await AgentClient.connect(temporal.address, task_queue="chaos-journal") as client:
        journal = client.agent("Journal", "j")

        async def kill() -> None:
            for _ in range(kills):
                before = _lines(tmp_path, "steps", names)
                await _reached(lambda: len(_lines(tmp_path, "steps", names)), len(before) + 8)
                await asyncio.sleep(chance.random() * 0.03)
                await worker.kill()
                await worker.start()
            (tmp_path / "enough").touch()

        results, _ = await asyncio.gather(
            asyncio.gather(*(journal.call("work", name, str(tmp_path)) for name in names)), kill()
        )

        assert (await journal.get_state()).value == {"done": sum(results)}
        rows = Counter(tuple(row) for row in await journal.call("rows"))
        expected = zip(names, results, strict=True)
        assert rows == Counter((name, n) for name, rounds in expected for n in range(rounds))
        for name, rounds in zip(names, results, strict=True):
            steps = [int(line) for line in _lines(tmp_path, "steps", [name])]
            # Only the step that a kill met between its effect and its record may stand twice.
            assert steps == sorted(steps)
            assert set(steps) == set(range(rounds))
            assert len(steps) - rounds <= kills
    await worker.stop()


def _worker(name: str, temporal: TemporalServer, tmp_path: Path) -> WorkerProcess:
    return WorkerProcess(
        "tests.chaos.agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue=f"chaos-{name}",
    )


async def _reached(count: Callable[[], int], goal: int) -> None:
    async def check() -> None:
        assert count() >= goal

    await assert_eventually(check, seconds=120, every=0.005)


def _count(acknowledged: dict[str, list[tuple[str, int]]]) -> int:
    return sum(len(receipts) for receipts in acknowledged.values())


def _lines(folder: Path, kind: str, names: list[str]) -> list[str]:
    paths = [folder / f"{name}.{kind}" for name in names]
    return [line for path in paths if path.exists() for line in path.read_text().splitlines()]


def _assert_order_of_each_caller(keys: list[str]) -> None:
    last: dict[str, int] = {}
    for key in keys:
        caller, _, number = key.partition("-")
        assert int(number) == last.get(caller, -1) + 1
        last[caller] = int(number)
