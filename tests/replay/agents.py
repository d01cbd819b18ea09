"""The agent that recorded workflows work on."""

from __future__ import annotations

from typing import Any

from agent_runtime import Agent, callable


class Task(Agent[dict[str, Any]]):
    """Refuses negative progress."""

    initial_state: dict[str, Any] = {"progress": 0}

    def validate_state_change(self, next_state: dict[str, Any], source: str) -> None:
        """Refuse going back below the start."""
        if next_state.get("progress", 0) < 0:
            raise ValueError("progress cannot be negative")

    async def on_state_changed(self, state: dict[str, Any], source: str) -> None:
        """Have a hook, so that hook workflows are recorded too."""

    @callable()
    async def advance(self, by: int) -> int:
        """Add to the progress and return the state's version."""
        receipt = await self.merge_state({"progress": self.state["progress"] + by})
        return receipt.version
