"""A turn of a conversation: the model answers, its tools run, until it has nothing more to ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from agent_runtime.argument_check import check_count
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    AgentRuntimeError,
    ConfigurationError,
    ContextTooLongError,
    InvalidRequestError,
    SessionSetupError,
)
from agent_runtime.generation.answer_message import (
    answer_message,
    has_open_calls,
    with_interrupted_calls,
    with_results,
    with_unique_calls,
)
from agent_runtime.generation.chat_request import chat_request
from agent_runtime.generation.generation import Generation
from agent_runtime.generation.live_text import LiveText
from agent_runtime.generation.model_answer import ModelAnswer, answer_of
from agent_runtime.generation.patient_call import ask_patiently
from agent_runtime.generation.tool_method import tool_methods
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import ChatRequest, ChatResponse, ToolCall, Usage
from agent_runtime.llm.open_models import OpenModel, process_models
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session_store import session_ref
from agent_runtime.session.stored_session import new_message
from agent_runtime.session.tool import ERROR_PREFIX, Tool
from agent_runtime.storage.session_protocol import SessionWrites, UsageRow

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

PURPOSE = "generate"
"""Of the usage rows that turns leave."""

DEFAULT_MAX_STEPS = 20
DEFAULT_ANSWER_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """How a turn is run; `Agent.generate` explains the fields."""

    tools: tuple[Tool, ...] = ()
    max_steps: int = DEFAULT_MAX_STEPS
    timeout: timedelta = DEFAULT_ANSWER_TIMEOUT


async def run_turn(
    agent: Agent[Any], message: str | Message | None, session_id: str, options: TurnOptions
) -> Generation:
    """Run a turn as soon as it is its conversation's; see `Agent.generate`."""
    # Tasks are told apart by the order of their first use of the agent: of turns that are begun
    # together it must not be that in which their conversations come to be free.
    agent._effects()
    check_count(options.max_steps, "max_steps", 1)
    if not all(isinstance(each, Tool) for each in options.tools):
        raise InvalidRequestError("tools must be a list of Tool objects")
    if not isinstance(options.timeout, timedelta):
        raise InvalidRequestError(f"timeout must be a timedelta, not {options.timeout!r:.40}")
    opened = _model_of(agent)
    async with agent._session_turns.turn(session_id):
        return await _TurnRun(agent, opened, session_id, options).run(message)


