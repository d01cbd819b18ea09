"""What earlier runs of a handler have recorded."""

from __future__ import annotations

from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import EffectRow, Storage


async def recorded_effects(
    storage: Storage, ref: AgentRef, agent_id: int, key: str
) -> list[EffectRow]:
    """Return the effects of one journal, those in the agent's own database included."""
    return [
        *await storage.read_effects(ref, key),
        *await storage.sql_effects(ref, agent_id, key),
    ]
