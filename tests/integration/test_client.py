"""Mutations from outside: applied once whatever happens on the way, and refused each for itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime import AgentClient, Receipt, Retention
from agent_runtime.call import EntityRun
from agent_runtime.client.batcher import MAX_BYTES, MAX_MUTATIONS
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    IdempotencyConflictError,
    InvalidRequestError,
    StateRejectedError,
    StateTooLargeError,
    UnknownAgentClassError,
    VersionConflictError,
)
from agent_runtime.identity import workflow_id
from tests.conftest import Serve, Served
from tests.support.agents import COUNTER, Bare, Calls, Counter
from tests.support.eventually import assert_eventually

SHORT = EntityRun("", "", max_events=30)


def _run_id(served: Served, agent: AgentHandle) -> Any:
    handle = served.client.temporal.get_workflow_handle(workflow_id(served.task_queue, agent.ref))
    return handle.describe()


async def test_expected_version_lets_one_win(serve: Serve) -> None:
    """Of many who expect the same version exactly one wins; the others learn the present one."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state(0)
        results = await asyncio.gather(
            *(agent.set_state(n, expected_version=1) for n in range(20)), return_exceptions=True
        )
        losers = [result for result in results if isinstance(result, VersionConflictError)]
        assert (len(losers), (await agent.get_state()).version) == (19, 2)
        assert dict(losers[0].details_map) == {"expected": 1, "actual": 2}


async def test_version_zero_is_the_first_writer_s(serve: Serve) -> None:
    """`expected_version=0` means that the state was never set."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        assert (await agent.set_state("first", expected_version=0)).version == 1
        with pytest.raises(VersionConflictError):
            await agent.set_state("second", expected_version=0)


async def test_a_wrong_version_fails_its_caller_alone(serve: Serve) -> None:
    """A mutation that can never be right does not spoil those sent with it."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        wrong: Any = "3"
        results = await asyncio.gather(
            agent.set_state(1),
            agent.set_state(2, expected_version=wrong),
            agent.set_state(3, idempotency_key=""),
            agent.set_state(float("nan")),
            agent.set_state(5),
            return_exceptions=True,
        )
        kinds = [type(result).__name__ for result in results]
        assert kinds == [
            "Receipt",
            "InvalidRequestError",
            "InvalidRequestError",
            "NotSerializableError",
            "Receipt",
        ]


