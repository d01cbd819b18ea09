"""How a session runs what must not be repeated when the code that asked for it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from agent_runtime.json_value import Json

T = TypeVar("T")


class RunOnce(Protocol):
    """Runs an operation, or recalls what it did; see `SessionStore.once`."""

    async def __call__(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """Run the operation unless its first write is recorded; then recall its result."""


async def run_now(
    kind: str,
    payload: Json,
    run: Callable[[], Awaitable[T]],
    recall: Callable[[Json], Awaitable[T]],
) -> T:
    """Run an operation that nobody keeps a record of."""
    return await run()
