"""Agents that talk to a model: turns, tools and troubles, over a real Temporal and real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Literal, cast
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.worker import Worker

from agent_runtime import Agent, Json, callable
from agent_runtime.client.handle import AgentHandle
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import (
    AgentStartError,
    ConfigurationError,
    ContextTooLongError,
    HandlerCancelledError,
    InvalidRequestError,
    ModelAuthenticationError,
    ModelRateLimitedError,
    ModelResponseError,
)
from agent_runtime.generation import patient_call
from agent_runtime.json_value import to_json
from agent_runtime.llm import ChatRequest, ChatResponse, SignedReasoning, ToolCall, Usage
from agent_runtime.llm.open_models import process_models
from agent_runtime.session.session import Session
from agent_runtime.session.tool import Tool
from agent_runtime.storage.session_protocol import SessionRef, UsageRow
from agent_runtime.testing import Answer, Refusal, ScriptedModel, ScriptedModelServer, Silence
from tests.conftest import Serve, Served
from tests.support.ask_workflow import AskTalker
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import live_gateway, next_frame

USAGE = Usage(input_tokens=100, output_tokens=20)
SCHEMA: dict[str, Json] = {"type": "object", "properties": {"city": {"type": "string"}}}


class Talker(Agent):
    """Answers in a conversation, with a tool and a memory."""

    def configure_session(self, session: Session) -> Session:
        """Give it a memory, and summaries by whoever is configured."""
        compact = create_compact_function(protect_head=1, min_tail_messages=1, tail_token_budget=20)
        return (
            session.with_context("memory", description="Facts", max_tokens=500)
            .with_cached_prompt()
            .on_compaction(compact)
        )

    @callable()
    async def say(self, text: str | None, session_id: str = "", max_steps: int = 5) -> Json:
        """Run a turn and tell what came of it."""

        async def weather(arguments: Mapping[str, Json]) -> str:
            if arguments["city"] == "Atlantis":
                raise ValueError("no such city")
            return f"{arguments['city']}: sunny"

        result = await self.generate(
            text,
            session_id=session_id,
            tools=[Tool("weather", "Tells the weather.", SCHEMA, weather)],
            max_steps=max_steps,
        )
        return {
            "text": result.text,
            "steps": len(result.messages),
            "tokens": result.usage.input_tokens,
            "cost": result.cost,
            "reason": result.finish_reason,
        }

    @callable()
    async def ask_wrongly(self, what: str) -> None:
        """Run a turn with an argument of a wrong type."""
        wrong: dict[str, Any] = {"tools": None, "timeout": 5, "max_steps": "x"}
        await self.generate("Hello", **{what: wrong[what]})

    @callable()
    async def offer_no_tool(self) -> None:
        """Run a turn with what is no tool."""
        await self.generate("Hello", tools=[cast(Tool, 5)])


class Unspoken(Agent):
    """Has a tool with the name of one of the session's."""

    def configure_session(self, session: Session) -> Session:
        """Give it a memory, which brings a tool."""
        return session.with_context("memory")

    @callable()
    async def say(self) -> None:
        """Ask with that tool."""

        async def run(arguments: Mapping[str, Json]) -> str:
            return ""

        await self.generate("hello", tools=[Tool("set_context", "", SCHEMA, run)])


class Fragile(Agent[dict[str, Json]]):
    """Depends on a model where nobody waits for it."""

    initial_state = {"told": ""}

    async def on_start(self) -> None:
        """Fail at first."""
        if self.name == "unstarted":
            raise ModelRateLimitedError("later")

    async def on_state_changed(self, state: dict[str, Json], source: str) -> None:
        """Fail whenever it is asked to."""
        if state["told"] == "ask":
            raise ModelRateLimitedError("later")

    async def on_error(self, error: BaseException) -> None:
        """Keep what it was told."""
        await self.merge_state({"told": str(error.__cause__)})

    @callable()
    async def add(self) -> int:
        """Do nothing much."""
        return 1


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedModelServer]:
    """A provider on this machine, the process's model, which is asked again soon."""
    monkeypatch.setattr(patient_call, "_FIRST_PAUSE_SECONDS", 0.01)
    async with ScriptedModelServer() as provider:
        process_models.default = provider.config(input_price=2.0, output_price=10.0)
        yield provider
        process_models.default = None
        await process_models.close()


