"""Checks of hooks, answers, handler calls and their effects."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.storage.effect_key import effect_key
from agent_runtime.storage.protocol import EffectRow, HookRow, InvocationRow, Transaction
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    put_one,
)


def _call(number: int, key: str, *, is_exclusive: bool = False) -> InvocationRow:
    return InvocationRow(number, key, "method", f"print-{key}", is_exclusive, f"host-{key}", 5)


def _effect(number: int, invocation: str, position: int, result: str = "1") -> EffectRow:
    return EffectRow(number, invocation, position, "step", "print", result, 5)


async def _finish(bench: StorageBench, row: InvocationRow, outcome: str = '{"result":1}') -> None:
    values = {name: getattr(row, name) for name in row.__slots__}
    done = InvocationRow(**{**values, "outcome": outcome})
    await bench.storage.write(lambda tx: tx.finish_invocation(done))


async def hooks_are_kept_until_deleted(bench: StorageBench) -> None:
    """Pending hooks come oldest first, no more than asked for, until they are deleted."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    rows = [HookRow(number, version, version % 2, 7) for version in (3, 1, 2)]
    await bench.storage.write(lambda tx: tx.add_hooks([*rows, HookRow(other, 9, 0, 7)]))
    expect([1, 2, 3], [row.version for row in await bench.storage.read_hooks(number, 10)])
    expect([HookRow(number, 1, 1, 7)], await bench.storage.read_hooks(number, 1))
    await bench.storage.write(lambda tx: tx.delete_hooks(number, [1, 3]))
    expect([2], [row.version for row in await bench.storage.read_hooks(number, 10)])
    expect([9], [row.version for row in await bench.storage.read_hooks(other, 10)])


async def old_hooks_name_their_agents(bench: StorageBench) -> None:
    """Agents with hooks that wait since before a time are found, each once."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    rows = [HookRow(number, 1, 0, 10), HookRow(number, 2, 0, 11), HookRow(other, 1, 0, 20)]
    await bench.storage.write(lambda tx: tx.add_hooks(rows))
    expect([], await bench.storage.read_stale_hook_agents(10, 100))
    expect([ROOM], await bench.storage.read_stale_hook_agents(20, 100))
    expect({ROOM, OTHER}, set(await bench.storage.read_stale_hook_agents(21, 100)))
    expect(1, len(await bench.storage.read_stale_hook_agents(21, 1)))


async def the_first_answer_stands(bench: StorageBench) -> None:
    """A batch's answer is kept as it was first stored; a repeat changes nothing."""
    expect(None, await bench.storage.read_answer("b"))
    await bench.storage.write(lambda tx: tx.add_answer("b", '["first"]', 1))
    await bench.storage.write(lambda tx: tx.add_answer("b", '["second"]', 2))
    expect('["first"]', await bench.storage.read_answer("b"))
    expect(None, await bench.storage.read_answer("B"))


async def a_call_is_noted_once(bench: StorageBench) -> None:
    """The second note of a key returns the first row; keys belong to their agent."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    first = _call(number, "k")
    later = InvocationRow(number, "k", "another", "other print", True, "other host", 9)
    expect(first, await bench.storage.write(lambda tx: tx.add_invocation(first)))
    expect(first, await bench.storage.write(lambda tx: tx.add_invocation(later)))
    expect(first, await bench.storage.read_invocation(ROOM, "k"))
    expect(None, await bench.storage.read_invocation(OTHER, "k"))
    theirs = _call(other, "k")
    expect(theirs, await bench.storage.write(lambda tx: tx.add_invocation(theirs)))


async def the_first_outcome_stands(bench: StorageBench) -> None:
    """A call's outcome is recorded once, whether the call was noted before or not."""
    row = _call(await bench.agent_id(ROOM), "k")
    await _finish(bench, row, '{"result":1}')
    await _finish(bench, row, '{"result":2}')
    found = await bench.storage.read_invocation(ROOM, "k")
    expect('{"result":1}', found and found.outcome)


