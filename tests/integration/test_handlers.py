"""Handlers side by side, exclusive ones, the agent's start, its hooks, and other agents."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest

from agent_runtime import Agent, callable
from agent_runtime.errors import (
    AgentStartError,
    ExclusiveDeadlockError,
    HandlerError,
    StateRejectedError,
)
from agent_runtime.handlers.invocation import MAX_HOOK_DEPTH
from tests.conftest import Serve
from tests.support.agents import Calls, Counter, Panic
from tests.support.eventually import assert_eventually

LOG: dict[str, list[Any]] = defaultdict(list)
"""What agents noted, by their names."""

WAIT = timedelta(seconds=60)


class Lane(Agent):
    """Exclusive methods."""

    gates: ClassVar[dict[str, asyncio.Event]] = defaultdict(asyncio.Event)

    @callable(exclusive=True)
    async def hold(self) -> None:
        """Hold the lane until the gate of the agent's name is opened."""
        LOG[self.name].append("+hold")
        await self.gates[self.name].wait()

    @callable(exclusive=True)
    async def take(self, mark: str, seconds: float = 0.05) -> str:
        """Hold the lane for a while."""
        LOG[self.name].append(f"+{mark}")
        await asyncio.sleep(seconds)
        LOG[self.name].append(f"-{mark}")
        return mark

    @callable(exclusive=True)
    async def fail(self) -> None:
        """Leave the lane by an error."""
        raise ValueError("left")

    @callable()
    async def free(self) -> str:
        """Not exclusive."""
        return "free"

    @callable(exclusive=True)
    async def call_myself(self) -> Any:
        """Wait for the lane while holding it."""
        return await self.agent("Lane", self.name).call("take", "inner")

    @callable(exclusive=True)
    async def call_through(self, other: str) -> Any:
        """Wait for the own lane through another agent."""
        return await self.agent("Lane", other).call("relay", self.name)

    @callable()
    async def relay(self, back: str) -> Any:
        """Call an exclusive method of the first."""
        return await self.agent("Lane", back).call("take", "back")


class Starting(Agent):
    """Has a start hook that may fail."""

    initial_state = {"starts": 0}
    failures: ClassVar[dict[str, int]] = defaultdict(int)

    async def on_start(self) -> None:
        """Note the start; fail as often as was asked for."""
        LOG[self.name].append("start")
        await asyncio.sleep(0.05)
        if self.failures[self.name] > 0:
            self.failures[self.name] -= 1
            raise RuntimeError("not yet")

    @callable()
    async def hello(self) -> str:
        """Answer."""
        LOG[self.name].append("hello")
        return "hello"


class Hooked(Agent):
    """A change hook that takes time, and one that never comes to rest."""

    initial_state = 0

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Note begin and end; go on by one for ever if the state is negative."""
        LOG[self.name].append(("begin", state))
        if state == "panic":
            raise Panic("no memory")
        if isinstance(state, int) and state < 0:
            await self.set_state(state - 1)
        await asyncio.sleep(0.05)
        LOG[self.name].append(("end", state))

    async def on_error(self, error: BaseException) -> None:
        """Note the error."""
        LOG[self.name].append(("error", str(error)))

    @callable()
    async def set_both(self) -> None:
        """Two changes in one method."""
        await self.set_state(1)
        await self.set_state(2)


class Caller(Agent):
    """Talks to other agents."""

    @callable()
    async def through(self, name: str, points: int) -> Any:
        """Change and call another agent and return what came of it."""
        other = self.agent("Counter", name)
        await other.merge_state({"items": ["from caller"]})
        total = await other.call("add_points", points)
        return [total, (await other.get_state()).value["items"]]

    @callable()
    async def fails(self, name: str) -> str:
        """Meet the errors of another agent."""
        found = []
        try:
            await self.agent("Calls", name).call("throw", "inner")
        except HandlerError as error:
            found.append(str(error.details_map["error"]))
        try:
            await self.agent("Counter", name).merge_state({"count": -1})
        except StateRejectedError as error:
            found.append(error.message)
        return "; ".join(found)


def _name() -> str:
    return f"n-{uuid4().hex[:8]}"


async def test_exclusive_calls_run_one_at_a_time_in_order(serve: Serve) -> None:
    """Exclusive calls of one agent never overlap and run in order of arrival."""
    name = _name()
    async with serve(Lane) as served:
        agent = served.client.agent("Lane", name)
        calls = []
        for mark in "abcd":
            calls.append(await agent.start_call("take", mark, 0.1))

            async def arrived(key: str = calls[-1].key) -> None:
                asked = (agent.ref, key)
                assert asked in await served.runtime.storage.read_invocations([asked])

            await assert_eventually(arrived)
        assert await asyncio.gather(*(call.result() for call in calls)) == list("abcd")
        assert LOG[name] == ["+a", "-a", "+b", "-b", "+c", "-c", "+d", "-d"]


async def test_the_lane_is_for_exclusive_calls_only(serve: Serve) -> None:
    """Others pass by; other agents have their own lane; an error leaves it."""
    first, second = _name(), _name()
    async with serve(Lane) as served:
        agent = served.client.agent("Lane", first)
        holding = asyncio.create_task(agent.call("hold"))

        async def held() -> None:
            assert LOG[first] == ["+hold"]

        await assert_eventually(held)
        assert await agent.call("free") == "free"
        assert await served.client.agent("Lane", second).call("take", "x") == "x"
        Lane.gates[first].set()
        await holding
        with pytest.raises(HandlerError, match="left"):
            await agent.call("fail")
        assert await agent.call("take", "after") == "after"


@pytest.mark.parametrize("method", ["call_myself", "call_through"])
async def test_waiting_for_oneself_is_an_error(serve: Serve, method: str) -> None:
    """An exclusive handler that waits for its own lane fails at once instead of for ever."""
    name = _name()
    async with serve(Lane) as served:
        agent = served.client.agent("Lane", name)
        args = [_name()] if method == "call_through" else []
        with pytest.raises(ExclusiveDeadlockError, match="exclusive"):
            await agent.call(method, *args, timeout=WAIT)
        assert await agent.call("take", "after", timeout=WAIT) == "after"


async def test_waiting_handlers_do_not_hold_state_up(serve: Serve) -> None:
    """A hundred handlers wait; changes of the state are made all the same."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", _name())
        await agent.set_state(0)
        slow = [await agent.start_call("held") for _ in range(100)]

        async def all_run() -> None:
            assert Calls.runs[agent.ref.name] == 100

        await assert_eventually(all_run)
        for number in range(20):
            await agent.set_state(number)
        Calls.gates[agent.ref.name].set()
        results = await asyncio.gather(*(call.result() for call in slow))
        assert results == ["done"] * 100


