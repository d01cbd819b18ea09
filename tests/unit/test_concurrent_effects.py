"""Tasks of one handler that have effects at the same time, and the repeat that finds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from agent_runtime import Agent, Json
from agent_runtime.errors import HandlerDivergedError, StorageUnavailableError
from agent_runtime.handlers.invocation import current_invocation
from agent_runtime.llm import ChatRequest, ChatResponse, ToolCall, Usage
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import SessionEvent
from agent_runtime.session.tool import Tool
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing import ScriptedModel
from tests.support.repeated_handler import KEY, Crash, RepeatedHandler, crashing_at_write
from tests.support.session_stores import u

SCHEMA: dict[str, Json] = {"type": "object", "properties": {"by": {"type": "integer"}}}
TURNS_WRITES = 18
"""How many transactions the two turns of these tests take, one less if states share one."""


async def together(*work: Awaitable[Any]) -> list[Any]:
    """Gather, and if one fails wait until the others have died of it, as in a killed process."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await asyncio.gather(*tasks, return_exceptions=True)


class Juggler(Agent[dict[str, Json]]):
    """Does several things at the same time."""

    initial_state = {"count": 0}

    async def count(self, arguments: Mapping[str, Json]) -> str:
        """Have two effects at the same time, in a tool."""
        by = int(arguments["by"])
        said, _ = await together(
            self.step(f"note {by}", _saying(f"counted {by}")),
            self.update_state(lambda state: {"count": state["count"] + by}),
        )
        return str(said)

    async def talk_twice(self) -> list[str]:
        """Run turns of two conversations together."""
        tools = [Tool("count", "", SCHEMA, self.count)]
        turns = await together(
            self.generate("one", session_id="a", tools=tools),
            self.generate("two", session_id="b", tools=tools),
        )
        return [turn.text for turn in turns]


Run = RepeatedHandler[Juggler]


def _saying(text: str) -> Callable[[], Awaitable[str]]:
    async def say() -> str:
        return text

    return say


@pytest.fixture
def run(storage: SqliteStorage) -> Run:
    """The juggler's handlers."""
    return RepeatedHandler(storage, Juggler)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The agent's model, whose answers each test gives."""
    scripted = ScriptedModel()
    monkeypatch.setattr(Juggler, "model", scripted)
    return scripted


def _answer(request: ChatRequest) -> ChatResponse | str:
    """Let each conversation's model call the tool once, and then say what it said."""
    asked = next(each.text for each in request.messages if each.role == "user")
    if request.messages[-1].role == "tool":
        return f"{asked}: {request.messages[-1].text}"
    call = ToolCall("c", "count", {"by": 1 if asked == "one" else 10})
    return ChatResponse("", (call,), "tool_calls", Usage(10, 5), "scripted")


async def _left(juggler: Juggler) -> dict[str, Any]:
    found = {}
    for name in ("a", "b"):
        history = await juggler.get_session(name).get_history()
        found[name] = [each["parts"][-1].get("text") for each in history]
    return {**found, "state": juggler.state}


async def _paid(run: Run) -> int:
    refs = [SessionRef(run.ref, name) for name in ("a", "b")]
    return sum([len(await run.storage.sessions.usage(ref)) for ref in refs])


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("at", range(1, TURNS_WRITES + 1))
async def test_wherever_the_crash_comes_both_turns_end_as_without_one(
    run: Run, model: ScriptedModel, storage: SqliteStorage, at: int, *, is_before: bool
) -> None:
    """Each turn finds its own effects, whatever the other one had come to."""
    model.play(*[_answer] * 12)
    with crashing_at_write(storage, at, is_before=is_before):
        await run.until_crash(lambda juggler: juggler.talk_twice())
    paid, asked = await _paid(run), len(model.requests)
    texts = await run(lambda juggler: juggler.talk_twice())

    assert texts == ["one: counted 1", "two: counted 10"]
    assert len(model.requests) - asked == 4 - paid
    assert await _paid(run) == 4
    assert await run(_left, "look") == {
        "a": ["one", None, "one: counted 1"],
        "b": ["two", None, "two: counted 10"],
        "state": {"count": 11},
    }


