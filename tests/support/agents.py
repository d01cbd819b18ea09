"""Agents that several tests talk to, and what they noted down in this process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import Any, ClassVar

from pydantic import BaseModel

from agent_runtime import Agent, callable

COUNTER = {"count": 0, "items": [], "lastUpdated": None}


class Counter(Agent):
    """The agent of the contract's test cases: an initial state, a validator and a change hook."""

    initial_state = COUNTER
    changes: ClassVar[dict[str, list[tuple[Any, str]]]] = defaultdict(list)
    errors: ClassVar[dict[str, list[str]]] = defaultdict(list)

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Refuse -1."""
        if isinstance(next_state, dict) and next_state.get("count") == -1:
            raise ValueError("count cannot be -1")

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Note the change; fail for -2."""
        self.changes[self.name].append((state, source))
        if isinstance(state, dict) and state.get("count") == -2:
            raise RuntimeError("-2 is no good")

    async def on_error(self, error: BaseException) -> None:
        """Note the error."""
        self.errors[self.name].append(str(error))

    @callable()
    async def set(self, state: Any) -> int:
        """Set the state from the agent's own code."""
        return (await self.set_state(state)).version

    @callable()
    async def read(self) -> Any:
        """Read the state in the agent's own code."""
        return self.state

    @callable()
    async def increment(self) -> int:
        """Add one, whatever others do meanwhile."""
        await self.update_state(lambda state: {**state, "count": state["count"] + 1})
        return int(self.state["count"])

    @callable()
    async def add_points(self, points: int) -> int:
        """Add many and return the sum."""
        await self.update_state(lambda state: {**state, "count": state["count"] + points})
        return int(self.state["count"])


class Bare(Agent):
    """No initial state, no hooks: any JSON."""

    @callable()
    async def read(self) -> Any:
        """Return state and whether there is one."""
        return [self.state, self.has_state]


class Calls(Agent):
    """The callable methods of the contract's cases 87 to 106."""

    runs: ClassVar[dict[str, int]] = defaultdict(int)
    gates: ClassVar[dict[str, asyncio.Event]] = defaultdict(asyncio.Event)

    @callable()
    def add(self, a: float, b: float) -> float:
        """A plain method."""
        return a + b

    @callable()
    async def slow(self, seconds: float, result: Any = "done") -> Any:
        """Take a while."""
        self.runs[self.name] += 1
        await asyncio.sleep(seconds)
        return result

    @callable()
    async def held(self, result: Any = "done") -> Any:
        """Wait until the gate of the agent's name is opened."""
        self.runs[self.name] += 1
        await self.gates[self.name].wait()
        return result

    @callable()
    async def void(self) -> None:
        """Return nothing."""

    @callable()
    async def throw(self, message: str) -> None:
        """Raise."""
        self.runs[self.name] += 1
        raise ValueError(message)

    @callable()
    async def weird(self, kind: str) -> Any:
        """Return what is not JSON."""
        values: dict[str, Any] = {"nan": float("nan"), "function": print, "bytes": b"x"}
        values["big"] = "x" * 3_000_000
        return values[kind]

    @callable()
    def blow(self, kind: str) -> Any:
        """Fail in ways that are no plain exception."""
        if kind == "stop":
            return next(iter([]))
        if kind == "exit":
            raise SystemExit("bye")
        if kind == "panic":
            raise Panic("no memory")
        raise _Unspeakable

    @callable()
    async def wait_for_nothing(self) -> None:
        """Wait for a task that is cancelled."""
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    @callable()
    async def update_by(self, kind: str) -> None:
        """Change the state by a function that fails."""

        def change(state: Any) -> Any:
            if kind == "cancelled":
                raise asyncio.CancelledError
            return self.blow(kind)

        await self.update_state(change)

    @callable(timeout=timedelta(seconds=0.2))
    async def too_slow(self) -> None:
        """Never end."""
        await asyncio.Event().wait()

    @callable()
    async def endless(self) -> None:
        """Never end, without a limit of its own."""
        self.runs[self.name] += 1
        await asyncio.Event().wait()

    async def unmarked(self) -> None:
        """Not callable."""


class Panic(BaseException):
    """What extension modules raise is no Exception."""


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Board(BaseModel):
    """A typed state."""

    title: str = "new"
    score: int = 0


class Typed(Agent[Board]):
    """A typed agent."""

    initial_state = Board()

    def validate_state_change(self, next_state: Board, source: str) -> None:
        """Scores only rise: reads the present state (state-and-sync 19.1, fault 1)."""
        if next_state.score < self.state.score:
            raise ValueError(f"score cannot fall from {self.state.score} to {next_state.score}")

    @callable()
    async def raise_to(self, score: int) -> int:
        """Set the score from code."""
        await self.set_state(self.state.model_copy(update={"score": score}))
        return self.state.score
