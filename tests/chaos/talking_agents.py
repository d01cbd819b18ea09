"""Agents that talk, and are killed meanwhile."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path

from agent_runtime import Agent, Json, callable, tool
from agent_runtime.llm import ChatRequest, ChatResponse, ProgressCallback, ToolCall, Usage
from tests.chaos.agents import append

PAUSE_SECONDS = 0.02


class SlowModel:
    """Asks for the tool once in each turn, then answers; notes in a file what it was asked."""

    name = "slow"

    async def complete(
        self,
        request: ChatRequest,
        *,
        deadline: datetime | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> ChatResponse:
        """Answer after a while."""
        folder, turn = [each.text for each in request.messages if each.role == "user"][-1].split()
        is_first = request.messages[-1].role == "user"
        append(Path(folder) / "asked", f"{turn} {'first' if is_first else 'last'}")
        await asyncio.sleep(PAUSE_SECONDS)
        usage = Usage(input_tokens=10, output_tokens=1)
        if is_first:
            call = ToolCall("call", "count", {"turn": turn})
            return ChatResponse("", (call,), "tool_calls", usage, self.name)
        return ChatResponse(f"answer {turn}", usage=usage, model=self.name)

    async def close(self) -> None:
        """Nothing is open."""


class Speaker(Agent[dict[str, int]]):
    """Counts its turns in every place that lasts."""

    initial_state = {"turns": 0}
    model = SlowModel()

    @callable()
    async def say(self, text: str) -> str:
        """Run a turn."""
        return (await self.generate(text)).text

    @callable()
    async def say_in_both(self, folder: str, turn: str) -> list[str]:
        """Run a turn in each of two conversations, at the same time."""
        sides = ("left", "right")
        turns = [self.generate(f"{folder} {turn}-{side}", session_id=side) for side in sides]
        return [each.text for each in await asyncio.gather(*turns)]

    @tool()
    async def count(self, turn: str) -> str:
        """Count a turn."""
        await self.sql("CREATE TABLE IF NOT EXISTS turns (turn TEXT)")
        await self.update_state(lambda state: {"turns": state["turns"] + 1})
        await asyncio.sleep(PAUSE_SECONDS)
        await self.sql("INSERT INTO turns VALUES (?)", turn)
        return turn

    @callable()
    async def counted(self) -> list[Json]:
        """Return the turns in the agent's own database, in order."""
        return [row["turn"] for row in await self.sql("SELECT turn FROM turns ORDER BY rowid")]