def _asks(*calls: ToolCall, text: str = "") -> ChatResponse:
    return ChatResponse(text, calls, "tool_calls", USAGE)


def _agent(served: Served, class_name: str = "Talker") -> AgentHandle:
    return served.client.agent(class_name, uuid4().hex[:12])


async def _usage(served: Served, agent: AgentHandle, session_id: str = "") -> list[UsageRow]:
    return await served.runtime.storage.sessions.usage(SessionRef(agent.ref, session_id))


async def test_a_turn_answers_and_is_remembered(serve: Serve, server: ScriptedModelServer) -> None:
    """The next turn sends what was said before, the frozen prompt first; four messages stay."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play("Hello Ada.", "You are Ada.")
        first = await agent.call("say", "I am Ada.")
        second = await agent.call("say", "Who am I?")

        assert [first["text"], second["text"]] == ["Hello Ada.", "You are Ada."]
        body = server.requests[1].body
        assert [each["role"] for each in body["messages"]] == [
            "system", "user", "assistant", "user",
        ]  # fmt: skip
        assert "MEMORY (Facts)" in body["messages"][0]["content"]
        assert [tool["function"]["name"] for tool in body["tools"]] == ["set_context", "weather"]
        history = await agent.session().get_history()
        assert [each["role"] for each in history] == ["user", "assistant"] * 2
        assert history[1]["metadata"] == {"model": "scripted", "finishReason": "stop"}


async def test_tools_asked_for_together_are_all_answered(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """Results, a failure and an unknown tool among them, follow their calls in order."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(
            _asks(
                ToolCall("c1", "weather", {"city": "Oslo"}),
                ToolCall("c2", "weather", {"city": "Atlantis"}),
                ToolCall("c3", "teleport", {}),
                ToolCall("c4", "set_context", {"label": "memory", "content": "likes Oslo"}),
                text="Let me see.",
            ),
            "Sunny.",
        )
        result = await agent.call("say", "Weather?")

        assert result == {
            "text": "Sunny.", "steps": 2, "tokens": 200, "cost": 0.0008, "reason": "stop",
        }  # fmt: skip
        sent = server.requests[1].body["messages"][2:]
        assert [call["id"] for call in sent[0]["tool_calls"]] == ["c1", "c2", "c3", "c4"]
        assert [(each["tool_call_id"], each["content"]) for each in sent[1:]] == [
            ("c1", "Oslo: sunny"),
            ("c2", "Error: no such city"),
            ("c3", "Error: there is no tool 'teleport'; there are: set_context, weather"),
            ("c4", "Written to memory. Usage: 1% (3/500 tokens)"),
        ]
        rows = await _usage(served, agent)
        assert [(row.purpose, row.input_tokens, row.output_tokens, row.cost) for row in rows] == [
            ("generate", 100, 20, 0.0004)
        ] * 2


