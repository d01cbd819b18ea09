"""A turn that is repeated after a crash asks, runs and stores nothing again that was recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import pytest

from agent_runtime import Agent, Json
from agent_runtime.errors import ModelAuthenticationError, StorageUnavailableError
from agent_runtime.generation.answer_message import INTERRUPTED, answer_message
from agent_runtime.generation.generation import Generation
from agent_runtime.llm import ChatRequest, ChatResponse, ToolCall, Usage
from agent_runtime.session.session import Session
from agent_runtime.session.tool import Tool
from agent_runtime.storage.effect_key import inner_key
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing import ScriptedModel
from agent_runtime.testing.context_providers import InMemorySkillProvider
from tests.support.repeated_handler import KEY, Crash, RepeatedHandler, crashing_at_write

WRITES = 17
"""How many transactions the turn of these tests takes."""


class Counter(Agent[dict[str, Json]]):
    """Counts what its tool did, in state, database and memory block."""

    initial_state = {"count": 0}

    def configure_session(self, session: Session) -> Session:
        """Give it a memory."""
        return session.with_context("memory", max_tokens=500).with_cached_prompt()

    async def count(self, arguments: Mapping[str, Json]) -> str:
        """Have effects of every kind."""
        step = int(arguments["by"])
        await self.sql("CREATE TABLE IF NOT EXISTS log (by INTEGER)")
        await self.update_state(lambda state: {"count": state["count"] + step})
        await self.sql("INSERT INTO log VALUES (?)", step)
        return f"counted to {self.state['count']}"

    async def turn(self) -> Generation:
        """Run a turn with the tool."""
        schema: dict[str, Json] = {"type": "object", "properties": {"by": {"type": "integer"}}}
        return await self.generate("count", tools=[Tool("count", "", schema, self.count)])


Run = RepeatedHandler[Counter]


def _asks(*calls: ToolCall) -> ChatResponse:
    usage = Usage(input_tokens=10, output_tokens=5)
    return ChatResponse("", calls, "tool_calls", usage, "scripted")


def _script() -> list[ChatResponse | str]:
    memory = {"label": "memory", "content": "counted", "action": "append"}
    return [
        _asks(ToolCall("c1", "count", {"by": 1}), ToolCall("c2", "set_context", memory)),
        _asks(ToolCall("c3", "count", {"by": 2})),
        "done",
    ]


def _next_answer(request: ChatRequest) -> ChatResponse | str:
    return _script()[sum(message.role == "assistant" for message in request.messages)]


@pytest.fixture
def run(storage: SqliteStorage) -> Run:
    """The counter's handlers."""
    return RepeatedHandler(storage, Counter)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    """The agent's model, whose answers each test gives."""
    scripted = ScriptedModel()
    monkeypatch.setattr(Counter, "model", scripted)
    return scripted


async def _left(counter: Counter, storage: SqliteStorage) -> dict[str, Any]:
    memory = await counter.session.get_context_block("memory")
    usage = await storage.sessions.usage(SessionRef(counter._ref, ""))
    return {
        "history": await counter.session.get_history(),
        "state": counter.state,
        "log": await counter.sql("SELECT by FROM log ORDER BY rowid"),
        "memory": memory.content if memory else "",
        "usage": [(row.purpose, row.input_tokens, row.output_tokens) for row in usage],
    }


async def test_a_turn_leaves_its_answers_with_the_results_in_them(
    run: Run, model: ScriptedModel, storage: SqliteStorage
) -> None:
    """One user's message, one message for each answer, tools run in order, usage once for each."""
    model.play(*_script())
    with crashing_at_write(storage, 0, is_before=False) as written:
        result = await run(lambda counter: counter.turn())
    left = await run(lambda counter: _left(counter, storage))

    assert len(written) == WRITES
    assert (result.text, result.finish_reason, len(result.messages)) == ("done", "stop", 3)
    assert [each["role"] for each in left["history"]] == ["user", *["assistant"] * 3]
    assert left["history"][1:] == list(result.messages)
    assert left["history"][1]["parts"] == [
        {
            "type": "tool-count",
            "toolCallId": "c1",
            "toolName": "count",
            "state": "output-available",
            "input": {"by": 1},
            "output": "counted to 1",
        },
        {
            "type": "tool-set_context",
            "toolCallId": "c2",
            "toolName": "set_context",
            "state": "output-available",
            "input": {"label": "memory", "content": "counted", "action": "append"},
            "output": "Written to memory. Usage: 0% (2/500 tokens)",
        },
    ]
    assert left["state"] == {"count": 3}
    assert left["log"] == [{"by": 1}, {"by": 2}]
    assert left["memory"] == "counted"
    assert len(left["usage"]) == 3
    assert result.usage == sum((Usage(10, 5), Usage(10, 5)), Usage()) + Usage(
        left["usage"][2][1], left["usage"][2][2]
    )


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("at", range(1, WRITES + 1))
async def test_wherever_the_crash_comes_the_turn_ends_as_without_one(
    run: Run,
    model: ScriptedModel,
    storage: SqliteStorage,
    at: int,
    is_before: bool,
) -> None:
    """Recorded answers are not asked for again; every effect of a tool is there once."""
    model.play(*[_next_answer] * 4)
    with (
        crashing_at_write(storage, at, is_before=is_before),
        contextlib.suppress(Crash, StorageUnavailableError),
    ):
        await run(lambda counter: counter.turn())
    paid = len(await storage.sessions.usage(SessionRef(run.ref, "")))
    asked = len(model.requests)
    result = await run(lambda counter: counter.turn())
    left = await run(lambda counter: _left(counter, storage))

    assert len(model.requests) - asked == 3 - paid
    assert result.text == "done"
    assert len(left["usage"]) == 3
    assert left["state"] == {"count": 3}
    assert left["log"] == [{"by": 1}, {"by": 2}]
    assert left["memory"] == "counted"
    assert [each["role"] for each in left["history"]] == ["user", *["assistant"] * 3]
    assert left["history"][1:] == list(result.messages)


