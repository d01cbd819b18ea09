"""Statements on agents' own databases, past their handlers."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.protocol import Storage


async def own_sql(
    storage: Storage, ref: AgentRef, query: str, params: Sequence[Json] = ()
) -> list[dict[str, Json]]:
    """Run a statement on an agent's own database, making the agent if it is new."""
    return await storage.sql(ref, await agent_number(storage, ref), query, params)


async def own_database_place(storage: Storage, ref: AgentRef) -> str | None:
    """Return what people call an agent's own database, None if it has none yet."""
    return await storage.sql_place(ref, await agent_number(storage, ref))
