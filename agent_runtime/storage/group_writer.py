"""Group commit: units of work that arrive while a commit is running share the next one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from agent_runtime.errors import StorageUnavailableError
from agent_runtime.storage.protocol import Transaction

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")
Unit = Callable[[Transaction], Awaitable[Any]]

MAX_UNITS = 128


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
        self._waiting: deque[tuple[Unit, asyncio.Future[Any]]] = deque()
        self._runner: asyncio.Task[None] | None = None
        self._is_closed = False

    async def run(self, unit: Callable[[Transaction], Awaitable[T]]) -> T:
        """Run a unit and return its result once it is on disk.

        A caller cancelled before its unit began takes the unit back; later the unit stands.
        """
        if self._is_closed:
            raise StorageUnavailableError("the storage is closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append((unit, future))
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
            group: list[tuple[Unit, asyncio.Future[Any]]] = []
            while self._waiting and len(group) < MAX_UNITS:
                unit, future = self._waiting.popleft()
                if not future.done():
                    group.append((unit, future))
            if group:
                await self._commit(group)

    async def _commit(self, group: list[tuple[Unit, asyncio.Future[Any]]]) -> None:
        results: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            await self._connection.begin()
            for unit, future in group:
                results.append((future, *await self._run_unit(unit, is_alone=len(group) == 1)))
            if any(error is None for _, _, error in results):
                await self._connection.commit()
            else:
                await self._connection.rollback()
        except BaseException as error:
            await self._undo_all()
            failed = {id(future): failure for future, _, failure in results if failure}
            results = [(future, None, failed.get(id(future), error)) for _, future in group]
        for future, result, failure in results:
            if future.done():
                continue
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

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
        except Exception as error:
            if not is_alone:
                await self._undo(error)
            return None, error
        if not is_alone:
            await connection.release()
        return result, None
