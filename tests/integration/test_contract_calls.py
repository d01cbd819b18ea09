"""Callable methods, by the numbers of state-and-sync 21 (F), and their siblings."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    HandlerCancelledError,
    HandlerError,
    IdempotencyConflictError,
    InvalidAgentError,
    InvalidRequestError,
    MethodNotCallableError,
    NotSerializableError,
    UnknownAgentClassError,
    UnknownMethodError,
)
from tests.conftest import Serve
from tests.support.agents import Calls, Counter
from tests.support.eventually import assert_eventually


@pytest.mark.parametrize(
    ("method", "args", "result"),
    [
        pytest.param("add", [5, 3], 8, id="w087"),
        pytest.param("slow", [0.01], "done", id="w088"),
        pytest.param("void", [], None, id="w090_w103"),
        pytest.param("slow", [0, None], None, id="w091_w092"),
        pytest.param("add", [42.5, -10.5], 32.0, id="w104"),
        pytest.param("slow", [0, {"a": [1, {"b": "🦊\0"}]}], {"a": [1, {"b": "🦊\0"}]}, id="json"),
    ],
)
async def test_w087_to_w104_a_method_returns(
    serve: Serve, method: str, args: list[Any], result: Any
) -> None:
    """Plain and async methods return their JSON result; nothing and null are null."""
    async with serve(Calls) as served:
        assert await served.client.agent("Calls", "a").call(method, *args) == result


async def test_w089_a_caller_that_leaves_breaks_nothing(serve: Serve) -> None:
    """The handler goes on and fails alone; its outcome is there for who asks again."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", f"w089-{uuid4()}")
        calling = asyncio.create_task(agent.call("slow", 0.3, "late", idempotency_key="k"))

        async def runs() -> None:
            assert Calls.runs[agent.ref.name] == 1

        await assert_eventually(runs)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert await agent.call("slow", 0.3, "late", idempotency_key="k") == "late"
        assert Calls.runs[agent.ref.name] == 1


async def test_w093_an_exception_has_its_text(serve: Serve) -> None:
    """What the method raised reaches the caller once, typed, with the method named."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", f"w093-{uuid4()}")
        with pytest.raises(HandlerError, match="throw: ValueError: Something went wrong") as caught:
            await agent.call("throw", "Something went wrong")
        expected = {"method": "throw", "error_type": "ValueError", "error": "Something went wrong"}
        assert dict(caught.value.details_map) == expected
        assert Calls.runs[agent.ref.name] == 1


async def test_w094_w095_what_cannot_be_called(serve: Serve) -> None:
    """Unknown and unmarked methods, unknown classes and wrong arguments are told apart."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(UnknownMethodError, match="does not exist"):
            await agent.call("nothing")
        with pytest.raises(MethodNotCallableError, match="not callable"):
            await agent.call("unmarked")
        with pytest.raises(InvalidRequestError, match="missing a required argument"):
            await agent.call("add", 1)
        with pytest.raises(InvalidRequestError, match="too many positional arguments"):
            await agent.call("void", 1)
        with pytest.raises(UnknownAgentClassError, match="this worker serves: Calls"):
            await served.client.agent("Nobody", "a").call("add", 1, 2)
        with pytest.raises(UnknownAgentClassError, match="this worker serves: Calls"):
            await served.client.agent("Nobody", "a").set_state(1)
        with pytest.raises(InvalidAgentError):
            served.client.agent("Calls", "")


async def test_w101_calls_at_once_get_their_own_results(serve: Serve) -> None:
    """Three calls at the same time answer each for itself."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        pairs = [(1, 2), (10, 20), (100, 200)]
        assert await asyncio.gather(*(agent.call("add", a, b) for a, b in pairs)) == [3, 30, 300]


async def test_w102_a_later_call_may_answer_first(serve: Serve) -> None:
    """Calls of one agent interleave: a quick one does not wait for a slow one."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", f"w102-{uuid4()}")
        slow = await agent.start_call("held", "slow")
        assert await agent.call("slow", 0.01, "quick") == "quick"
        Calls.gates[agent.ref.name].set()
        assert await slow.result() == "slow"


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        ("nan", NotSerializableError, "the result of weird is not JSON: nan"),
        ("function", NotSerializableError, "the result of weird is not JSON"),
        ("bytes", NotSerializableError, "bytes has no JSON form"),
        ("big", HandlerError, "returned 3000002 bytes of JSON, at most 2000000"),
    ],
)
async def test_a_result_that_cannot_travel_is_refused(
    serve: Serve, kind: str, error: type[AgentRuntimeError], reason: str
) -> None:
    """A result that is not JSON, or too large, fails its call once and nothing else."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(error, match=reason):
            await agent.call("weird", kind, timeout=timedelta(seconds=60))
        assert await agent.call("add", 1, 1) == 2


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("stop", "RuntimeError: the method raised StopIteration"),
        ("exit", "SystemExit: bye"),
        ("panic", "Panic: no memory"),
        ("unspeakable", "_Unspeakable"),
    ],
)
async def test_no_failure_takes_the_worker_down(serve: Serve, kind: str, reason: str) -> None:
    """Odd ways to fail are failures of their call like any other."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(HandlerError, match=reason):
            await agent.call("blow", kind, timeout=timedelta(seconds=60))
        assert await agent.call("add", 1, 1) == 2


