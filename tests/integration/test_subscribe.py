"""`AgentHandle.subscribe`: in order, never behind for good, and nothing left when it ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from agent_runtime import AgentClient, StateSnapshot
from agent_runtime.errors import UnknownAgentClassError
from tests.conftest import Serve
from tests.support.agents import COUNTER, Bare, Counter
from tests.support.eventually import assert_eventually


async def test_the_present_state_comes_first(serve: Serve) -> None:
    """Also one that was never set; a class's initial state is stored as by every first read."""
    async with (
        serve(Bare, Counter) as served,
        served.client.agent("Bare", "a").subscribe() as bare,
        served.client.agent("Counter", "a").subscribe() as counter,
    ):
        first = [await anext(bare), await anext(counter)]

    assert first == [StateSnapshot(None, 0, is_set=False), StateSnapshot(COUNTER, 1)]


@pytest.mark.parametrize("has_storage", [True, False])
async def test_changes_follow(serve: Serve, has_storage: bool) -> None:
    """With the storage, and through Temporal alone."""
    async with serve(Bare, has_storage=has_storage) as served:
        agent = served.client.agent("Bare", "a")
        async with agent.subscribe() as states:
            await anext(states)
            seen = []
            for value in ("x", None):
                await agent.set_state(value)
                seen.append(await asyncio.wait_for(anext(states), 60))

    assert seen == [StateSnapshot("x", 1), StateSnapshot(None, 2)]


async def test_changes_by_another_process_follow(serve: Serve) -> None:
    """The feed is in the storage, so it does not matter who commits."""
    async with (
        serve(Bare) as served,
        await AgentClient.connect(
            served.address, data_dir=served.data_dir, task_queue=served.task_queue
        ) as other,
        other.agent("Bare", "a").subscribe() as states,
    ):
        await anext(states)
        await served.client.agent("Bare", "a").set_state(1)
        seen = await asyncio.wait_for(anext(states), 60)

    assert seen == StateSnapshot(1, 1)


async def test_under_writes_versions_grow_up_to_the_newest(serve: Serve) -> None:
    """Whatever is coalesced, each value is that of its version, and the last one is the newest."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "busy")

        async def write() -> None:
            for number in range(1, 201):
                await agent.set_state(number)

        writing = asyncio.create_task(write())
        seen = []
        async with agent.subscribe() as states:
            async for state in states:
                seen.append(state)
                if state.version == 200:
                    break
        await writing
    versions = [state.version for state in seen]

    assert versions == sorted(set(versions))
    assert [state for state in seen if state.is_set and state.value != state.version] == []
    assert len(seen) > 1


async def test_a_slow_reader_gets_the_newest(serve: Serve) -> None:
    """Not all that it missed, one after the other."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        async with agent.subscribe() as states:
            await anext(states)
            for number in range(50):
                await agent.set_state(number)

            assert await anext(states) == StateSnapshot(49, 50)


async def test_closing_ends_it(serve: Serve) -> None:
    """Whoever waits for the next state is told, at once."""
    async with serve(Bare) as served:
        states = served.client.agent("Bare", "a").subscribe()
        await anext(states)
        waiting = asyncio.create_task(_rest(states))
        await asyncio.sleep(0)
        states.close()

        assert await asyncio.wait_for(waiting, 30) == []
        assert [state async for state in states] == []


@pytest.mark.parametrize("has_storage", [True, False])
async def test_closing_the_client_ends_it(serve: Serve, has_storage: bool) -> None:
    """Nothing waits on for a client that is gone."""
    async with serve(Bare) as served:
        storage = served.runtime.storage if has_storage else None
        client = await AgentClient.connect(
            served.address, storage=storage, task_queue=served.task_queue
        )
        states = client.agent("Bare", "a").subscribe()
        await anext(states)
        waiting = asyncio.create_task(_rest(states))
        await asyncio.sleep(0)
        await client.close()

        assert await asyncio.wait_for(waiting, 30) == []


async def test_one_that_is_dropped_leaves_nothing(serve: Serve) -> None:
    """A loop that was left is forgotten, and the feed is followed no more."""
    async with serve(Bare) as served:
        async for _ in served.client.agent("Bare", "a").subscribe():
            break
        gc.collect()

        async def nobody_follows() -> None:
            assert [task for task in asyncio.all_tasks() if "_follow" in repr(task)] == []

        await assert_eventually(nobody_follows)


async def test_an_unknown_class_is_said_at_the_first_read(serve: Serve) -> None:
    """It would never change."""
    async with serve(Bare) as served:
        with pytest.raises(UnknownAgentClassError):
            await anext(served.client.agent("Nobody", "a").subscribe())


async def _rest(states: AsyncIterator[StateSnapshot]) -> list[StateSnapshot]:
    return [state async for state in states]
