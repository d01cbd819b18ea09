"""Waiting for handler calls to end: told at once in the same process, else by looking.

All calls that a process waits for are looked up together, often while something happens and
seldom while nothing does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from agent_runtime.errors import AgentRuntimeError, CallTimeoutError
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json

CallKey = tuple[AgentRef, str]
Look = Callable[[Sequence[CallKey]], Awaitable[dict[CallKey, Json]]]

_LAST_PAUSE_SECONDS = 0.25
_GROWTH = 1.25


class Outcomes:
    """The calls that this process waits for.

    Args:
        look: Returns the outcomes that exist among the given calls; None where only `tell` brings
            them.
        pause_seconds: The shortest time between two looks.
    """

    def __init__(self, look: Look | None, *, pause_seconds: float = 0.002) -> None:
        self._look = look
        self._first_pause = pause_seconds
        self._waiting: dict[CallKey, set[asyncio.Future[Json]]] = {}
        self._looker: asyncio.Task[None] | None = None
        self._pause = pause_seconds

    async def wait(self, ref: AgentRef, key: str) -> Json:
        """Return the outcome of a call, `{"result"}` or `{"error"}`, once there is one."""
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        waiters = self._waiting.setdefault((ref, key), set())
        waiters.add(future)
        self._pause = self._first_pause
        if self._look is not None and (self._looker is None or self._looker.done()):
            self._looker = asyncio.create_task(self._look_around(self._look))
        try:
            return await future
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiting.pop((ref, key), None)

    def tell(self, ref: AgentRef, key: str, outcome: Json) -> None:
        """Give an outcome to those who wait for it here."""
        for future in self._waiting.get((ref, key), ()):
            if not future.done():
                future.set_result(outcome)

    async def close(self) -> None:
        """Look no more; those who wait are told that the call goes on without them."""
        self._fail(CallTimeoutError("the client was closed; the call goes on, ask with its key"))
        if self._looker is not None:
            self._looker.cancel()
            await asyncio.gather(self._looker, return_exceptions=True)

    async def _look_around(self, look: Look) -> None:
        while self._waiting:
            try:
                found = await look(list(self._waiting))
            except Exception as error:
                if not (isinstance(error, AgentRuntimeError) and error.is_retryable):
                    self._fail(error)
                    return
                found = {}
            for (ref, key), outcome in found.items():
                self.tell(ref, key, outcome)
            if found:
                self._pause = self._first_pause
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * _GROWTH, _LAST_PAUSE_SECONDS)

    def _fail(self, error: Exception) -> None:
        for waiters in self._waiting.values():
            for future in waiters:
                if not future.done():
                    future.set_exception(error)
