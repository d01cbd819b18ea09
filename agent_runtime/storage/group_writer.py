"""Group commit: units of work that arrive while a commit is running share the next one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from agent_runtime.errors import StorageUnavailableError
from agent_runtime.storage.protocol import Transaction

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")
Unit = Callable[[Transaction], Awaitable[Any]]

MAX_UNITS = 128
_MAX_ATTEMPTS = 5


class UnitConflictError(Exception):
    """Another process holds what a unit needs: the unit is undone and run again, a few times.

    Args:
        error: What its caller gets in the end.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class _Entry:
    unit: Unit
    future: asyncio.Future[Any]
    attempts: int = 0


class WriteConnection(Protocol):
    """The one connection that a process writes through."""

    @property
    def transaction(self) -> Transaction:
        """The operations of the unit in progress."""

    async def begin(self) -> None:
        """Start a transaction, waiting for other processes."""

    async def commit(self) -> None:
        """Make everything since `begin` durable."""

    async def rollback(self) -> None:
        """Undo everything since `begin`; harmless without a transaction."""

    async def savepoint(self) -> None:
        """Mark the start of a unit."""

    async def release(self) -> None:
        """Keep the unit."""

    async def undo(self) -> None:
        """Undo the unit alone."""


class GroupWriter:
    """Runs units of work one after another, as many as are waiting in one transaction."""

    def __init__(self, connection: WriteConnection) -> None:
        self._connection = connection
        self._waiting: deque[_Entry] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit and return its result once it is on disk.

        A caller cancelled before its unit began takes the unit back; later the unit stands.
        """
        if self._is_closed:
            raise StorageUnavailableError("the storage is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Entry(unit, future))
        if self._runner is None or self._runner.done():
            self._runner = asyncio.create_task(self._drain())
        return await future

    async def close(self) -> None:
        """Refuse new units and wait for those that were taken."""
        self._is_closed = True
        if self._runner is not None:
            await self._runner

    async def _drain(self) -> None:
        while self._waiting:
            group: list[_Entry] = []
            while self._waiting and len(group) < MAX_UNITS:
                entry = self._waiting.popleft()
                if not entry.future.done():
                    group.append(entry)
            if group:
                await self._commit(group)

    async def _commit(self, group: list[_Entry]) -> None:
        results: list[tuple[_Entry, Any, BaseException | None]] = []
        try:
            await self._connection.begin()
            for entry in group:
                results.append((entry, *await self._run_unit(entry.unit, is_alone=len(group) == 1)))
            if any(error is None for _, _, error in results):
                await self._connection.commit()
            else:
                await self._connection.rollback()
        except BaseException as error:
            await self._undo_all()
            failed = {id(entry): failure for entry, _, failure in results if failure}
            results = [(entry, None, failed.get(id(entry), error)) for entry in group]
        for entry, result, failure in reversed(results):
            self._answer(entry, result, failure)

    def _answer(self, entry: _Entry, result: Any, failure: BaseException | None) -> None:
        if entry.future.done():
            return
        if isinstance(failure, UnitConflictError):
            entry.attempts += 1
            if entry.attempts < _MAX_ATTEMPTS:
                self._waiting.appendleft(entry)
                return
            failure = failure.error
        if failure is None:
            entry.future.set_result(result)
        else:
            entry.future.set_exception(failure)

    async def _undo_all(self) -> None:
        try:
            await self._connection.rollback()
        except Exception:
            # The units fail with what went wrong first; the next `begin` shows if more is broken.
            logger.warning("rollback failed", exc_info=True)

    async def _undo(self, error: Exception) -> None:
        try:
            await self._connection.undo()
        except Exception:
            # A full disk takes the whole transaction back: then no unit of the group stands, and
            # the reason is what this unit met, not that its savepoint is gone.
            raise error from None

    async def _run_unit(self, unit: Unit, *, is_alone: bool) -> tuple[Any, Exception | None]:
        connection = self._connection
        if not is_alone:
            await connection.savepoint()
        try:
            result = await unit(connection.transaction)
            if not is_alone:
                await connection.release()
        except Exception as error:
            if not is_alone:
                await self._undo(error)
            return None, error
        return result, None
