"""An agent that talks, remembers what matters, keeps a list, and summarizes what was said."""

from __future__ import annotations

import asyncio
import os

from offline_model import OfflineModel

from agent_runtime import Agent, Session, callable, create_compact_function, tool
from agent_runtime.session.static_context import StaticContextProvider

SLOW_SECONDS = 1.5
COMPACT_AFTER_TOKENS = 400
CHARACTER = (
    "You are a helpful assistant. Write lasting facts about the user to memory with set_context; "
    "keep the user's tasks with the tools for tasks. Answer in one sentence."
)


class ChatAgent(Agent):
    """One conversation for each name: `ChatAgent/ada`, `ChatAgent/grace` ..."""

    # Without a configured model a small one by rules answers, so that all works offline.
    model = None if "AGENT_RUNTIME_MODEL" in os.environ else OfflineModel()

    def configure_session(self, session: Session) -> Session:
        """Give it a character, a memory that it writes itself, and summaries of what is long."""
        compact = create_compact_function(
            protect_head=1, min_tail_messages=2, tail_token_budget=120
        )
        return (
            session.with_context("character", provider=StaticContextProvider(CHARACTER))
            .with_context("memory", description="Facts about the user", max_tokens=500)
            .with_cached_prompt()
            .on_compaction(compact)
            .compact_after(COMPACT_AFTER_TOKENS)
        )

    @callable()
    async def chat(self, text: str) -> str:
        """Answer the user."""
        return (await self.generate(text)).text

    @tool()
    async def add_task(self, title: str) -> str:
        """Put a task on the user's list."""
        await self.sql("CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, title TEXT)")
        await self.sql("INSERT INTO tasks (title) VALUES (?)", title)
        await asyncio.sleep(SLOW_SECONDS)  # stands for a service that takes its time
        return f"Tasks on the list now: {len(await self.tasks())}."

    @tool()
    async def list_tasks(self) -> list[str]:
        """Read the user's list."""
        return await self.tasks()

    @callable()
    async def tasks(self) -> list[str]:
        """Return the list, oldest first."""
        await self.sql("CREATE TABLE IF NOT EXISTS tasks (id INTEGER PRIMARY KEY, title TEXT)")
        return [str(row["title"]) for row in await self.sql("SELECT title FROM tasks ORDER BY id")]