async def the_exclusive_lane_is_in_order(bench: StorageBench) -> None:
    """The oldest unfinished exclusive call holds the lane; others never do."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    rows = [_call(number, key, is_exclusive=key != "free") for key in ("free", "z", "a", "m")]
    for row in [*rows, _call(other, "0", is_exclusive=True)]:
        await bench.storage.write(lambda tx, row=row: tx.add_invocation(row))  # type: ignore[misc]
    holders = []
    for _ in range(3):
        holder = await bench.storage.read_exclusive_holder(ROOM)
        if holder is None:
            raise AssertionError("nobody holds the lane")
        holders.append(holder.key)
        await _finish(bench, holder)
    expect(["z", "a", "m"], holders)
    expect(None, await bench.storage.read_exclusive_holder(ROOM))


async def effects_are_noted_once(bench: StorageBench) -> None:
    """A position's first effect stands and is what later notes of it return."""
    number = await bench.agent_id(ROOM)
    first, later = _effect(number, "i", 0, '"first"'), _effect(number, "i", 0, '"later"')
    expect(first, await bench.storage.write(lambda tx: tx.add_effect(first)))
    expect(first, await bench.storage.write(lambda tx: tx.add_effect(later)))
    expect([first], await bench.storage.read_effects(ROOM, "i"))


async def effects_come_by_position_with_mutations(bench: StorageBench) -> None:
    """A journal holds steps and state mutations of its invocation, by position, nobody else's."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)

    async def unit(tx: Transaction) -> None:
        for position in (10, 2, 0):
            await tx.add_effect(_effect(number, "i", position))
        await put_one(tx, ROOM, "1", key=effect_key("i", 1))
        await put_one(tx, ROOM, "2", key=effect_key("i", 11))
        await put_one(tx, ROOM, "3", key=effect_key("i2", 5))
        await put_one(tx, ROOM, "4", key="i")
        await tx.add_effect(_effect(number, "i2", 6))
        await tx.add_effect(_effect(other, "i", 7))

    await bench.storage.write(unit)
    effects = await bench.storage.read_effects(ROOM, "i")
    expect([0, 1, 2, 10, 11], [effect.position for effect in effects])
    expect(["step", "set", "step", "step", "set"], [effect.kind for effect in effects])
    expect(["1", "2"], [effects[1].result, effects[4].result], "versions of the mutations")
    expect(["i"] * 5, [effect.invocation for effect in effects])


async def finishing_drops_the_effects(bench: StorageBench) -> None:
    """When a call has its outcome its steps' records go, other calls' stay."""
    number = await bench.agent_id(ROOM)

    async def unit(tx: Transaction) -> None:
        await tx.add_effect(_effect(number, "i", 0))
        await tx.add_effect(_effect(number, "j", 0))

    await bench.storage.write(unit)
    await _finish(bench, _call(number, "i"))
    expect([], await bench.storage.read_effects(ROOM, "i"))
    expect(1, len(await bench.storage.read_effects(ROOM, "j")))


async def calls_and_hooks_survive_reopening(bench: StorageBench) -> None:
    """Unfinished work is found again after a restart."""
    number = await bench.agent_id(ROOM)

    async def unit(tx: Transaction) -> None:
        await tx.add_invocation(_call(number, "i", is_exclusive=True))
        await tx.add_effect(_effect(number, "i", 0))
        await tx.add_hooks([HookRow(number, 1, 0, 1)])

    await bench.storage.write(unit)
    await bench.reopen()
    expect(_call(number, "i", is_exclusive=True), await bench.storage.read_exclusive_holder(ROOM))
    expect(1, len(await bench.storage.read_effects(ROOM, "i")))
    expect(1, len(await bench.storage.read_hooks(number, 10)))


CALL_CHECKS: Sequence[StorageCheck] = (
    hooks_are_kept_until_deleted,
    old_hooks_name_their_agents,
    the_first_answer_stands,
    a_call_is_noted_once,
    the_first_outcome_stands,
    the_exclusive_lane_is_in_order,
    effects_are_noted_once,
    effects_come_by_position_with_mutations,
    finishing_drops_the_effects,
    calls_and_hooks_survive_reopening,
)