async def test_a_turn_that_had_to_wait_is_found_again(run: Run, model: ScriptedModel) -> None:
    """Which of two turns began first to have effects may be the other one in the repeat."""
    other_has_ended = asyncio.Event()

    def answer(request: ChatRequest) -> ChatResponse | str:
        if len(model.requests) == 2:
            other_has_ended.set()
        return _answer(request)

    model.play(*[answer] * 4)

    async def busy(juggler: Juggler) -> list[str]:
        has_turn = asyncio.Event()

        async def hold() -> None:
            async with juggler._session_turns.turn("a"):
                has_turn.set()
                await other_has_ended.wait()

        holding = asyncio.create_task(hold())
        await has_turn.wait()
        texts = await juggler.talk_twice()
        await holding
        return texts

    first = await run(busy)
    assert await run(lambda juggler: juggler.talk_twice()) == first
    assert len(model.requests) == 4


async def _two_sequences(juggler: Juggler, order: list[str], log: list[str]) -> list[list[Json]]:
    """Let two tasks take three steps each, which come to their ends in a given order."""
    turns = {name: asyncio.Event() for name in order}
    for name in order[:1]:
        turns[name].set()

    async def sequence(name: str) -> list[Json]:
        found = []
        for number in range(3):
            step = f"{name}{number}"

            async def take(step: str = step) -> str:
                await turns[step].wait()
                log.append(step)
                if step != order[-1]:
                    turns[order[order.index(step) + 1]].set()
                return step

            try:
                found.append(await juggler.step("take", take))
            except BaseException:
                # A killed process lets nobody wait.
                for turn in turns.values():
                    turn.set()
                raise
        return found

    return [*await together(sequence("a"), sequence("b"))]


async def test_sequences_that_cross_are_each_found_again(run: Run) -> None:
    """A repeat in which all is there at once gives each task its own steps, in its order."""
    log: list[str] = []
    expected = [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    order = ["b0", "a0", "b1", "b2", "a1", "a2"]

    assert await run(lambda juggler: _two_sequences(juggler, order, log)) == expected
    assert await run(lambda juggler: _two_sequences(juggler, order, log)) == expected
    assert log == order


@pytest.mark.parametrize("at", range(2, 8))
async def test_sequences_go_on_where_the_crash_was(
    run: Run, storage: SqliteStorage, at: int
) -> None:
    """Each task goes on after the last of its own steps."""
    log: list[str] = []
    order = ["b0", "a0", "b1", "b2", "a1", "a2"]
    with crashing_at_write(storage, at, is_before=False):
        await run.until_crash(lambda juggler: _two_sequences(juggler, order, log))
    done = log[: at - 1]
    rest = [step for step in order if step not in done]
    again: list[str] = []
    result = await run(lambda juggler: _two_sequences(juggler, rest or order, again))

    assert result == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]
    assert again == rest


async def test_tasks_of_tasks_have_their_places(run: Run) -> None:
    """Steps of one name in tasks of tasks, before and after an effect of the handler's own."""
    taken: list[str] = []

    async def handle(juggler: Juggler) -> list[Any]:
        async def leaf(name: str) -> Json:
            async def take() -> str:
                taken.append(name)
                return name

            return await juggler.step("take", take)

        async def branch(name: str) -> list[Json]:
            return [await leaf(name), *await asyncio.gather(leaf(f"{name}1"), leaf(f"{name}2"))]

        first = await asyncio.gather(branch("a"), branch("b"))
        await juggler.step("between", _saying("between"))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(name)) for name in "cd"]
        return [*first, *[task.result() for task in tasks]]

    expected = [[name, f"{name}1", f"{name}2"] for name in "abcd"]
    assert await run(handle) == expected
    assert await run(handle) == expected
    assert sorted(taken) == sorted(step for steps in expected for step in steps)


