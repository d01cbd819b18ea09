"""Batches sent by signal: committed many at a time, each answered for itself."""

from __future__ import annotations

import asyncio

from agent_runtime import Agent
from agent_runtime.call import ENTITY_WORKFLOW, MUTATE_SIGNAL, EntityRun
from agent_runtime.client.channel import _json_value
from agent_runtime.identity import agent_ref, workflow_id
from agent_runtime.mutation import Mutation, MutationKind, decode_outcomes, encode_batch
from agent_runtime.mutation import encode_mutation as encode
from tests.conftest import Serve, Served
from tests.support.eventually import assert_eventually

COUNT = 30


class Board(Agent):
    """Any JSON as its state."""


async def _send(served: Served, texts: dict[str, bytes], *, max_events: int = 500) -> None:
    """Start the agent's entity with the first batch and signal the others at once."""
    ref = agent_ref("Board", "b")
    first, *others = texts
    handle = await served.client.temporal.start_workflow(
        ENTITY_WORKFLOW,
        EntityRun(ref.class_name, ref.name, max_events=max_events),
        id=workflow_id(served.task_queue, ref),
        task_queue=served.task_queue,
        start_signal=MUTATE_SIGNAL,
        start_signal_args=[first, _json_value(texts[first])],
    )
    await asyncio.gather(
        *(handle.signal(MUTATE_SIGNAL, args=[name, _json_value(texts[name])]) for name in others)
    )


def _batches() -> dict[str, bytes]:
    ref = agent_ref("Board", "b")
    return {
        f"batch-{number}": encode_batch(
            ref, [encode(Mutation(f"key-{number}", MutationKind.MERGE, {f"k{number}": number}))]
        )
        for number in range(COUNT)
    }


async def _versions(served: Served, names: list[str]) -> list[int]:
    versions: list[int] = []

    async def all_answered() -> None:
        versions.clear()
        for name in names:
            answer = await served.runtime.storage.read_answer(name)
            assert answer is not None, f"{name} is not answered"
            [[outcome]] = decode_outcomes(answer.encode())
            versions.append(getattr(outcome, "version", 0))

    await assert_eventually(all_answered)
    return versions


async def test_each_batch_gets_its_own_answer(serve: Serve) -> None:
    """Thirty signals at once: every batch finds its own receipt, and all are applied once."""
    async with serve(Board) as served:
        await _send(served, _batches())
        versions = await _versions(served, [f"batch-{number}" for number in range(COUNT)])
        state = await served.client.agent("Board", "b").get_state()
    assert sorted(versions) == list(range(1, COUNT + 1))
    assert state.value == {f"k{number}": number for number in range(COUNT)}


async def test_a_refused_batch_takes_no_other_with_it(serve: Serve) -> None:
    """A signal that is no batch at all is left out; those beside it are committed."""
    texts = _batches()
    async with serve(Board) as served:
        await _send(served, {"junk": b'[{"agent":"Board"}]', **texts})
        assert sorted(await _versions(served, [*texts])) == list(range(1, COUNT + 1))


async def test_batches_survive_a_rollover_in_their_midst(serve: Serve) -> None:
    """Runs that end after a few events pass on what they have not committed."""
    async with serve(Board) as served:
        await _send(served, _batches(), max_events=20)
        versions = await _versions(served, [f"batch-{number}" for number in range(COUNT)])
    assert sorted(versions) == list(range(1, COUNT + 1))