async def test_a_refusal_in_a_batch_fails_alone(serve: Serve) -> None:
    """Of mutations that travel together only the refused ones fail, each with its reason."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        results = await asyncio.gather(
            *(agent.set_state({"count": -1 if n % 5 == 0 else n}) for n in range(25)),
            return_exceptions=True,
        )
        refused = [n for n, result in enumerate(results) if isinstance(result, StateRejectedError)]
        assert refused == [0, 5, 10, 15, 20]
        assert (await agent.get_state()).version == 20


async def test_a_long_refusal_does_not_spoil_its_batch(serve: Serve) -> None:
    """A validator that raises megabytes, or text that cannot be written, harms nobody else."""

    class Verbose(Bare):
        def validate_state_change(self, next_state: Any, source: str) -> None:
            if next_state == "long":
                raise ValueError("x" * 3_000_000)
            if next_state == "odd":
                raise ValueError("\ud800")

    async with serve(Verbose) as served:
        agent = served.client.agent("Verbose", "a")
        results = await asyncio.gather(
            *(agent.set_state(value) for value in ["long", 1, "odd", "long", 2] * 20),
            return_exceptions=True,
        )
        kinds = [type(result).__name__ for result in results[:5]]
        rejected = "StateRejectedError"
        assert kinds == [rejected, "Receipt", rejected, rejected, "Receipt"]
        assert (await agent.get_state()).version == 40


async def test_a_key_is_remembered_in_the_next_runs(serve: Serve) -> None:
    """Repeats after the entity has moved on to other runs return the first receipt."""
    async with serve(Bare, entity=SHORT) as served:
        agent = served.client.agent("Bare", "a")
        first = await agent.set_state("first", idempotency_key="k")
        before = await _run_id(served, agent)
        for number in range(60):
            await agent.merge_state({"n": number}) if number else await agent.set_state({})

        async def moved() -> None:
            assert (await _run_id(served, agent)).run_id != before.run_id

        await assert_eventually(moved)
        again = await agent.set_state("first", idempotency_key="k")
        assert (first, again) == (Receipt(1), Receipt(1, applied=False, duplicate=True))
        with pytest.raises(IdempotencyConflictError, match="version 1"):
            await agent.set_state("other", idempotency_key="k")
        assert (await agent.get_state()).value == {"n": 59}


async def test_moving_on_under_load_loses_nothing(serve: Serve) -> None:
    """While runs change every few batches, each of hundreds of mutations is applied once."""
    async with serve(Bare, entity=SHORT) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state({})

        async def one(number: int) -> None:
            for turn in range(20):
                await agent.merge_state({f"{number}-{turn}": turn})

        await asyncio.gather(*(one(number) for number in range(10)))
        snapshot = await agent.get_state()
        assert (len(snapshot.value), snapshot.version) == (200, 201)


async def test_a_key_is_remembered_over_hibernation(serve: Serve) -> None:
    """An idle entity ends; the next call starts it, and its keys are known."""
    async with serve(Bare, entity=EntityRun("", "", idle_seconds=0.5)) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state(1, idempotency_key="k")

        async def sleeps() -> None:
            description = await _run_id(served, agent)
            assert description.status is not None
            assert description.status.name == "COMPLETED"

        await assert_eventually(sleeps)
        assert (await agent.set_state(1, idempotency_key="k")).duplicate
        assert await agent.set_state(2) == Receipt(2)


async def test_a_key_is_remembered_over_a_restart(serve: Serve) -> None:
    """A new worker on the same directory knows the keys of the one before."""
    async with serve(Bare) as served:
        await served.client.agent("Bare", "a").set_state(1, idempotency_key="k")
    async with serve(Bare, task_queue=served.task_queue) as served:
        agent = served.client.agent("Bare", "a")
        assert await agent.set_state(1, idempotency_key="k") == Receipt(1, False, True)


async def test_a_call_waits_for_a_worker(serve: Serve) -> None:
    """Mutations sent while no worker runs are applied, once, when one is back."""
    async with serve(Bare) as served:
        await served.client.agent("Bare", "a").set_state(0)
    async with await AgentClient.connect(served.address, task_queue=served.task_queue) as client:
        agent = client.agent("Bare", "a")
        waiting = [asyncio.create_task(agent.set_state(number)) for number in (1, 2)]
        await asyncio.wait(waiting, timeout=0.5)
        assert [task.done() for task in waiting] == [False, False]
        async with serve(Bare, task_queue=served.task_queue):
            receipts = await asyncio.wait_for(asyncio.gather(*waiting), 90)
        assert [receipt.version for receipt in receipts] == [2, 3]


async def test_a_caller_s_timeout_is_typed(serve: Serve) -> None:
    """Without a worker the caller learns what to check, and that repeating is safe."""
    queue = f"test-{uuid4().hex[:8]}"
    async with serve(Bare) as served:
        address = served.address
    async with await AgentClient.connect(
        address, task_queue=queue, timeout=timedelta(seconds=0.5)
    ) as client:
        began = time.monotonic()
        with pytest.raises(CallTimeoutError, match="check that a worker runs on task queue"):
            await client.agent("Bare", "a").set_state(1, idempotency_key="k")
        assert time.monotonic() - began < 30
    async with serve(Bare, task_queue=queue) as served:
        assert (
            await served.client.agent("Bare", "a").set_state(1, idempotency_key="k")
        ).version == 1


@pytest.mark.parametrize("callers", [25, 200])
async def test_concurrent_callers_all_succeed(serve: Serve, callers: int) -> None:
    """However many call at once, all are served; the server's limits are not theirs."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        await asyncio.gather(*(agent.merge_state({f"k{n}": n}) for n in range(callers)))
        snapshot = await agent.get_state()
        # One version more: the first merge stored the initial state.
        assert (len(snapshot.value), snapshot.version) == (callers + 3, callers + 1)


