"""What services, workflows and other agents ask of an agent's conversations.

Each such call is an entry of the agent's inbox and runs in the agent's own process, as the agent
has set its sessions up; so blocks, prompts, compaction and observers are the same for all.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from agent_runtime.argument_check import bind_json
from agent_runtime.errors import InvalidRequestError
from agent_runtime.handlers.manager_call import MANAGER_METHODS
from agent_runtime.json_value import Json, to_json
from agent_runtime.session.session import Session
from agent_runtime.session.session_provider import AUTO, AppendResult, Parent

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

Run = Callable[..., Awaitable[Json]]


async def run_session_call(
    agent: Agent[Any], method: str, session_id: str, args: list[Json]
) -> Json:
    """Run one of `SESSION_METHODS` or `MANAGER_METHODS` and return its result as JSON.

    Raises:
        InvalidRequestError: There are more or fewer arguments than the method takes, or others.
        NotSerializableError: The result cannot be sent.
        SessionError: The session refused.
    """
    run: Run
    if method in MANAGER_METHODS:
        run = partial(MANAGER_METHODS[method], agent, session_id)
    else:
        run = partial(SESSION_METHODS[method], agent.get_session(session_id))
    bind_json(method, inspect.signature(run), args)
    result = await run(*args)
    # What blocks and tools of the agent's own say need not be text that can be sent.
    to_json(result, what=f"the result of {method}")
    return result


async def _append_messages(session: Session, messages: list[Json], parent: Json) -> Json:
    results = await session.append_messages(messages, _parent(parent))
    return [append_fields(result) for result in results if result is not None]


async def _update_message(session: Session, message: Json) -> Json:
    return await session.update_message(message)


async def _delete_messages(session: Session, message_ids: list[Json]) -> Json:
    await session.delete_messages(message_ids)


async def _clear_messages(session: Session) -> Json:
    await session.clear_messages()


async def _add_compaction(
    session: Session, summary: str, from_message_id: str, to_message_id: str
) -> Json:
    return asdict(await session.add_compaction(summary, from_message_id, to_message_id))


async def _compact(session: Session, leaf_id: str | None) -> Json:
    result = await session.compact(leaf_id)
    return None if result is None else asdict(result)


async def _freeze_system_prompt(session: Session) -> Json:
    return await session.freeze_system_prompt()


async def _refresh_system_prompt(session: Session) -> Json:
    return await session.refresh_system_prompt()


async def _get_context_blocks(session: Session) -> Json:
    return [asdict(block) for block in await session.get_context_blocks()]


async def _replace_context_block(session: Session, label: str, content: str) -> Json:
    return asdict(await session.replace_context_block(label, content))


async def _append_context_block(session: Session, label: str, content: str) -> Json:
    return asdict(await session.append_context_block(label, content))


async def _estimate_tokens(session: Session, leaf_id: str | None) -> Json:
    return await session.estimate_tokens(leaf_id)


async def _tools(session: Session) -> Json:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(tool.parameters),
        }
        for tool in (await session.tools()).values()
    ]


async def _run_tool(session: Session, name: str, arguments: dict[str, Json]) -> Json:
    tool = (await session.tools()).get(name)
    if tool is None:
        raise InvalidRequestError(f"the session has no tool {name!r:.80}", tool=str(name))
    return await tool.execute(arguments)


SESSION_METHODS: dict[str, Run] = {
    "append_messages": _append_messages,
    "update_message": _update_message,
    "delete_messages": _delete_messages,
    "clear_messages": _clear_messages,
    "add_compaction": _add_compaction,
    "compact": _compact,
    "freeze_system_prompt": _freeze_system_prompt,
    "refresh_system_prompt": _refresh_system_prompt,
    "get_context_blocks": _get_context_blocks,
    "replace_context_block": _replace_context_block,
    "append_context_block": _append_context_block,
    "estimate_tokens": _estimate_tokens,
    "tools": _tools,
    "run_tool": _run_tool,
}
"""What can be asked of a session from outside its agent, by name."""


def append_fields(result: AppendResult) -> dict[str, Json]:
    """Return an append's result as it travels."""
    return {"is_inserted": result.is_inserted, "parent_id": result.parent_id}


def _parent(value: Json) -> Parent:
    if isinstance(value, dict):
        return AUTO
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequestError("a parent is a message's id, null for a new root, or left out")
