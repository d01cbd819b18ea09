"""Reading the whole history of an agent's state."""

from __future__ import annotations

from agent_runtime.client.handle import AgentHandle
from agent_runtime.hosting.state_reader import StateHistoryEntry


async def whole_history(agent: AgentHandle) -> list[StateHistoryEntry]:
    """Return every version that is kept, oldest first."""
    entries: list[StateHistoryEntry] = []
    newest: int | None = None
    while page := await agent.state_history(newest=newest, limit=1000):
        entries += page
        newest = page[-1].version - 1
    return entries[::-1]


async def stored_keys(agent: AgentHandle) -> dict[str, int]:
    """Return the version that each idempotency key made; a key that stands twice fails."""
    keyed = [entry for entry in await whole_history(agent) if entry.key is not None]
    versions = {str(entry.key): entry.version for entry in keyed}
    assert len(versions) == len(keyed)
    return versions
