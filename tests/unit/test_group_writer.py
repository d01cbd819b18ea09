"""Group commit: what happens to units that give way to other processes, and to broken commits."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from agent_runtime.errors import StorageUnavailableError
from agent_runtime.storage.group_writer import GroupWriter, UnitConflictError
from agent_runtime.storage.protocol import Transaction


class FakeConnection:
    """Notes what a writer asks of its connection."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.commit_error: Exception | None = None
        self.transaction = cast(Transaction, None)

    async def begin(self) -> None:
        """Note it."""
        self.calls.append("begin")

    async def commit(self) -> None:
        """Note it, and fail if asked to."""
        self.calls.append("commit")
        if self.commit_error is not None:
            raise self.commit_error

    async def rollback(self) -> None:
        """Note it."""
        self.calls.append("rollback")

    async def savepoint(self) -> None:
        """Note it."""
        self.calls.append("savepoint")

    async def release(self) -> None:
        """Note it."""
        self.calls.append("release")

    async def undo(self) -> None:
        """Note it."""
        self.calls.append("undo")


class Unit:
    """A unit that meets a conflict at its first attempts."""

    def __init__(self, name: str, log: list[str], conflicts: int = 0) -> None:
        self.name = name
        self._log = log
        self._conflicts = conflicts

    async def __call__(self, tx: Transaction) -> str:
        """Run, or give way."""
        self._log.append(self.name)
        if self._conflicts > 0:
            self._conflicts -= 1
            raise UnitConflictError(StorageUnavailableError("held by others"))
        return self.name


async def test_a_unit_that_gave_way_is_the_first_of_the_next_group() -> None:
    """The others of its group commit without it; order of arrival holds in the next."""
    connection, log = FakeConnection(), list[str]()
    writer = GroupWriter(connection)
    units = [
        Unit("a", log),
        Unit("b", log, conflicts=1),
        Unit("c", log, conflicts=1),
        Unit("d", log),
    ]

    results = await asyncio.gather(*(writer.run(unit) for unit in units))

    assert results == ["a", "b", "c", "d"]
    assert log == ["a", "b", "c", "d", "b", "c"]
    assert connection.calls.count("commit") == 2
    assert connection.calls.count("undo") == 2


async def test_a_unit_alone_runs_again_in_a_new_transaction() -> None:
    """Its first transaction is rolled back as a whole."""
    connection, log = FakeConnection(), list[str]()

    assert await GroupWriter(connection).run(Unit("a", log, conflicts=2)) == "a"
    assert connection.calls == ["begin", "rollback"] * 2 + ["begin", "commit"]


async def test_endless_conflicts_end_with_their_error() -> None:
    """After a few attempts the caller gets what the database said."""
    log = list[str]()

    with pytest.raises(StorageUnavailableError, match="held by others"):
        await GroupWriter(FakeConnection()).run(Unit("a", log, conflicts=100))

    assert len(log) == 5


async def test_a_cancelled_caller_takes_a_unit_that_gave_way_back() -> None:
    """Nobody waits for it any more: it is not run again."""
    log = list[str]()
    writer = GroupWriter(FakeConnection())

    async def unit(tx: Transaction) -> None:
        log.append("run")
        task.cancel()
        raise UnitConflictError(StorageUnavailableError("held by others"))

    task = asyncio.create_task(writer.run(unit))
    with pytest.raises(asyncio.CancelledError):
        await task
    await writer.close()

    assert log == ["run"]


async def test_a_failed_commit_fails_every_unit_of_its_group() -> None:
    """Nothing was stored, so nobody is told otherwise."""
    connection, log = FakeConnection(), list[str]()
    connection.commit_error = StorageUnavailableError("gone")
    writer = GroupWriter(connection)

    results = await asyncio.gather(
        *(writer.run(Unit(name, log)) for name in "ab"), return_exceptions=True
    )

    assert [str(result) for result in results] == ["StorageUnavailableError: gone"] * 2
    assert connection.calls[-1] == "rollback"