class _TurnRun:
    """One turn; each model call, tool and message of it is an effect of the handler."""

    def __init__(
        self, agent: Agent[Any], opened: OpenModel, session_id: str, options: TurnOptions
    ) -> None:
        self._agent = agent
        self._session = agent.get_session(session_id)
        self._store = agent.session_store
        self._opened = opened
        self._options = options
        self._own_ids: set[str] = set()
        self._usage = Usage()
        self._cost = 0.0
        self._has_compacted = False

    async def run(self, message: str | Message | None) -> Generation:
        if message is not None:
            await self._session.append_message(self._users_message(message))
        messages: list[Message] = []
        for _ in range(self._options.max_steps):
            tools = await self._tools()
            message_id = f"msg-{self._agent._effects().next_id}"
            self._own_ids.add(message_id)
            response = await self._answer(message_id, tools)
            messages.append(await self._store_answer(message_id, response, tools))
            if not response.tool_calls:
                break
        finish = response.finish_reason
        if response.tool_calls and finish == "stop":
            # Not all servers say why an answer ended that asks for tools.
            finish = "tool_calls"
        return Generation(response.text, tuple(messages), self._usage, self._cost, finish)

    def _users_message(self, message: str | Message) -> Message:
        if isinstance(message, str):
            return text_message("user", message, id=f"user-{self._agent._effects().next_id}")
        return message

    async def _tools(self) -> dict[str, Tool]:
        tools = dict(await self._session.tools())
        for tool in (*tool_methods(self._agent), *self._options.tools):
            if tool.name in tools:
                raise InvalidRequestError(
                    f"two tools are called {tool.name!r:.80}; rename yours", tool=tool.name
                )
            tools[tool.name] = tool
        return tools

    async def _answer(self, message_id: str, tools: Mapping[str, Tool]) -> ChatResponse:
        answer = await self._ask(message_id, tools)
        if isinstance(answer.outcome, ContextTooLongError) and await self._has_made_room():
            answer = await self._ask(message_id, tools)
        if isinstance(answer.outcome, AgentRuntimeError):
            raise answer.outcome
        return with_unique_calls(answer.outcome)

    async def _has_made_room(self) -> bool:
        """Compact once in a turn; a history that cannot be shortened is not asked about again."""
        if self._has_compacted:
            return False
        self._has_compacted = True
        try:
            return await self._session.compact() is not None
        except SessionSetupError:
            return False

    async def _ask(self, message_id: str, tools: Mapping[str, Tool]) -> ModelAnswer:
        """Ask the model, unless a run before a crash has recorded what came of it."""
        key = self._agent._effects().next_id

        async def run() -> ModelAnswer:
            live = LiveText(
                self._agent.broadcast_session_frame, self._session.session_id, message_id
            )
            request = await self._request(tools.values())
            answer = await ask_patiently(self._opened, request, self._options.timeout, live)
            await self._store.write("model call", key, lambda tx: self._note(tx, key, answer))
            return answer

        async def recall(recorded: Json) -> ModelAnswer:
            return answer_of(recorded)

        payload = [self._session.session_id, message_id]
        answer = await self._store.once("model call", payload, run, recall)
        self._usage += answer.usage
        self._cost += answer.cost
        return answer

    async def _note(self, sessions: SessionWrites, key: str, answer: ModelAnswer) -> Json:
        usage = answer.usage
        if usage != Usage():
            row = UsageRow(
                f"{PURPOSE}/{key}",
                PURPOSE,
                self._opened.model.name,
                usage.input_tokens,
                usage.output_tokens,
                answer.cost,
                now_milliseconds(),
            )
            await sessions.jobs.add_usage(session_ref(self._store, self._session.session_id), row)
        return answer.to_record()

    async def _request(self, tools: Iterable[Tool]) -> ChatRequest:
        system = await self._session.freeze_system_prompt()
        history = [await self._closed(each) for each in await self._session.get_history()]
        if not history:
            raise InvalidRequestError("the session has no message to be answered; give one")
        return chat_request(system, history, tools)

    async def _closed(self, message: Message) -> Message:
        """Return a message without calls that an earlier turn, cut short, has left open."""
        if message["id"] in self._own_ids or not has_open_calls(message):
            return message
        closed = with_interrupted_calls(message)
        ref = session_ref(self._store, self._session.session_id)

        async def unit(sessions: SessionWrites) -> Json:
            return await sessions.messages.update(ref, new_message(closed))

        # Not journalled: a turn that is repeated finds the call closed, and does as if it had not.
        await self._store.write("interrupted calls", message["id"], unit, is_derived=True)
        return closed

    async def _store_answer(
        self, message_id: str, response: ChatResponse, tools: Mapping[str, Tool]
    ) -> Message:
        message = answer_message(message_id, response)
        await self._session.append_message(message)
        if not response.tool_calls:
            return message
        # In order, one by one: so a repeat finds the effects of each at the same place.
        results = {
            call.call_id: await self._run_tool(message_id, call, tools)
            for call in response.tool_calls
        }
        message = with_results(message, results)
        await self._session.update_message(message)
        return message

    async def _run_tool(self, message_id: str, call: ToolCall, tools: Mapping[str, Tool]) -> str:
        async def run() -> str:
            tool = tools.get(call.name)
            if tool is None:
                known = ", ".join(tools) or "none"
                return f"{ERROR_PREFIX}there is no tool {call.name!r:.80}; there are: {known}"
            return await tool.execute(call.arguments)

        payload = [message_id, call.call_id, dict(call.arguments)]
        kind = f"tool {call.name!r:.80}"
        result: str = await self._agent._effects().composite(kind, payload, run)
        return result


def _model_of(agent: Agent[Any]) -> OpenModel:
    if agent.model is not None:
        return process_models.get(agent.model)
    opened = process_models.get_default()
    if opened is None:
        raise ConfigurationError(
            "no language model is configured; set AGENT_RUNTIME_MODEL where the worker runs, or "
            f"the attribute `model` of {type(agent).__name__}"
        )
    return opened
