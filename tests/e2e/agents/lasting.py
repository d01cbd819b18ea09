"""What lasts and what does not: memory, the agent's own SQL, the agent itself."""

from __future__ import annotations

from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.errors import SqlError
from tests.e2e.agents.calling import EPOCH

# Methods have the names that the JavaScript clients call.


class TaskAgent(Agent):
    """Counts, keeps a log in memory, and can be destroyed."""

    initial_state = {"count": 0}

    def __init__(self) -> None:
        self.starts = 0
        self.log: list[str] = []

    async def on_start(self) -> None:
        """Note it."""
        self.starts += 1
        self.log.append("onStart")

    @callable()
    async def increment(self) -> int:
        """Count."""
        await self.update_state(lambda state: {"count": state["count"] + 1})
        return int(self.state["count"])

    @callable()
    def note(self, text: str) -> None:
        """Keep a text in memory."""
        self.log.append(text)

    @callable()
    async def withDate(self) -> Any:
        """Add a date to the state and return what is in it then."""
        await self.set_state({**self.state, "at": EPOCH})
        return await self.describe()

    @callable()
    async def describe(self) -> Any:
        """Return the keys of the state, and what its date is."""
        is_text = isinstance(self.state["at"], str)
        return {"keys": list(self.state), "at": "string" if is_text else "Date"}

    @callable()
    def lifetime(self) -> Any:
        """Return what is in memory."""
        return {"starts": self.starts, "log": self.log}

    @callable()
    async def destroyMe(self) -> str:
        """Go, and say so."""
        await self.destroy()
        return "destroyed"


class SqlAgent(Agent):
    """Uses its own database."""

    @callable()
    async def roundtrip(self) -> Any:
        """Return values of each kind as they come back."""
        await self.sql("CREATE TABLE t (id INTEGER, name TEXT, flag INTEGER, ratio REAL)")
        insert = "INSERT INTO t VALUES (?, ?, ?, ?)"
        await self.sql(insert, 1, "O'Hara; DROP TABLE t", 1, 0.5)
        await self.sql(insert, 2, None, 0, 1e21)
        return await self.sql("SELECT * FROM t ORDER BY id")

    @callable()
    async def bindBoolean(self) -> Any:
        """Bind True."""
        return await self.sql("SELECT ? AS b", True)

    @callable()
    async def bindUndefined(self) -> Any:
        """Bind nothing."""
        return await self.sql("SELECT ? AS b", None)

    @callable()
    async def bindObject(self) -> Any:
        """Bind what cannot be bound."""
        return await self._refusal("SELECT ? AS b", {"a": 1})

    @callable()
    async def syntaxError(self) -> Any:
        """Say nonsense."""
        return await self._refusal("SELEC nonsense WHERE x = ?", 1)

    @callable()
    async def bigInteger(self) -> Any:
        """Return an integer that JavaScript's numbers cannot hold."""
        return await self.sql("SELECT 9007199254740993 AS n")

    @callable()
    async def tables(self) -> Any:
        """Return the names of all tables."""
        return await self.sql("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")

    async def _refusal(self, query: str, value: Any) -> Any:
        try:
            return await self.sql(query, value)
        except SqlError as error:
            details = error.details_map
            return {"name": "SqlError", "message": error.message, "query": details["query"]}