async def test_a_document_loaded_before_a_crash_counts_as_loaded_after_it(
    run: Run, model: ScriptedModel, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repeat does not run the tool, yet the model can unload what it stored."""
    skills = InMemorySkillProvider({"pirate": ("Talk like a pirate.", None)})
    monkeypatch.setattr(
        Counter,
        "configure_session",
        lambda self, session: session.with_context("skills", provider=skills),
    )
    arguments: dict[str, Json] = {"label": "skills", "key": "pirate"}
    model.play(
        _asks(ToolCall("c1", "load_context", arguments)),
        _asks(ToolCall("c2", "unload_context", arguments)),
        "Aye.",
    )
    # The agent, two messages, the model's answer and the tool's result are written by then.
    with (
        crashing_at_write(storage, 5, is_before=False),
        pytest.raises(Crash),
    ):
        await run(lambda counter: counter.turn())
    assert len(model.requests) == 1
    result = await run(lambda counter: counter.turn())

    assert len(model.requests) == 3
    assert result.messages[1]["parts"][0]["output"] == (
        'Unloaded "pirate" from skills. Context reclaimed.'
    )


async def test_a_turn_given_up_leaves_no_journal(
    run: Run, model: ScriptedModel, storage: SqliteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a tool had done when its handler ended is forgotten with the handler's own."""
    model.play(*_script())

    async def wait(counter: Counter, arguments: Mapping[str, Json]) -> str:
        await counter.step("note", _noted)
        raise Crash

    async def _noted() -> int:
        return 1

    monkeypatch.setattr(Counter, "count", wait)
    with contextlib.suppress(Crash):
        await run(lambda counter: counter.turn())
    key = inner_key(KEY, 3)
    number = next(row.agent_id for row in await storage.read_effects(run.ref, key))
    await storage.write(lambda tx: tx.delete_invocations([(number, KEY)]))

    assert await storage.read_effects(run.ref, key) == []
    assert await storage.read_effects(run.ref, KEY) == []


async def test_an_error_is_recorded_too(run: Run, model: ScriptedModel) -> None:
    """A repeated handler gets the error that it got, though the model would answer now."""
    model.play(ModelAuthenticationError("no key"), "an answer")
    for _ in range(2):
        with pytest.raises(ModelAuthenticationError, match="no key"):
            await run(lambda counter: counter.generate("hello"))

    assert len(model.requests) == 1


async def test_calls_that_an_earlier_turn_left_open_are_closed(
    run: Run, model: ScriptedModel
) -> None:
    """What a cut-short turn left unanswered gets an error in the storage, and in the request."""
    call = answer_message("msg-1", _asks(ToolCall("c1", "count", {"by": 1})))

    async def talk(counter: Counter) -> list[Json]:
        await counter.session.append_message(call)
        await counter.generate("go on")
        return await counter.session.get_history()

    model.play("yes")
    [stored, user, answer] = await run(talk)

    assert stored["parts"][0]["state"] == "output-error"
    assert stored["parts"][0]["errorText"] == INTERRUPTED
    assert [user["parts"][0]["text"], answer["parts"][0]["text"]] == ["go on", "yes"]
    sent = [(each.role, each.text) for each in model.requests[0].messages[1:]]
    assert sent == [("assistant", ""), ("tool", INTERRUPTED), ("user", "go on")]
    assert await run(talk) == [stored, user, answer]


async def test_a_tool_cannot_wait_for_its_own_turn(run: Run, model: ScriptedModel) -> None:
    """It is told so instead of waiting for ever; another session is free."""

    async def talk(counter: Counter) -> Any:
        async def ask(arguments: Mapping[str, Json]) -> str:
            return (await counter.generate("inner", session_id=arguments["session"])).text

        return await counter.generate("outer", tools=[Tool("ask", "", {"type": "object"}, ask)])

    model.play(
        _asks(ToolCall("c1", "ask", {"session": ""}), ToolCall("c2", "ask", {"session": "other"})),
        "inner answer",
        "outer answer",
    )
    result = await run(talk)

    [first, second] = result.messages[0]["parts"]
    assert "would wait for itself" in first["output"]
    assert (second["output"], result.text) == ("inner answer", "outer answer")


async def test_half_a_character_of_a_tool_does_not_end_the_turn(
    run: Run, model: ScriptedModel
) -> None:
    """Cut-off output and names of files hold such, and no storage takes them."""

    async def talk(counter: Counter) -> Generation:
        async def answer(arguments: Mapping[str, Json]) -> str:
            return "half \ud83d"

        async def fail(arguments: Mapping[str, Json]) -> str:
            raise ValueError("half \ud83d")

        schema: dict[str, Json] = {"type": "object"}
        tools = [Tool("answer", "", schema, answer), Tool("fail", "", schema, fail)]
        return await counter.generate("go", tools=tools)

    model.play(_asks(ToolCall("c1", "answer", {}), ToolCall("c2", "fail", {})), "done")
    result = await run(talk)

    outputs = [part["output"] for part in result.messages[0]["parts"]]
    assert outputs == ["half ?", "Error: half ?"]