async def test_on_start_runs_once_for_all_who_wait(serve: Serve) -> None:
    """Concurrent first contacts share one start, and nothing is served before it."""
    name = _name()
    async with serve(Starting) as served:
        agent = served.client.agent("Starting", name)
        await asyncio.gather(agent.set_state({"starts": 1}), *(agent.call("hello") for _ in "abc"))
        assert LOG[name] == ["start", *["hello"] * 3]
    async with serve(Starting, task_queue=served.task_queue) as served:
        await served.client.agent("Starting", name).call("hello")
        assert LOG[name][4:] == ["start", "hello"]


async def test_a_failing_start_is_tried_again(serve: Serve) -> None:
    """The contact that met the failure fails typed; the next one starts anew."""
    name = _name()
    Starting.failures[name] = 2
    async with serve(Starting) as served:
        agent = served.client.agent("Starting", name)
        with pytest.raises(AgentStartError, match="on_start raised RuntimeError: not yet"):
            await agent.call("hello")
        with pytest.raises(AgentStartError, match="not yet"):
            await agent.set_state({"starts": 1})
        assert await agent.call("hello") == "hello"
        assert LOG[name] == ["start", "start", "start", "hello"]


async def test_w287_hooks_run_in_order_and_overlap(serve: Serve) -> None:
    """Each version is told once, in order; a hook does not wait for the one before."""
    name = _name()
    async with serve(Hooked) as served:
        agent = served.client.agent("Hooked", name)
        await agent.call("set_both")

        async def told() -> None:
            assert sorted(LOG[name]) == [("begin", 1), ("begin", 2), ("end", 1), ("end", 2)]

        await assert_eventually(told)
        assert [entry for entry in LOG[name] if entry[0] == "begin"] == [("begin", 1), ("begin", 2)]


async def test_every_change_is_told_once_in_order(serve: Serve) -> None:
    """Fifty changes by many callers are fifty hooks, begun in order of versions."""
    name = _name()
    async with serve(Hooked) as served:
        agent = served.client.agent("Hooked", name)
        await asyncio.gather(*(agent.set_state({"n": number}) for number in range(50)))
        history = await agent.state_history(limit=100)

        async def told() -> None:
            assert len(LOG[name]) == 100

        await assert_eventually(told)
        begun = [state for what, state in LOG[name] if what == "begin"]
        assert begun == [entry.value for entry in reversed(history)]


async def test_a_hook_that_panics_is_told(serve: Serve) -> None:
    """What is raised beside `Exception` ends a hook like any error."""
    name = _name()
    async with serve(Hooked) as served:
        agent = served.client.agent("Hooked", name)
        await agent.set_state("panic")
        await agent.set_state(1)

        async def told() -> None:
            assert ("end", 1) in LOG[name]
            errors = [text for what, text in LOG[name] if what == "error"]
            assert len(errors) == 1
            assert "Panic: no memory" in errors[0]

        await assert_eventually(told)


async def test_a_hook_that_always_sets_state_is_stopped(serve: Serve) -> None:
    """The loop of fault 11 ends after a bounded number of rounds, told to `on_error`."""
    name = _name()
    async with serve(Hooked) as served:
        agent = served.client.agent("Hooked", name)
        await agent.set_state(-1)

        async def stopped() -> None:
            errors = [text for what, text in LOG[name] if what == "error"]
            assert len(errors) == 1
            assert "HookLoopError" in errors[0]

        await assert_eventually(stopped)
        assert (await agent.get_state()).value == -1 - MAX_HOOK_DEPTH
        await agent.set_state(5)

        async def goes_on() -> None:
            assert ("end", 5) in LOG[name]

        await assert_eventually(goes_on)


async def test_agents_call_agents(serve: Serve) -> None:
    """A handler changes, calls and reads another agent."""
    name = _name()
    async with serve(Caller, Counter) as served:
        agent = served.client.agent("Caller", name)
        assert await agent.call("through", name, 3) == [3, ["from caller"]]
        assert await agent.call("through", name, 4) == [7, ["from caller"]]


async def test_errors_of_other_agents_are_typed(serve: Serve) -> None:
    """What another agent refused or raised is caught by its class in a handler."""
    name = _name()
    async with serve(Caller, Counter, Calls) as served:
        agent = served.client.agent("Caller", name)
        assert await agent.call("fails", name) == "inner; count cannot be -1"