@pytest.mark.parametrize("kind", ["enabled", "disabled"])
async def test_a_model_gets_its_signed_thoughts_back_within_a_turn(
    serve: Serve, server: ScriptedModelServer, kind: str
) -> None:
    """Anthropic refuses to go on from a tool without them, and knows none while thinking is off."""
    process_models.default = server.config("anthropic", extra_body={"thinking": {"type": kind}})
    async with serve(Talker) as served:
        agent = _agent(served)
        call = ToolCall("c1", "weather", {"city": "Oslo"})
        thoughts = (SignedReasoning("Weather.", "signature"), SignedReasoning(hidden="sealed"))
        server.play(
            ChatResponse("", (call,), "tool_calls", USAGE, "", "Weather.", thoughts),
            "Sunny.",
            "Bye.",
        )
        assert (await agent.call("say", "Weather?"))["text"] == "Sunny."
        assert (await agent.call("say", "Bye."))["text"] == "Bye."

        within, next_turn = (request.body["messages"][1] for request in server.requests[1:])
        thinking: list[Json] = [
            {"type": "thinking", "thinking": "Weather.", "signature": "signature"},
            {"type": "redacted_thinking", "data": "sealed"},
        ]
        sent = thinking if kind == "enabled" else []
        assert [block for block in within["content"] if block["type"] != "tool_use"] == sent
        assert [block["type"] for block in next_turn["content"]] == ["tool_use"]
        stored = (await agent.session().get_history())[1]
        assert stored["parts"][0] == {
            "type": "reasoning",
            "text": "Weather.",
            "providerMetadata": {"anthropic": {"signature": "signature"}},
        }


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_whatever_a_model_calls_a_tool_it_is_told_what_came_of_it(
    serve: Serve, server: ScriptedModelServer, provider: Literal["openai", "anthropic"]
) -> None:
    """Also the type of stored results as a name, and names and ids that providers refuse."""
    process_models.default = server.config(provider)
    async with serve(Talker) as served:
        agent = _agent(served)
        asked = [("functions.f:0", "result"), ("functions.f:1", "server.look up")]
        server.play(_asks(*(ToolCall(*each) for each in asked)), "Sorry.")
        assert (await agent.call("say", "Weather?"))["text"] == "Sorry."

        sent = to_json(server.requests[1].body["messages"]).decode()
        assert "there is no tool 'result'" in sent
        assert "there is no tool 'server.look up'" in sent
        assert all(name in sent for name in ('"result"', '"server_look_up"'))
        assert all(sent.count(f"functions_f_{number}") == 2 for number in (0, 1))


