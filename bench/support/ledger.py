"""What callers were promised, compared with what is stored."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_runtime.client.agent_client import AgentClient

_PAGE = 1_000


@dataclass
class Ledger:
    """Calls with a key each, made until told to stop.

    Args:
        acknowledged: Version by (agent, key).
        times: `time.perf_counter()` of each acknowledgement.
    """

    acknowledged: dict[tuple[str, str], int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _is_over: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self, client: AgentClient, agents: Sequence[str], callers: int) -> None:
        """Let so many callers per agent begin."""
        self._tasks = [
            asyncio.create_task(self._call(client, agent))
            for agent in agents
            for _ in range(callers)
        ]

    async def stop(self) -> None:
        """Let all finish the call under way."""
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def first_after(self, moment: float, limit_seconds: float = 60.0) -> float:
        """Return the seconds from a moment to the next acknowledgement."""
        while not self.times or self.times[-1] <= moment:
            if time.perf_counter() - moment > limit_seconds:
                return limit_seconds
            await asyncio.sleep(0.002)
        return next(at for at in self.times if at > moment) - moment

    async def lost_and_doubled(self, client: AgentClient, agents: Sequence[str]) -> tuple[int, int]:
        """Return how many acknowledged calls are not stored, and how many count twice."""
        lost = doubled = 0
        for agent in agents:
            stored = await _stored_keys(client, agent)
            mine = {
                key: version for (name, key), version in self.acknowledged.items() if name == agent
            }
            lost += sum(stored.get(key) != [version] for key, version in mine.items())
            doubled += sum(len(versions) - 1 for versions in stored.values())
            doubled += sum(count - 1 for count in Counter(mine.values()).values())
        return lost, doubled

    async def _call(self, client: AgentClient, agent: str) -> None:
        handle = client.agent("Counter", agent)
        number = 0
        while not self._is_over:
            number += 1
            key = secrets.token_urlsafe(12)
            start = time.perf_counter()
            try:
                receipt = await handle.merge_state({"count": number}, idempotency_key=key)
            except Exception as error:  # counted, whatever it is
                self.errors.append(f"{type(error).__name__}: {error}"[:200])
                continue
            end = time.perf_counter()
            self.acknowledged[agent, key] = receipt.version
            self.times.append(end)
            self.latencies.append(end - start)


async def _stored_keys(client: AgentClient, agent: str) -> dict[str, list[int]]:
    handle = client.agent("Counter", agent)
    found: dict[str, list[int]] = {}
    newest: int | None = None
    while entries := await handle.state_history(newest=newest, limit=_PAGE):
        for entry in entries:
            if entry.key is not None:
                found.setdefault(entry.key, []).append(entry.version)
        newest = entries[-1].version - 1
        if newest < 1:
            break
    return found
