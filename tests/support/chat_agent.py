"""An agent that talks, remembers, and summarizes what is long."""

from __future__ import annotations

from agent_runtime import Agent, callable
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.session.message import text_message
from agent_runtime.session.session import Session


class Chat(Agent):
    """Talks, remembers, and summarizes what is long."""

    def configure_session(self, session: Session) -> Session:
        """Give it a memory, a soul, and a summary past 250 tokens."""

        async def summarize(prompt: str) -> str:
            return "what was said"

        compact = create_compact_function(
            summarize, protect_head=1, min_tail_messages=1, tail_token_budget=60
        )
        return (
            session.with_context("memory", description="Facts", max_tokens=1100)
            .with_cached_prompt()
            .on_compaction(compact)
            .compact_after(250)
        )

    @callable()
    async def say(self, text: str) -> int:
        """Add a message to the default conversation."""
        number = await self.session.get_path_length()
        await self.session.append_message(text_message("user", text, id=f"m{number}"))
        return await self.session.get_path_length()

    @callable()
    async def remember(self, text: str) -> str:
        """Write to the memory as a model would."""
        tools = await self.session.tools()
        return await tools["set_context"].execute({"label": "memory", "content": text})
