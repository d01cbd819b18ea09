"""The agents that benchmarks use."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent_runtime import Agent, callable
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.session.session import Session
from bench.peers.plain_transaction import PlainTransactions


class Count(BaseModel):
    """State of a counter."""

    count: int = 0


class Board(Agent):
    """Any JSON is its state, large ones too."""


class CounterAgent(Agent[Count]):
    """The reference's counter, as its clients call it."""

    initial_state = Count()

    @callable()
    async def increment(self) -> int:
        """Count; calls at the same time lose nothing."""
        await self.update_state(lambda state: Count(count=state.count + 1))
        return self.state.count


class RpcAgent(Agent):
    """The reference's agent that only answers."""

    @callable()
    async def add(self, left: int, right: int) -> int:
        """Add."""
        return left + right


class Counter(Agent[Count]):
    """A keyed counter with a typed state, and handlers that measure from inside."""

    initial_state = Count()

    @callable()
    async def pause(self, seconds: float) -> None:
        """Do nothing for a while, as a handler that waits for a model does."""
        await asyncio.sleep(seconds)

    @callable()
    async def compare_writes(self, folder: str, times: int) -> list[list[float]]:
        """Return seconds of `set_state` and of the same work by hand, taken in turns."""
        ours: list[float] = []
        plain: list[float] = []
        async with PlainTransactions(Path(folder) / "plain.db") as transactions:
            for number in range(times):
                start = time.perf_counter()
                await self.set_state(Count(count=number))
                between = time.perf_counter()
                await transactions.increment(self.name, f"key-{number}")
                plain.append(time.perf_counter() - between)
                ours.append(between - start)
        return [ours, plain]


TALKER_OPTIONS: dict[str, int] = {"tail_token_budget": 2_000, "max_prompt_chars": 100_000}


async def summarize_at_once(prompt: str) -> str:
    """Answer as a model that takes no time."""
    return "a summary of what was said " * 20


class Talker(Agent):
    """Has a conversation that is compacted."""

    def configure_session(self, session: Session) -> Session:
        """Summarize in parts of 100,000 characters."""
        return session.on_compaction(create_compact_function(summarize_at_once, **TALKER_OPTIONS))


ALL: list[type[Agent[Any]]] = [Board, Counter, CounterAgent, RpcAgent, Talker]
