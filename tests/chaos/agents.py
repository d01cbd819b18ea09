"""Agents that are killed."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

from agent_runtime import Agent, callable


class Ledger(Agent[dict[str, int]]):
    """Keeps one number per caller."""

    initial_state: dict[str, int] = {}


class Journal(Agent[dict[str, int]]):
    """Does work of several kinds in a row."""

    initial_state = {"done": 0}

    @callable()
    async def work(self, worker: str, folder: str) -> int:
        """In each round: a step that appends a line, a state change, a row, a plain line.

        Rounds go on until the folder has a file `enough`; their number is returned.
        """
        await self.sql("CREATE TABLE IF NOT EXISTS rounds (worker TEXT, round INTEGER)")
        for number in count():

            async def is_enough() -> bool:
                return (Path(folder) / "enough").exists()

            if await self.step(f"whether to do round {number}", is_enough):
                break

            async def note(line: str = f"{number}") -> str:
                append(Path(folder) / f"{worker}.steps", line)
                return line

            await self.step(f"round {number}", note)
            await self.update_state(lambda state: {**state, "done": state["done"] + 1})
            await self.sql("INSERT INTO rounds VALUES (?, ?)", worker, number)
            append(Path(folder) / f"{worker}.lines", f"{number}")
            await asyncio.sleep(0.02)
        return number

    @callable()
    async def rows(self) -> list[list[object]]:
        """Return all rows, oldest first."""
        rows = await self.sql("SELECT worker, round FROM rounds ORDER BY rowid")
        return [[row["worker"], row["round"]] for row in rows]


class Register(Agent[dict[str, int]]):
    """Counts what it is called with."""

    initial_state: dict[str, int] = {}

    @callable()
    async def enter(self, key: str) -> int:
        """Count a key and return how often it has come."""
        await self.update_state(lambda state: {**state, key: state.get(key, 0) + 1})
        return self.state[key]


class Mortal(Agent[dict[str, int]]):
    """Is destroyed again and again."""

    initial_state = {"life": 0}

    @callable()
    async def keep(self, life: int) -> list[int]:
        """Note a life in the own rows and return all that are noted."""
        await self.sql("CREATE TABLE IF NOT EXISTS lives (life INTEGER)")
        await self.sql("INSERT INTO lives VALUES (?)", life)
        rows = await self.sql("SELECT life FROM lives ORDER BY rowid")
        return [row["life"] for row in rows]

    @callable()
    async def die(self, folder: str) -> None:
        """Destroy itself, say so, and be slow to return."""
        await self.destroy()
        append(Path(folder) / "deaths", self.name)
        await asyncio.Event().wait()


class Watcher(Agent[dict[str, Any]]):
    """Notes every change of its state once."""

    async def on_state_changed(self, state: dict[str, Any], source: str) -> None:
        """Append the number of the change to a file, and to its own rows, as two effects."""
        number = state["number"]

        async def note() -> int:
            append(Path(state["folder"]) / "changes", f"{number}")
            return int(number)

        await self.sql("CREATE TABLE IF NOT EXISTS changes (number INTEGER)")
        await self.step("note", note)
        await asyncio.sleep(0.05)
        await self.sql("INSERT INTO changes VALUES (?)", number)

    @callable()
    async def changes(self) -> list[int]:
        """Return the numbers of all changes noted in the agent's own rows."""
        rows = await self.sql("SELECT number FROM changes ORDER BY rowid")
        return [row["number"] for row in rows]


def append(path: Path, line: str) -> None:
    """Add a line in one write, so that a kill leaves it whole or absent."""
    with path.open("a") as file:
        file.write(line + "\n")
