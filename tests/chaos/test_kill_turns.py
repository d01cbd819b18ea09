"""Workers die while agents talk; the conversation is as if none had."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.identity import AgentRef
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.session.message import message_text
from agent_runtime.session.stored_session import visible_messages
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.eventually import assert_eventually
from tests.support.worker_process import WorkerProcess

TURNS, CALLERS, KILLS = 4, 3, 4


@pytest.mark.timeout(600)
async def test_turns_are_held_once_each_whatever_dies(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Three callers talk until the worker was killed four times at moments of the model's calls."""
    chance = random.Random(5)
    asked = tmp_path / "asked"
    worker = WorkerProcess(
        "tests.chaos.talking_agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue="chaos-turns",
    )
    await worker.start()
    async with await AgentClient.connect(temporal.address, task_queue="chaos-turns") as client:
        agent = client.agent("Speaker", "s")
        all_killed = False

        async def talk(caller: int) -> list[str]:
            answers: list[str] = []
            while len(answers) < TURNS or not all_killed:
                turn = caller + CALLERS * len(answers)
                answers.append(await agent.call("say", f"{tmp_path} {turn}"))
            return answers

        async def kill() -> None:
            nonlocal all_killed
            await _kill(worker, asked, chance)
            all_killed = True

        talking = asyncio.gather(*map(talk, range(CALLERS)))
        answers, _ = await asyncio.gather(talking, kill())
        counted = await agent.call("counted")
        state = (await agent.get_state()).value
    await worker.stop()

    turns: list[int] = []
    for caller, said in enumerate(answers):
        own = [caller + CALLERS * number for number in range(len(said))]
        assert said == [f"answer {turn}" for turn in own]
        turns += own
    assert state == {"turns": len(turns)}
    assert Counter(counted) == Counter(map(str, turns))
    calls = Counter(_lines(asked))
    assert set(calls) == {f"{turn} {step}" for turn in turns for step in ("first", "last")}
    # Only an answer that a kill met before its record may have been asked for twice.
    assert calls.total() - 2 * len(turns) <= KILLS
    await _check_storage(tmp_path / "data", "", list(map(str, turns)))


@pytest.mark.timeout(600)
async def test_turns_that_one_handler_holds_together_are_held_once_each(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Call after call holds turns of two conversations, until the worker was killed four times."""
    chance = random.Random(6)
    asked = tmp_path / "asked"
    worker = WorkerProcess(
        "tests.chaos.talking_agents",
        address=temporal.address,
        data_dir=tmp_path / "data",
        task_queue="chaos-twins",
    )
    await worker.start()
    async with await AgentClient.connect(temporal.address, task_queue="chaos-twins") as client:
        agent = client.agent("Speaker", "s")
        killing = asyncio.create_task(_kill(worker, asked, chance))
        answers: list[list[str]] = []
        while len(answers) < TURNS or not killing.done():
            answers.append(await agent.call("say_in_both", str(tmp_path), str(len(answers))))
        await killing
        counted = await agent.call("counted")
        state = (await agent.get_state()).value
    await worker.stop()

    sides = ("left", "right")
    turns = {side: [f"{number}-{side}" for number in range(len(answers))] for side in sides}
    everywhere = [*turns["left"], *turns["right"]]
    assert answers == [[f"answer {n}-{side}" for side in sides] for n in range(len(answers))]
    assert state == {"turns": len(everywhere)}
    assert Counter(counted) == Counter(everywhere)
    calls = Counter(_lines(asked))
    assert set(calls) == {f"{turn} {step}" for turn in everywhere for step in ("first", "last")}
    # A kill may meet an answer of each of the two before its record.
    assert calls.total() - 2 * len(everywhere) <= 2 * KILLS
    for side in sides:
        await _check_storage(tmp_path / "data", side, turns[side])


async def _kill(worker: WorkerProcess, asked: Path, chance: random.Random) -> None:
    for _ in range(KILLS):
        goal = len(_lines(asked)) + 3

        async def is_reached(goal: int = goal) -> None:
            assert len(_lines(asked)) >= goal

        await assert_eventually(is_reached, every=0.005)
        await asyncio.sleep(chance.random() * 0.08)
        await worker.kill()
        await worker.start()


async def _check_storage(folder: Path, session_id: str, expected: list[str]) -> None:
    storage = await SqliteStorage.open(folder)
    ref = SessionRef(AgentRef("Speaker", "s"), session_id)
    try:
        usage = await storage.sessions.usage(ref)
        history = visible_messages(await storage.sessions.history(ref, None))
    finally:
        await storage.close()
    assert [row.purpose for row in usage] == ["generate"] * 2 * len(expected)
    # Each turn stands together: whoever was in the midst of one goes on before the next begins.
    turns = [history[at : at + 3] for at in range(0, len(history), 3)]
    for user, call, answer in turns:
        turn = message_text(user).split()[-1]
        assert (call["parts"][0]["output"], message_text(answer)) == (turn, f"answer {turn}")
    assert Counter(message_text(user).split()[-1] for user, *_ in turns) == Counter(expected)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