async def test_turns_are_the_same_with_the_messages_api(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """Tools and reasoning are stored alike; results go back as that API wants them."""
    process_models.default = server.config("anthropic")
    async with serve(Talker) as served:
        agent = _agent(served)
        call = ToolCall("c1", "weather", {"city": "Oslo"})
        server.play(
            ChatResponse("Let me see.", (call,), "tool_calls", USAGE, reasoning="Weather."),
            "Sunny.",
        )
        assert (await agent.call("say", "Weather?"))["text"] == "Sunny."

        stored = (await agent.session().get_history())[1]
        assert [part["type"] for part in stored["parts"]] == ["reasoning", "text", "tool-weather"]
        body = server.requests[1].body
        assert "MEMORY" in str(body["system"])
        [result] = body["messages"][-1]["content"]
        assert (result["type"], result["tool_use_id"]) == ("tool_result", "c1")


async def test_a_turn_ends_at_its_last_step_with_all_tools_answered(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """The next turn goes on from the results; no message is needed for that."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(_asks(ToolCall("c1", "weather", {"city": "Oslo"})), "Sunny.")
        first = await agent.call("say", "Weather?", "", 1)
        second = await agent.call("say", None)

        assert (first["reason"], second["text"]) == ("tool_calls", "Sunny.")
        assert [each["role"] for each in server.requests[1].body["messages"]] == [
            "system", "user", "assistant", "tool",
        ]  # fmt: skip


async def test_a_turn_whose_tools_are_run_says_so_whatever_the_provider_says(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """Some servers end an answer that asks for tools with `stop`, as if it were whole."""
    asked = ChatResponse("", (ToolCall("c1", "weather", {"city": "Oslo"}),), "stop", USAGE)
    process_models.default = ScriptedModel(asked)
    async with serve(Talker) as served:
        assert (await _agent(served).call("say", "Weather?", "", 1))["reason"] == "tool_calls"


async def test_a_busy_provider_is_asked_again_when_it_wants(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """A rate limit, a blank answer and a lost connection pass; what the blank one cost counts."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(
            Refusal("rate_limited", headers={"retry-after-ms": "10"}),
            ChatResponse(" ", usage=USAGE),
            Answer("Lost in the middle.", lost_after=1),
            "There.",
        )
        result = await agent.call("say", "Hello")

        assert (result["text"], result["tokens"], len(server.requests)) == ("There.", 200, 4)
        assert [row.input_tokens for row in await _usage(served, agent)] == [200]
        assert await agent.session().get_path_length() == 2


@pytest.mark.parametrize(
    ("refusal", "error", "asked"),
    [
        (Refusal("wrong_key"), ModelAuthenticationError, 1),
        (Refusal("rate_limited", headers={"retry-after": "900"}), ModelRateLimitedError, 1),
    ],
)
async def test_an_error_that_does_not_pass_reaches_the_caller(
    serve: Serve,
    server: ScriptedModelServer,
    refusal: Refusal,
    error: type[Exception],
    asked: int,
) -> None:
    """Typed, after no more requests than can help; the user's message stays for the next turn."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(refusal, "Better now.")
        with pytest.raises(error):
            await agent.call("say", "Hello")

        assert len(server.requests) == asked
        assert await agent.session().get_path_length() == 1
        assert (await agent.call("say", None))["text"] == "Better now."


async def test_blank_answers_are_an_error_and_cost_what_they_cost(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """After five of them nothing is stored but the user's message and one usage row."""
    async with serve(Talker) as served:
        agent = _agent(served)
        reasoning = ChatResponse("", reasoning="hm", usage=USAGE)
        server.play(*[reasoning] * 5)
        with pytest.raises(ModelResponseError):
            await agent.call("say", "Hello")

        assert [row.input_tokens for row in await _usage(served, agent)] == [500]
        assert await agent.session().get_path_length() == 1


async def test_a_conversation_that_is_too_long_is_compacted_once(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """The summary, by the process's model, takes the place of what was said; then it is asked."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play("one", "two", Refusal("context_too_long"), "## Topic\nNumbers", "three")
        await agent.call("say", "first " * 30)
        await agent.call("say", "second " * 30)
        result = await agent.call("say", "third")

        assert (result["text"], len(server.requests)) == ("three", 5)
        texts = [str(each["content"]) for each in server.requests[4].body["messages"]]
        assert any("## Topic" in text for text in texts)
        assert not any("second" in text for text in texts)


async def test_a_conversation_that_cannot_be_shortened_is_not_asked_about_again(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """H15: without anything to summarize the error reaches the caller."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(Refusal("context_too_long"), "never")
        with pytest.raises(ContextTooLongError):
            await agent.call("say", "Hello")

        assert len(server.requests) == 1


async def test_turns_of_one_session_queue_and_of_two_do_not(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """U33: the second caller's message comes after the first one's answer."""
    gate = asyncio.Event()

    async def slow(request: ChatRequest) -> str:
        await gate.wait()
        return "slow"

    model = process_models.default = ScriptedModel(slow, "aside", "after")
    async with serve(Talker) as served:
        agent = _agent(served)
        first = await agent.start_call("say", "one")
        await _until(lambda: len(model.requests) == 1)
        second = await agent.start_call("say", "two")
        aside = await agent.call("say", "elsewhere", "side")
        asked = len(model.requests)
        gate.set()
        texts = [(await each.result())["text"] for each in (first, second)]

        assert (aside["text"], asked, texts) == ("aside", 2, ["slow", "after"])
        history = await agent.session().get_history()
        assert [each["parts"][0]["text"] for each in history] == ["one", "slow", "two", "after"]


async def test_cancelling_a_call_hangs_up_on_the_model(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """The request ends, and the conversation is free for the next turn."""
    async with serve(Talker) as served:
        agent = _agent(served)
        server.play(Silence(), "Here.")
        call = await agent.start_call("say", "Hello")
        await _until(lambda: len(server.requests) == 1)
        await call.cancel()
        with pytest.raises(HandlerCancelledError):
            await call.result()

        await _until(lambda: server.hang_up_count == 1)
        assert (await agent.call("say", "Still there?"))["text"] == "Here."


async def test_a_turn_without_a_model_says_what_to_set(serve: Serve) -> None:
    """Nothing is stored."""
    async with serve(Talker) as served:
        agent = _agent(served)
        with pytest.raises(ConfigurationError, match="AGENT_RUNTIME_MODEL"):
            await agent.call("say", "Hello")

        assert await agent.session().get_history() == []


async def test_what_cannot_be_asked_is_refused(serve: Serve, server: ScriptedModelServer) -> None:
    """Nothing to answer, no steps, a tool's name that is taken: before any request."""
    async with serve(Talker, Unspoken) as served:
        with pytest.raises(InvalidRequestError, match="no message"):
            await _agent(served).call("say", None)
        with pytest.raises(InvalidRequestError, match="max_steps"):
            await _agent(served).call("say", "Hello", "", 0)
        agent = _agent(served)
        for wrong in ("tools", "timeout", "max_steps"):
            with pytest.raises(InvalidRequestError, match=f"{wrong} must be"):
                await agent.call("ask_wrongly", wrong)
        with pytest.raises(InvalidRequestError, match="tools must be"):
            await agent.call("offer_no_tool")
        assert await agent.session().get_history() == []
        with pytest.raises(InvalidRequestError, match="set_context"):
            await _agent(served, "Unspoken").call("say")

        assert server.requests == []


async def test_clients_see_the_text_while_it_arrives(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """Frames hold the text in order, more than one of them; one begun again starts at 0."""
    text = "A long answer, in many pieces."
    server.play(
        Answer("Lost in the middle.", lost_after=1),
        Answer(text, piece_chars=4, pause_seconds=0.05),
    )
    async with live_gateway(serve, Talker) as live:
        name = uuid4().hex[:12]
        async with live.connect(f"/agents/talker/{name}") as socket:
            await next_frame(socket, "cf_agent_mcp_servers")
            call = asyncio.create_task(live.served.client.agent("Talker", name).call("say", "Hi"))
            shown, frames = "", 0
            while shown != text:
                frame = await next_frame(socket, "agent_runtime_text")
                frames += 1
                assert frame["offset"] <= len(shown)
                shown = shown[: frame["offset"]] + frame["text"]
            assert (await call)["text"] == text

        history = await live.served.client.agent("Talker", name).session().get_history()
        assert (frame["messageId"], frame["sessionId"]) == (history[-1]["id"], "")
        assert frames > 1


async def test_a_workflow_gets_a_model_s_error_once(
    serve: Serve, server: ScriptedModelServer
) -> None:
    """A call that has failed is not repeated, even if another one could succeed."""
    server.play(Refusal("rate_limited", headers={"retry-after": "900"}), "Hello.")
    async with serve(Talker) as served:
        client, queue = await Client.connect(served.address), uuid4().hex
        async with Worker(client, task_queue=queue, workflows=[AskTalker]):
            result = await client.execute_workflow(
                AskTalker.run, args=[served.task_queue, queue[:12]], id=queue, task_queue=queue
            )

        assert result == ["ModelRateLimitedError", "Hello."]
        assert len(server.requests) == 2


async def test_a_model_s_error_never_repeats_a_handler_for_ever(serve: Serve) -> None:
    """A start fails its callers, and a hook's error is reported, as any other error would."""
    async with serve(Fragile) as served:
        with pytest.raises(AgentStartError, match="later"):
            await served.client.agent("Fragile", "unstarted").call("add")

        agent = _agent(served, "Fragile")
        await agent.merge_state({"told": "ask"})

        async def is_reported() -> None:
            assert "later" in (await agent.get_state()).value["told"]

        await assert_eventually(is_reported)


async def _until(is_so: Callable[[], bool]) -> None:
    async def check() -> None:
        assert is_so()

    await assert_eventually(check)