async def test_a_cancelled_caller_takes_nobody_along(serve: Serve) -> None:
    """Callers that give up while their batch is under way leave the others' results alone."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state({})
        tasks = [asyncio.create_task(agent.merge_state({str(n): n})) for n in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        served_ = [n for n, result in enumerate(results) if isinstance(result, Receipt)]
        assert set(range(30)) - set(range(0, 30, 3)) <= set(served_)
        value = (await agent.get_state()).value
        assert {str(n) for n in served_} <= set(value)


async def test_more_than_fits_into_a_batch_is_sent_in_several(serve: Serve) -> None:
    """Beyond the caps of number and bytes the rest follows, in order."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state({})
        many = await asyncio.gather(
            *(agent.merge_state({"n": n}) for n in range(2 * MAX_MUTATIONS + 1))
        )
        assert [receipt.version for receipt in many] == list(range(2, 2 * MAX_MUTATIONS + 3))
        large = "x" * (MAX_BYTES // 2)
        big = await asyncio.gather(*(agent.set_state([n, large]) for n in range(6)))
        assert [receipt.version for receipt in big] == [big[0].version + n for n in range(6)]


@pytest.mark.parametrize("drains", [False, True])
async def test_the_largest_state_is_carried(serve: Serve, drains: bool) -> None:
    """1.9 MB are set and merged, also when the regular activity must carry them."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state({})
        if drains:
            served.runtime._state.drain()
        await agent.set_state({"blob": "x" * 1_900_000})
        await agent.merge_state({"blob": "y" * 1_900_000})
        snapshot = await agent.get_state()
        assert (snapshot.value, snapshot.version) == ({"blob": "y" * 1_900_000}, 3)


@pytest.mark.parametrize("by_signal", [False, True])
async def test_a_state_of_exactly_the_limit_is_carried(serve: Serve, by_signal: bool) -> None:
    """Two million bytes pass on every way; one more is refused before it is sent."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        if by_signal:
            served.client.channel.contention(agent.ref).note()
        assert await agent.set_state("x" * 1_999_998) == Receipt(1)
        with pytest.raises(StateTooLargeError, match="2000001 bytes"):
            await agent.set_state("x" * 1_999_999)
        assert (await agent.get_state()).version == 1


async def test_old_versions_go_with_the_retention(serve: Serve) -> None:
    """A runtime keeps the newest values as many as it is told; keys are kept far longer."""
    async with serve(Bare, retention=Retention(history_count=10)) as served:
        agent = served.client.agent("Bare", "a")
        for number in range(30):
            await agent.set_state({"n": number}, idempotency_key=f"k{number}")

        assert (await agent.get_state(version=25)).value == {"n": 24}
        with pytest.raises(InvalidRequestError, match="kept no longer"):
            await agent.get_state(version=3)
        history = await agent.state_history()
        assert [entry.version for entry in history] == list(range(30, 0, -1))
        assert history[-1].value is None
        assert (await agent.set_state({"n": 2}, idempotency_key="k2")).duplicate


async def test_a_client_without_storage_reads_by_query(serve: Serve) -> None:
    """State, history and earlier versions come through the worker, big ones too."""
    async with serve(Counter, has_storage=False) as served:
        agent = served.client.agent("Counter", "a")
        first = await agent.get_state()
        assert (first.value, first.version, first.is_set) == (COUNTER, 1, True)
        await agent.set_state({"count": 1}, idempotency_key="k")
        await agent.merge_state({"blob": "z" * 1_500_000})
        assert (await agent.get_state()).value["blob"] == "z" * 1_500_000
        assert (await agent.get_state(version=2)).value == {"count": 1}
        history = await agent.state_history(newest=2)
        assert [(e.version, e.kind, e.value, e.key) for e in history] == [
            (2, "set", {"count": 1}, "k"),
            (1, "init", COUNTER, None),
        ]
        with pytest.raises(InvalidRequestError, match="no state at version 9"):
            await agent.get_state(version=9)


async def test_a_history_of_big_states_is_read_by_query(serve: Serve) -> None:
    """More than one answer can carry is asked for in parts; no version is missing."""
    async with serve(Bare, has_storage=False) as served:
        agent = served.client.agent("Bare", "a")
        for number in range(4):
            await agent.set_state(str(number) * 1_500_000)
        await agent.set_state("small")

        history = await agent.state_history()
        assert [entry.version for entry in history] == [5, 4, 3, 2, 1]
        assert [entry.value[0] for entry in history] == ["s", "3", "2", "1", "0"]
        assert [e.version for e in await agent.state_history(newest=4, limit=2)] == [4, 3]


async def test_big_results_at_the_same_time_come_by_query(serve: Serve) -> None:
    """Results that no single answer can carry together all arrive."""
    async with serve(Calls, has_storage=False) as served:
        agent = served.client.agent("Calls", "a")
        texts = [str(number) * 1_500_000 for number in range(4)]
        results = await asyncio.gather(*(agent.call("slow", 0.3, text) for text in texts))
        assert results == texts


async def test_the_deepest_state_is_read_by_query(serve: Serve) -> None:
    """A state at the limit of depth can be read by all, as it could be set by all."""
    value: Any = []
    for _ in range(99):
        value = [value]
    async with serve(Bare, has_storage=False) as served:
        agent = served.client.agent("Bare", "a")
        await agent.set_state(value)
        assert (await agent.get_state()).value == value
        assert [entry.value for entry in await agent.state_history()] == [value]


async def test_history_of_an_agent_never_touched(serve: Serve) -> None:
    """Nothing is found and no state is made, by storage and by query alike."""
    for has_storage in (True, False):
        async with serve(Bare, has_storage=has_storage) as served:
            agent = served.client.agent("Bare", "never")
            assert await agent.state_history() == []
            with pytest.raises(InvalidRequestError, match="no state at version 1"):
                await agent.get_state(version=1)
            stored = await served.runtime.storage.read_state(agent.ref)
            assert stored is None or (stored.version, stored.state) == (0, None)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_page_has_limits(serve: Serve, limit: int) -> None:
    """History is read in pages of 1 to 1,000."""
    async with serve(Bare) as served:
        with pytest.raises(InvalidRequestError, match="limit must be 1 to 1000"):
            await served.client.agent("Bare", "a").state_history(limit=limit)


async def test_the_signal_path_answers_each_for_itself(serve: Serve) -> None:
    """By signal too each mutation has its receipt or its refusal, and keys count."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        served.client.channel.contention(agent.ref).note()
        results: Sequence[Any] = await asyncio.gather(
            agent.set_state({"count": 1}, idempotency_key="k"),
            agent.set_state({"count": -1}),
            agent.set_state({"count": 2}, expected_version=9),
            agent.set_state({"count": 1}, idempotency_key="k"),
            agent.set_state({"count": 3}, idempotency_key="k"),
            agent.merge_state({"more": True}),
            return_exceptions=True,
        )
        assert [result for result in results if isinstance(result, Receipt)] == [
            Receipt(1),
            Receipt(1, applied=False, duplicate=True),
            Receipt(2),
        ]
        assert [type(r).__name__ for r in results if isinstance(r, AgentRuntimeError)] == [
            "StateRejectedError",
            "VersionConflictError",
            "IdempotencyConflictError",
        ]


async def test_the_signal_path_refuses_what_nobody_serves(serve: Serve) -> None:
    """A batch that is refused as a whole says so by signal as fast as by update."""
    async with serve(Counter) as served:
        agent = served.client.agent("Nobody", "a")
        served.client.channel.contention(agent.ref).note()
        with pytest.raises(UnknownAgentClassError):
            await asyncio.wait_for(agent.set_state(1), 30)


async def test_two_clients_by_signal_while_runs_change(serve: Serve) -> None:
    """Two processes' worth of clients go by signal under load; each mutation is applied once."""
    async with (
        serve(Bare, entity=SHORT) as served,
        await AgentClient.connect(
            served.address,
            storage=served.runtime.storage,
            task_queue=served.task_queue,
            entity=SHORT,
        ) as second,
    ):
        await served.client.agent("Bare", "a").set_state({})

        async def one(client: AgentClient, mark: str) -> None:
            agent = client.agent("Bare", "a")
            client.channel.contention(agent.ref).note()
            for turn in range(25):
                await agent.merge_state({f"{mark}{turn}": turn})

        await asyncio.gather(
            *(one(client, f"{n}-{k}-") for n, client in enumerate((served.client, second))
              for k in range(4))
        )  # fmt: skip
        snapshot = await served.client.agent("Bare", "a").get_state()
        assert (len(snapshot.value), snapshot.version) == (200, 201)


async def test_closing_a_client_ends_what_waits(serve: Serve) -> None:
    """Callers of a closed client are told at once, and nothing is left running."""
    async with serve(Counter) as served:
        queue = served.task_queue
    client = await AgentClient.connect(served.address, task_queue=queue)
    waiting = asyncio.create_task(client.agent("Counter", uuid4().hex).set_state(COUNTER))
    await asyncio.sleep(0)

    async def is_sent() -> None:
        assert client.channel._batchers

    await assert_eventually(is_sent)
    await client.close()

    with pytest.raises(CallTimeoutError, match="closed"):
        await asyncio.wait_for(waiting, 30)
