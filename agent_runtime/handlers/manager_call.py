"""What services and other agents ask of an agent's registry of conversations, in its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from agent_runtime.json_value import Json
from agent_runtime.session.session_batch import import_batch, import_entries

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

Run = Callable[..., Awaitable[Json]]


async def _create(
    agent: Agent[Any],
    session_id: str,
    name: str,
    parent_session_id: str | None,
    model: str | None,
    source: str | None,
) -> Json:
    record = await agent.sessions.register(name, parent_session_id, model, source)
    return record.to_json()


async def _rename(agent: Agent[Any], session_id: str, name: str) -> Json:
    await agent.sessions.rename(session_id, name)


async def _delete(agent: Agent[Any], session_id: str) -> Json:
    await agent.sessions.delete(session_id)


async def _add_usage(
    agent: Agent[Any], session_id: str, input_tokens: Json, output_tokens: Json, cost: Json
) -> Json:
    await agent.sessions.add_usage(session_id, input_tokens, output_tokens, cost)


async def _fork(
    agent: Agent[Any], session_id: str, at_message_id: str, new_name: str, copy_context: bool
) -> Json:
    record = await agent.sessions.fork(
        session_id, at_message_id, new_name, copy_context=copy_context
    )
    return record.to_json()


async def _compact_and_split(
    agent: Agent[Any], session_id: str, summary: str, new_name: str | None
) -> Json:
    record = await agent.sessions.compact_and_split(session_id, summary, new_name)
    return record.to_json()


async def _import_batch(
    agent: Agent[Any], session_id: str, first_message_id: Json, items: list[Json]
) -> Json:
    await import_batch(agent.session_store, session_id, first_message_id, items)
    # What the object has read before says nothing of what is stored now.
    agent.sessions.forget(session_id)


async def _import_entries(agent: Agent[Any], session_id: str, items: list[Json]) -> Json:
    await import_entries(agent.session_store, items)


MANAGER_METHODS: dict[str, Run] = {
    "create_session": _create,
    "rename_session": _rename,
    "delete_session": _delete,
    "add_usage": _add_usage,
    "fork": _fork,
    "compact_and_split": _compact_and_split,
    "import_batch": _import_batch,
    "import_entries": _import_entries,
}
"""What can be asked of the registry from outside its agent, by name."""
