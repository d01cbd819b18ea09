"""The number that an agent has in a storage."""

from __future__ import annotations

from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import Storage


async def agent_number(storage: Storage, ref: AgentRef) -> int:
    """Return the agent's number in the storage, making the agent if it is new."""
    stored = await storage.read_state(ref)
    if stored is None:
        stored = (await storage.write(lambda tx: tx.load_states([ref])))[ref]
    return stored.agent_id
