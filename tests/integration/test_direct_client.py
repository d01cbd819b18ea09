"""The client in a worker's own process: past Temporal where it can be, with the same guarantees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from temporalio.service import RPCError, RPCStatusCode

from agent_runtime import Agent, AgentClient, AgentRef, callable
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import (
    IdempotencyConflictError,
    StateRejectedError,
    StorageUnavailableError,
)
from agent_runtime.identity import workflow_id
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.runtime import AgentRuntime
from tests.conftest import Serve, Served
from tests.support.history import whole_history


class Plain(Agent):
    """Any JSON is its state."""

    @callable()
    async def add(self, number: int) -> int:
        """Add to the total and return it."""
        await self.update_state(lambda state: {"total": (state or {}).get("total", 0) + number})
        return int(self.state["total"])

    @callable()
    async def tell(self, other: str) -> int:
        """Change another agent, and return its version."""
        return (await self.agent("Plain", other).merge_state({"told by": self.name})).version


class Careful(Agent):
    """Is started, and looks at each state before it is kept."""

    starts: ClassVar[list[str]] = []

    async def on_start(self) -> None:
        """Take a moment."""
        await asyncio.sleep(0.05)
        self.starts.append(self.name)

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Refuse odd numbers above ten."""
        if next_state["n"] > 10 and next_state["n"] % 2:
            raise StateRejectedError("odd")


class Elsewhere(Agent):
    """Served by another worker only."""


async def has_entity(served: Served, ref: AgentRef) -> bool:
    """Tell whether the agent's entity ever ran."""
    handle = served.client.temporal.get_workflow_handle(workflow_id(served.task_queue, ref))
    try:
        await handle.describe()
    except RPCError as error:
        assert error.status is RPCStatusCode.NOT_FOUND
        return False
    return True


async def second_client(served: Served, *, has_storage: bool = True) -> AgentClient:
    """Return a client for one more worker of the same agents."""
    return await AgentClient.connect(
        served.address,
        storage=served.runtime.storage if has_storage else None,
        task_queue=served.task_queue,
    )


async def test_changes_and_calls_need_no_entity(serve: Serve) -> None:
    """State, calls, reads of a new agent and what handlers do to others, all in this process."""
    async with serve(Plain) as served:
        agent = served.runtime.client.agent("Plain", "a")
        versions = [(await agent.set_state({"total": 1})).version, await agent.call("tell", "b")]
        total = await agent.call("add", 2)
        new = await served.runtime.client.agent("Plain", "c").get_state()

        assert (versions, total, new.is_set) == ([1, 1], 3, False)
        assert not any([await has_entity(served, AgentRef("Plain", name)) for name in "abc"])
        # The client beside it sees the same agent.
        assert (await served.client.agent("Plain", "a").get_state()).value == {"total": 3}


async def test_both_ways_keep_the_same_receipts(serve: Serve) -> None:
    """A key used here is known to who comes through Temporal, and the other way round."""
    async with serve(Plain) as served:
        here, there = (
            client.agent("Plain", "a") for client in (served.runtime.client, served.client)
        )
        receipts = [
            await here.set_state({"n": 1}, idempotency_key="k1"),
            await there.set_state({"n": 1}, idempotency_key="k1"),
            await there.set_state({"n": 2}, idempotency_key="k2"),
            await here.set_state({"n": 2}, idempotency_key="k2"),
        ]
        with pytest.raises(IdempotencyConflictError):
            await here.set_state({"n": 3}, idempotency_key="k2")
        results = [
            await agent.call("add", 5, idempotency_key="c1") for agent in (here, there, here)
        ]

    assert [(one.version, one.duplicate) for one in receipts] == [
        (1, False),
        (1, True),
        (2, False),
        (2, True),
    ]
    assert results == [5, 5, 5]


async def test_changes_keep_their_order(serve: Serve) -> None:
    """Also where each has to read the agent first, and while the agent is being started."""
    Careful.starts.clear()
    async with serve(Careful) as served:
        agent = served.runtime.client.agent("Careful", "a")
        numbers = list(range(200))
        outcomes = await asyncio.gather(
            *(agent.set_state({"n": number}) for number in numbers), return_exceptions=True
        )
        kept = [entry.value["n"] for entry in await whole_history(agent)]

    assert kept == [number for number in numbers if number <= 10 or number % 2 == 0]
    refused = [
        number
        for number, one in zip(numbers, outcomes, strict=True)
        if isinstance(one, StateRejectedError)
    ]
    assert refused == [number for number in numbers if number > 10 and number % 2]
    assert Careful.starts == ["a"]


