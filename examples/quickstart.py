"""The smallest agent: a counter that survives anything."""

from __future__ import annotations

from pydantic import BaseModel

from agent_runtime import Agent, callable


class Counter(BaseModel):
    """What a counter remembers."""

    count: int = 0


class CounterAgent(Agent[Counter]):
    """One counter per name: `CounterAgent/visits`, `CounterAgent/orders` ..."""

    initial_state = Counter()

    @callable()
    async def add(self, amount: int) -> int:
        """Add to the count and return it; concurrent calls lose nothing."""
        await self.update_state(lambda state: Counter(count=state.count + amount))
        return self.state.count
