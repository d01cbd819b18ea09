"""The agents that recorded workflows work on."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import ModelAuthenticationError
from agent_runtime.session.session import Session


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


class Talk(Agent):
    """Summarizes at once, never, or not at all, as its name says."""

    def configure_session(self, session: Session) -> Session:
        """Set up summaries in parts of 6,000 characters."""

        async def summarize(prompt: str) -> str:
            if self.name == "refused":
                raise ModelAuthenticationError("the key is wrong")
            if self.name == "patient":
                await asyncio.Event().wait()
            return "a summary"

        return session.on_compaction(
            create_compact_function(
                summarize, protect_head=1, tail_token_budget=20, max_prompt_chars=6_000
            )
        )
