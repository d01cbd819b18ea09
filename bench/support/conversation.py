"""The conversation that rows about sessions hold: messages of forty words."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session import Session

_WORDS = " ".join(f"word{number}" for number in range(40))
_AT_ONCE = 2_000


def spoken(id: str) -> Message:
    """Return a message of forty words."""
    return text_message("user", f"{id} {_WORDS}", id=id)


async def fill(session: Session, count: int) -> None:
    """Let a session have so many messages `m0`, `m1`, ..."""
    for start in range(0, count, _AT_ONCE):
        end = min(start + _AT_ONCE, count)
        await session.append_messages([spoken(f"m{number}") for number in range(start, end)])


async def seconds(operation: Callable[[], Awaitable[object]]) -> float:
    """Return how long an operation takes."""
    start = time.perf_counter()
    await operation()
    return time.perf_counter() - start


async def processor_seconds(operation: Callable[[], Awaitable[object]]) -> float:
    """Return how much processor time this process takes for an operation, in all threads."""
    start = time.process_time()
    await operation()
    return time.process_time() - start
