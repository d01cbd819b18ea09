"""Checks of units of work: together or not at all, alone in failing, safe from cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from agent_runtime.errors import StorageError
from agent_runtime.storage.protocol import StoredState, Transaction
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
    put_one,
)


class _Refused(Exception):
    """What a failing unit raises."""


class _Gate:
    """A unit that has begun and waits, so that others queue up behind it."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, tx: Transaction) -> int:
        version = await put_one(tx, ROOM, '"gate"')
        self.has_begun.set()
        await self.may_end.wait()
        return version


async def results_are_returned(bench: StorageBench) -> None:
    """A write returns what its unit returned."""

    async def unit(tx: Transaction) -> str:
        return "result"

    expect("result", await bench.storage.write(unit))


async def a_failing_unit_is_undone(bench: StorageBench) -> None:
    """What a raising unit wrote is gone, its error reaches the caller as it is."""

    async def unit(tx: Transaction) -> None:
        await put_one(tx, ROOM, "1")
        raise _Refused

    await expect_error(_Refused, bench.storage.write(unit))
    expect(None, await bench.storage.read_state(ROOM))
    expect(1, await bench.put(ROOM, "2"), "the version after an undone one")


async def a_failing_unit_fails_alone(bench: StorageBench) -> None:
    """Of units that are committed together, only the raising one is undone."""

    async def failing(tx: Transaction) -> int:
        await put_one(tx, ROOM, '"never"')
        await put_one(tx, OTHER, '"never"')
        raise _Refused

    gate = _Gate()
    first = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    units: list[Callable[[Transaction], Awaitable[int]]] = [
        partial(put_one, ref=ROOM, value=str(number)) for number in range(4)
    ]
    units.insert(2, failing)
    together = asyncio.gather(
        *(bench.storage.write(unit) for unit in units), return_exceptions=True
    )
    await _queued()
    gate.may_end.set()
    results = await together
    await first
    expect(_Refused, type(results.pop(2)))
    expect([2, 3, 4, 5], results)
    values = [row.value for row in await bench.storage.read_history(ROOM)]
    expect(["3", "2", "1", "0", '"gate"'], values)
    expect(None, await bench.storage.read_state(OTHER))


async def a_refused_row_fails_its_unit_alone(bench: StorageBench) -> None:
    """A row that the database refuses fails the unit that added it, not those beside it."""
    await bench.put(ROOM, '"first"')
    [stored] = await bench.storage.read_history(ROOM)

    async def refused(tx: Transaction) -> None:
        await put_one(tx, OTHER, '"never"')
        await tx.add_mutations([stored])

    gate = _Gate()
    first = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    together = asyncio.gather(
        bench.put(ROOM, '"before"'),
        bench.storage.write(refused),
        bench.put(ROOM, '"after"'),
        return_exceptions=True,
    )
    await _queued()
    gate.may_end.set()
    before, failure, after = await together
    await first
    expect((3, True, 4), (before, isinstance(failure, Exception), after))
    values = [row.value for row in await bench.storage.read_history(ROOM)]
    expect(['"after"', '"before"', '"gate"', '"first"'], values)
    expect(None, await bench.storage.read_state(OTHER))


async def many_units_all_commit(bench: StorageBench) -> None:
    """Hundreds of units at once commit in order of arrival, each seeing those before it."""
    versions = await asyncio.gather(*(bench.put(ROOM, str(n)) for n in range(300)))
    expect(list(range(1, 301)), versions)
    expect("299", (await bench.head(ROOM)).state)


async def several_agents_commit_together(bench: StorageBench) -> None:
    """One unit writes several agents, all or none."""

    async def unit(tx: Transaction) -> None:
        await put_one(tx, ROOM, "1")
        await put_one(tx, OTHER, "2")

    await bench.storage.write(unit)
    expect(("1", "2"), ((await bench.head(ROOM)).state, (await bench.head(OTHER)).state))


async def sets_of_rows_are_written(bench: StorageBench) -> None:
    """Methods take rows in sets, empty ones included."""
    numbers = [await bench.agent_id(ROOM), await bench.agent_id(OTHER)]
    heads = [StoredState(number, 1, str(number), 1, 7) for number in numbers]

    async def unit(tx: Transaction) -> None:
        await tx.put_states(heads)
        await tx.put_states([])
        await tx.add_mutations([])
        await tx.add_outbox([])
        await tx.add_invocations([])
        await tx.finish_invocations([])
        expect({}, await tx.load_states([]))

    await bench.storage.write(unit)
    expect(heads, [await bench.head(ROOM), await bench.head(OTHER)])


async def nothing_shows_before_the_commit(bench: StorageBench) -> None:
    """Readers never see a unit that is still running."""
    gate = _Gate()
    writing = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    seen = await bench.storage.read_state(ROOM)
    gate.may_end.set()
    await writing
    expect(None, seen, "before the commit")
    expect('"gate"', (await bench.head(ROOM)).state)


async def a_cancelled_caller_takes_a_waiting_unit_back(bench: StorageBench) -> None:
    """A caller that is cancelled before its unit began leaves no trace."""
    gate = _Gate()
    first = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    second = asyncio.create_task(bench.put(OTHER, "2"))
    third = asyncio.create_task(bench.put(ROOM, "3"))
    await _queued()
    second.cancel()
    await expect_error(asyncio.CancelledError, _outcome(second))
    gate.may_end.set()
    expect([1, 2], [await first, await third])
    expect(None, await bench.storage.read_state(OTHER))


async def a_unit_that_began_stands(bench: StorageBench) -> None:
    """Cancelling the caller does not undo a unit that has begun."""
    gate = _Gate()
    first = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    first.cancel()
    await expect_error(asyncio.CancelledError, _outcome(first))
    gate.may_end.set()
    expect(2, await bench.put(ROOM, "2"))
    expect(2, len(await bench.storage.read_history(ROOM)))


async def closing_waits_and_then_refuses(bench: StorageBench) -> None:
    """`close` finishes what has begun; afterwards every write is refused with a typed error."""
    gate = _Gate()
    writing = asyncio.create_task(bench.storage.write(gate))
    await gate.has_begun.wait()
    closing = asyncio.create_task(bench.storage.close())
    await _queued()
    gate.may_end.set()
    expect(1, await writing)
    await closing
    await expect_error(StorageError, bench.put(ROOM, "2"))
    await bench.reopen()
    expect('"gate"', (await bench.head(ROOM)).state)


async def closing_twice_is_harmless(bench: StorageBench) -> None:
    """A second `close` does nothing."""
    await bench.put(ROOM, "1")
    await bench.storage.close()
    await bench.reopen()
    expect("1", (await bench.head(ROOM)).state)


async def _queued() -> None:
    # A few turns of the loop: what was just started now waits in the storage's queue.
    for _ in range(5):
        await asyncio.sleep(0)


async def _outcome(task: asyncio.Task[int]) -> int:
    return await task


UNIT_CHECKS: Sequence[StorageCheck] = (
    results_are_returned,
    a_failing_unit_is_undone,
    a_failing_unit_fails_alone,
    a_refused_row_fails_its_unit_alone,
    many_units_all_commit,
    several_agents_commit_together,
    sets_of_rows_are_written,
    nothing_shows_before_the_commit,
    a_cancelled_caller_takes_a_waiting_unit_back,
    a_unit_that_began_stands,
    closing_waits_and_then_refuses,
    closing_twice_is_harmless,
)