async def test_what_an_observer_begins_is_no_task_of_the_handler(run: Run) -> None:
    """A repeat that does not call it needs the same places."""

    async def handle(juggler: Juggler) -> list[Json]:
        async def observe(event: SessionEvent) -> None:
            await asyncio.gather(juggler.step("seen", _saying("x")), juggler.set_state({}))

        session = Session.create(juggler).on_change(observe)
        await session.append_message(u("m1"))
        return [
            *await asyncio.gather(
                juggler.step("one", _saying("1")), juggler.step("two", _saying("2"))
            )
        ]

    assert await run(handle) == ["1", "2"]
    assert await run(handle) == ["1", "2"]


async def test_what_a_step_does_to_the_agent_is_not_the_handlers_own(run: Run) -> None:
    """A repeat that finds the step recorded does not run it; one that does not goes on in it."""
    runs: list[None] = []

    async def handle(juggler: Juggler) -> list[Json]:
        async def work() -> int:
            runs.append(None)
            await juggler.update_state(lambda state: {"count": state["count"] + 1})
            if len(runs) == 1:
                raise Crash
            return len(runs)

        return [await juggler.step("work", work), await juggler.step("after", _saying("x"))]

    await run.until_crash(handle)
    assert await run(handle) == [2, "x"]
    assert await run(handle) == [2, "x"]
    assert (await run(_left, "look"))["state"] == {"count": 1}


async def test_tasks_that_come_in_another_order_are_refused(run: Run) -> None:
    """Whose first effects depend on what is not recorded cannot be told apart."""

    async def handle(juggler: Juggler, *names: str) -> None:
        await asyncio.gather(*(juggler.step(name, _saying(name)) for name in names))

    await run(lambda juggler: handle(juggler, "a", "b"))

    with pytest.raises(HandlerDivergedError, match="in a task or tool of it"):
        await run(lambda juggler: handle(juggler, "b", "a"))


@pytest.mark.parametrize("error", [StorageUnavailableError("locked"), ValueError("no")])
async def test_a_handler_that_fails_leaves_no_task_behind(run: Run, error: Exception) -> None:
    """It would go on beside the repeat."""
    has_begun, was_stopped = asyncio.Event(), asyncio.Event()

    async def handle(juggler: Juggler) -> None:
        async def wait() -> str:
            has_begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                was_stopped.set()
            return ""

        async def fail() -> None:
            await has_begun.wait()
            raise error

        await asyncio.gather(juggler.step("wait", wait), fail())

    with pytest.raises(type(error)):
        await run(handle)
    assert was_stopped.is_set()


async def test_what_a_task_asks_of_others_is_asked_by_the_call(run: Run) -> None:
    """So one that would wait for itself is known, and one that destroys its agent may end."""

    async def key(juggler: Juggler) -> str:
        return current_invocation(juggler).key

    async def handle(juggler: Juggler) -> list[str]:
        in_a_tool = await current_invocation(juggler).composite("tool", None, lambda: key(juggler))
        return [await asyncio.create_task(key(juggler)), in_a_tool]

    assert await run(handle) == [KEY, KEY]


async def test_reading_in_a_task_does_not_move_the_handlers_effects(run: Run) -> None:
    """A task without effects of its own, and one that comes to them later, change nothing."""

    async def handle(juggler: Juggler, *, reads: bool) -> list[Json]:
        if reads:
            await asyncio.create_task(juggler.session.get_history())
        return [
            await juggler.step("one", _saying("1")),
            *await asyncio.gather(juggler.step("two", _saying("2"))),
        ]

    async def crash(juggler: Juggler) -> None:
        await handle(juggler, reads=True)
        raise Crash

    await run.until_crash(crash)
    assert await run(lambda juggler: handle(juggler, reads=False)) == ["1", "2"]