async def test_a_class_of_another_worker_is_reached_through_temporal(
    temporal: TemporalServer, tmp_path: Path
) -> None:
    """Each of two workers serves a class; the client of one reaches both."""
    queue = f"test-{uuid4().hex[:12]}"

    async def start(agent: type[Agent[Any]]) -> AgentRuntime:
        return await AgentRuntime.start(
            [agent], data_dir=tmp_path / "data", address=temporal.address, task_queue=queue
        )

    async with await start(Plain) as runtime:
        # A worker that lacks a class refuses its entity's commits, so only the other one is left.
        client = runtime.client
        await runtime._workers[0].shutdown()
        async with await start(Elsewhere):
            receipts = [
                await client.agent(name, "a").set_state(1) for name in ("Plain", "Elsewhere")
            ]

    assert [receipt.version for receipt in receipts] == [1, 1]


async def test_an_unanswering_database_makes_nobody_lose_a_change(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request waits in Temporal, and is done once."""
    async with serve(Plain) as served:
        writes = served.runtime.storage.write
        failures = 3

        async def write(unit: Callable[[Any], Any]) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise StorageUnavailableError("locked")
            return await writes(unit)

        monkeypatch.setattr(served.runtime.storage, "write", write)
        agent = served.runtime.client.agent("Plain", "a")
        receipt = await agent.merge_state({"n": 1})

        assert (receipt.version, len(await whole_history(agent))) == (1, 1)
        assert await has_entity(served, AgentRef("Plain", "a"))


async def test_while_temporal_is_away_changes_are_kept_and_calls_wait(tmp_path: Path) -> None:
    """A call that is taken in meanwhile is run once the server is back."""
    async with (
        TemporalServer(tmp_path / "temporal") as server,
        await AgentRuntime.start(
            [Plain], data_dir=tmp_path / "data", address=server.address
        ) as runtime,
    ):
        agent = runtime.client.agent("Plain", "a")
        await server.stop()
        receipt = await agent.set_state({"total": 1})
        call = await agent.start_call("add", 2)
        await server.start()

        assert (receipt.version, await call.result()) == (1, 3)


async def test_a_stopped_worker_leaves_the_client_to_others(serve: Serve) -> None:
    """What its client is asked afterwards goes through Temporal to the worker that is left."""
    async with serve(Plain) as served, await second_client(served) as client:
        agent = client.agent("Plain", "a")
        registry = served.runtime.host.registry
        async with AgentRuntime(client, served.runtime.storage, registry) as runtime:
            runtime._begin()
            await runtime._until_running()
            before = (await agent.set_state(1), await has_entity(served, agent.ref))
        after = (await agent.set_state(2), await has_entity(served, agent.ref))

    assert [(receipt.version, has) for receipt, has in (before, after)] == [(1, False), (2, True)]


async def test_a_client_without_the_storage_reads_what_it_wrote(serve: Serve) -> None:
    """It asks the entity, so it goes there to write as well, also in a worker's process."""
    async with (
        serve(Plain) as served,
        await second_client(served, has_storage=False) as client,
        AgentRuntime(client, served.runtime.storage, served.runtime.host.registry) as runtime,
    ):
        runtime._begin()
        agent = client.agent("Plain", "a")
        await agent.set_state({"n": 1})

        assert (await agent.get_state()).value == {"n": 1}
        assert await has_entity(served, agent.ref)


async def test_who_asks_the_entity_reads_what_was_committed_past_it(serve: Serve) -> None:
    """An agent that never had an entity gets one from the first read of a client that needs it."""
    async with serve(Plain, has_storage=False) as served:
        await served.runtime.client.agent("Plain", "a").set_state({"n": 1})
        there = served.client.agent("Plain", "a")

        assert [entry.version for entry in await there.state_history()] == [1]
        assert (await there.get_state()).value == {"n": 1}


async def _leave_a_call_behind(served: Served, key: str) -> AgentHandle:
    """Commit a call, and die before its handler is asked for."""
    served.runtime.host._on_inbox = lambda ref: None
    agent = served.runtime.client.agent("Plain", "a")
    await agent.start_call("add", 3, idempotency_key=key)
    return agent


async def test_a_call_whose_handler_was_never_asked_for_is_run_by_the_next_worker(
    serve: Serve,
) -> None:
    """At its start already; it is there once."""
    async with serve(Plain) as first:
        await _leave_a_call_behind(first, "left")
    async with serve(Plain, task_queue=first.task_queue) as second:
        agent = second.client.agent("Plain", "a")
        result = await second.client.channel.outcomes.wait(agent.ref, "left")
        again = await agent.call("add", 3, idempotency_key="left")

    assert (result, again) == ({"result": 3}, 3)


async def test_a_call_whose_handler_was_never_asked_for_is_run_by_another_worker(
    serve: Serve,
) -> None:
    """It finds the call when it looks around, without any new one to the agent."""
    async with serve(Plain) as served:
        await _leave_a_call_behind(served, "left")
        async with await second_client(served) as client:
            other = AgentRuntime(client, served.runtime.storage, served.runtime.host.registry)
            async with other:
                other._begin()
                result = await served.client.channel.outcomes.wait(AgentRef("Plain", "a"), "left")

    assert result == {"result": 3}
