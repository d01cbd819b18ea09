"""The scripted model: what users' tests can rely on."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from agent_runtime import testing
from agent_runtime.errors import ModelResponseError, ModelTimeoutError
from agent_runtime.llm import ChatDelta, ChatMessage, ChatModel, ChatRequest, ChatResponse, Usage
from agent_runtime.testing import ScriptedModel

REQUEST = ChatRequest((ChatMessage("user", "eight ch"),))


async def test_answers_come_in_order() -> None:
    """Texts, responses, errors and functions; all requests are kept."""
    model: ChatModel = ScriptedModel(
        "one",
        ChatResponse("two", usage=Usage(5, 6)),
        ModelTimeoutError("late"),
        lambda request: f"heard {request.messages[0].text}",
    )

    first, second = [await model.complete(REQUEST) for _ in range(2)]
    with pytest.raises(ModelTimeoutError):
        await model.complete(REQUEST)
    fourth = await model.complete(REQUEST)

    assert [first.text, second.text, fourth.text] == ["one", "two", "heard eight ch"]
    assert [first.usage, second.usage] == [Usage(2, 1), Usage(5, 6)]


async def test_one_call_too_many_fails_the_test() -> None:
    """Unless there is an answer to all others."""
    model = ScriptedModel("one")
    await model.complete(REQUEST)

    with pytest.raises(AssertionError, match="asked 2 times"):
        await model.complete(REQUEST)

    assert model.requests == [REQUEST, REQUEST]
    assert (await ScriptedModel(otherwise="again").complete(REQUEST)).text == "again"


@pytest.mark.parametrize("answer", ["", " \n", "\u200b\n", ChatResponse(reasoning="thought")])
async def test_blank_answers_fail_as_real_ones_do(answer: str | ChatResponse) -> None:
    """So that a test meets the error that production will."""
    with pytest.raises(ModelResponseError):
        await ScriptedModel(answer).complete(REQUEST)


async def test_an_answer_can_be_held_back() -> None:
    """By an async function that waits for the test."""
    gate = asyncio.Event()

    async def later(request: ChatRequest) -> str:
        await gate.wait()
        return "late"

    model = ScriptedModel(later)
    asking = asyncio.create_task(model.complete(REQUEST))
    await asyncio.wait({asking}, timeout=0.01)
    is_waiting = not asking.done()
    gate.set()

    assert is_waiting
    assert (await asking).text == "late"


async def test_progress_is_told_word_by_word() -> None:
    """And adds up to the answer."""
    model = ScriptedModel("  one two\n three ")
    deltas: list[ChatDelta] = []

    answer = await model.complete(REQUEST, on_progress=deltas.append)

    assert len(deltas) == 3
    assert "".join(delta.text for delta in deltas) == answer.text


async def test_closing_is_noted() -> None:
    """For tests of what owns a model."""
    model = ScriptedModel()
    await model.close()

    assert (model.is_closed, model.name) == (True, "scripted")


@pytest.mark.parametrize("name", testing.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    """Classes say what they are for."""
    found = getattr(testing, name)

    assert not inspect.isclass(found) or inspect.getdoc(found)
