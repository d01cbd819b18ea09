"""Agents that are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent_runtime import Agent, callable


class Ledger(Agent[dict[str, int]]):
    """Keeps one number per caller."""

    initial_state: dict[str, int] = {}


class Journal(Agent[dict[str, int]]):
    """Does work of several kinds in a row."""

    initial_state = {"done": 0}

    @callable()
    async def work(self, worker: str, rounds: int, folder: str) -> int:
        """In each round: a step that appends a line, a state change, a row, a plain line."""
        await self.sql("CREATE TABLE IF NOT EXISTS rounds (worker TEXT, round INTEGER)")
        for number in range(rounds):

            async def note(line: str = f"{number}") -> str:
                append(Path(folder) / f"{worker}.steps", line)
                return line

            await self.step(f"round {number}", note)
            await self.update_state(lambda state: {**state, "done": state["done"] + 1})
            await self.sql("INSERT INTO rounds VALUES (?, ?)", worker, number)
            append(Path(folder) / f"{worker}.lines", f"{number}")
            await asyncio.sleep(0.02)
        return rounds

    @callable()
    async def rows(self) -> list[list[object]]:
        """Return all rows, oldest first."""
        rows = await self.sql("SELECT worker, round FROM rounds ORDER BY rowid")
        return [[row["worker"], row["round"]] for row in rows]


def append(path: Path, line: str) -> None:
    """Add a line in one write, so that a kill leaves it whole or absent."""
    with path.open("a") as file:
        file.write(line + "\n")