async def test_a_cancelled_task_of_a_handler_is_its_error(serve: Serve) -> None:
    """A handler that was not cancelled itself fails, as its repeats would do the same for ever."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(HandlerError, match="CancelledError"):
            await agent.call("wait_for_nothing", timeout=timedelta(seconds=60))


@pytest.mark.parametrize("kind", ["stop", "exit", "panic", "unspeakable", "cancelled"])
async def test_no_failing_update_stops_the_others(serve: Serve, kind: str) -> None:
    """Whatever the function of an update raises, its caller gets it, and commits go on."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(HandlerError):
            await agent.call("update_by", kind, timeout=timedelta(seconds=60))
        assert (await agent.set_state({"n": 1})).version == 1


async def test_arguments_that_cannot_travel_are_refused(serve: Serve) -> None:
    """Arguments that are not JSON, or too large, are refused before anything is sent."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", "a")
        with pytest.raises(NotSerializableError, match="the arguments is not JSON"):
            await agent.call("slow", 0, float("nan"))
        with pytest.raises(InvalidRequestError, match="at most"):
            await agent.call("slow", 0, "x" * 3_000_000)


async def test_a_timeout_of_the_method_ends_it(serve: Serve) -> None:
    """A method that takes longer than it may is stopped, and its call fails."""
    async with serve(Calls) as served:
        with pytest.raises(HandlerError, match="took longer than its timeout"):
            await served.client.agent("Calls", "a").call("too_slow")


async def test_a_timeout_of_the_caller_leaves_the_handler(serve: Serve) -> None:
    """The caller gives up, the handler goes on, and the same key finds its result."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", f"t-{uuid4()}")
        with pytest.raises(CallTimeoutError, match="still runs"):
            await agent.call("held", 7, idempotency_key="k", timeout=timedelta(milliseconds=200))
        Calls.gates[agent.ref.name].set()
        assert await agent.call("held", 7, idempotency_key="k") == 7
        assert Calls.runs[agent.ref.name] == 1


async def test_a_cancelled_call_ends_its_handler(serve: Serve) -> None:
    """Cancelling stops the handler; everybody who asks for the call learns so."""
    async with serve(Calls) as served:
        agent = served.client.agent("Calls", f"c-{uuid4()}")
        call = await agent.start_call("endless", idempotency_key="k")

        async def runs() -> None:
            assert Calls.runs[agent.ref.name] == 1

        await assert_eventually(runs)
        await call.cancel()
        with pytest.raises(HandlerCancelledError):
            await call.result(timeout=timedelta(seconds=60))
        with pytest.raises(HandlerCancelledError):
            await agent.call("endless", idempotency_key="k")
        assert Calls.runs[agent.ref.name] == 1


async def test_a_key_runs_its_call_once(serve: Serve) -> None:
    """Repeats of a key return the recorded outcome, a failure too; other arguments conflict."""
    async with serve(Counter, Calls) as served:
        counter, calls = served.client.agent("Counter", "a"), served.client.agent("Calls", "a")
        results = await asyncio.gather(
            *(counter.call("add_points", 5, idempotency_key="k") for _ in range(5))
        )
        assert (results, (await counter.get_state()).value["count"]) == ([5] * 5, 5)
        with pytest.raises(IdempotencyConflictError, match="another call"):
            await counter.call("add_points", 6, idempotency_key="k")
        with pytest.raises(IdempotencyConflictError, match="another call"):
            await counter.call("increment", idempotency_key="k")
        for _ in range(2):
            with pytest.raises(HandlerError, match="once"):
                await calls.call("throw", "once", idempotency_key="k")


async def test_keys_belong_to_their_agent(serve: Serve) -> None:
    """The same key at another agent is another call, slashes in names and keys included."""
    async with serve(Counter) as served:
        first, second = (served.client.agent("Counter", name) for name in ("a", "a/b"))
        assert await first.call("add_points", 1, idempotency_key="b/c") == 1
        assert await second.call("add_points", 1, idempotency_key="c") == 1
        assert await second.call("add_points", 1, idempotency_key="b/c") == 2


async def test_names_and_keys_of_the_greatest_length(serve: Serve) -> None:
    """Whatever name and key are allowed can be called."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "🦊" * 128)
        for key in ("ж" * 200, "/" * 200):
            first = await agent.call("add_points", 1, idempotency_key=key)
            assert await agent.call("add_points", 1, idempotency_key=key) == first


async def test_a_worker_may_come_later(serve: Serve) -> None:
    """A call made while no worker runs completes when one is back."""
    async with serve(Counter, has_storage=False) as served:
        await served.client.agent("Counter", "a").call("increment")
    agent = served.client.agent("Counter", "a")
    waiting = asyncio.create_task(agent.call("increment"))
    async with serve(Counter, task_queue=served.task_queue):
        assert await asyncio.wait_for(waiting, 60) == 2
