"""How a peer that keeps conversations is asked: a line of JSON in, a line of JSON out.

Imports nothing but the standard library: peers run in environments without the product.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

READY = "READY"
CROWD = 50
_WORDS = " ".join(f"word{number}" for number in range(40))
_numbers = itertools.count()


class Conversations(Protocol):
    """A peer's conversations, by name."""

    async def append(self, name: str, texts: list[str]) -> object:
        """Append messages of the user."""

    async def history(self, name: str) -> object:
        """Return all messages."""

    async def last(self, name: str, count: int) -> object:
        """Return the last messages."""


async def serve_conversations(peer: Conversations) -> None:
    """Answer `["fill", name, count]`, and what times `[operation, name, times]` took."""
    print(READY, flush=True)
    loop = asyncio.get_running_loop()
    operations: dict[str, Callable[[str], Awaitable[object]]] = {
        "append": lambda name: peer.append(name, [_text()]),
        f"{CROWD} appends at once": lambda name: asyncio.gather(
            *(peer.append(name, [_text()]) for _ in range(CROWD))
        ),
        "history": peer.history,
        "last": lambda name: peer.last(name, 100),
    }
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        operation, name, count = json.loads(line)
        times = []
        if operation == "fill":
            await peer.append(name, [_text() for _ in range(count)])
        else:
            for _ in range(count):
                start = time.perf_counter()
                await operations[operation](name)
                times.append(time.perf_counter() - start)
        print("RESULT" + json.dumps(times), flush=True)


def _text() -> str:
    return f"m{next(_numbers)} {_WORDS}"
