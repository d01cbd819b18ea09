"""Checks of answers, inboxes, and the effects of handlers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_runtime.identity import AgentRef
from agent_runtime.storage.effect_key import effect_key
from agent_runtime.storage.protocol import (
    ConnectionRow,
    EffectRow,
    InboxMark,
    InvocationRow,
    Transaction,
)
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    put_one,
)


def _call(number: int, key: str) -> InvocationRow:
    return InvocationRow(number, key, "call", "method", f'["{key}"]', f"print-{key}", 5)


def _effect(number: int, invocation: str, position: int, result: str = "1") -> EffectRow:
    return EffectRow(number, invocation, position, "step", "print", result, 5)


async def _add(bench: StorageBench, *rows: InvocationRow) -> None:
    await bench.storage.write(lambda tx: tx.add_invocations(rows))


async def _finish(bench: StorageBench, row: InvocationRow, outcome: str = '{"result":1}') -> None:
    done = replace(row, outcome=outcome)
    await bench.storage.write(lambda tx: tx.finish_invocations([done]))


async def _find(bench: StorageBench, ref: AgentRef, key: str) -> InvocationRow | None:
    return (await bench.storage.read_invocations([(ref, key)])).get((ref, key))


async def _inbox(bench: StorageBench, number: int, after: int = 0, limit: int = 10) -> list[str]:
    return [row.key for row in await bench.storage.read_inbox(number, after, limit)]


async def the_first_answer_stands(bench: StorageBench) -> None:
    """A batch's answer is kept as it was first stored; a repeat changes nothing."""
    expect(None, await bench.storage.read_answer("b"))
    await bench.storage.write(lambda tx: tx.add_answer("b", '["first"]', 1))
    await bench.storage.write(lambda tx: tx.add_answer("b", '["second"]', 2))
    expect('["first"]', await bench.storage.read_answer("b"))
    expect(None, await bench.storage.read_answer("B"))


async def an_entry_is_added_once(bench: StorageBench) -> None:
    """The first entry of a key stands; keys belong to their agent."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    first = _call(number, "k")
    later = replace(first, method="another", fingerprint="other print", created_at=9)
    await _add(bench, first)
    await _add(bench, later, _call(other, "k"))
    found = await bench.storage.write(
        lambda tx: tx.load_invocations([(number, "k"), (other, "k"), (number, "none")])
    )
    expect({(number, "k"), (other, "k")}, set(found))
    expect(first, replace(found[number, "k"], number=0))
    expect(found[number, "k"], await _find(bench, ROOM, "k"))
    expect(None, await _find(bench, OTHER, "none"))


async def the_inbox_is_in_order(bench: StorageBench) -> None:
    """Unfinished entries come in order of arrival, from a number on, each agent's own."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    await _add(bench, *(_call(number, key) for key in ("z", "a", "m")), _call(other, "o"))
    expect(["z", "a", "m"], await _inbox(bench, number))
    expect(["z", "a"], await _inbox(bench, number, limit=2))
    rows = await bench.storage.read_inbox(number, 0, 10)
    expect(["m"], await _inbox(bench, number, after=rows[1].number))
    await _finish(bench, rows[0])
    expect(["a", "m"], await _inbox(bench, number))
    expect(["o"], await _inbox(bench, other))


async def the_first_outcome_stands(bench: StorageBench) -> None:
    """An entry's outcome is recorded once."""
    row = _call(await bench.agent_id(ROOM), "k")
    await _add(bench, row)
    await _finish(bench, row, '{"result":1}')
    await _finish(bench, row, '{"result":2}')
    found = await _find(bench, ROOM, "k")
    expect('{"result":1}', found and found.outcome)


async def cancelling_marks_what_is_unfinished(bench: StorageBench) -> None:
    """A cancelled entry stays in the inbox, marked; a finished or unknown one is left alone."""
    number = await bench.agent_id(ROOM)
    await _add(bench, _call(number, "open"), _call(number, "done"))
    await _finish(bench, _call(number, "done"))
    keys = [(number, "open"), (number, "done"), (number, "none")]
    await bench.storage.write(lambda tx: tx.cancel_invocations(keys))
    expect([True], [row.is_cancelled for row in await bench.storage.read_inbox(number, 0, 10)])
    done = await _find(bench, ROOM, "done")
    expect(False, done and done.is_cancelled)


async def marks_tell_of_changes(bench: StorageBench) -> None:
    """An inbox's mark shows its newest entry and its cancellations; an empty one has none."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    await _add(bench, _call(number, "a"), _call(number, "b"))
    [first, second] = await bench.storage.read_inbox(number, 0, 10)
    marks = await bench.storage.read_inbox_marks([number, other])
    expect({number: InboxMark(second.number, 0)}, marks)
    await bench.storage.write(lambda tx: tx.cancel_invocations([(number, "a")]))
    marks = await bench.storage.read_inbox_marks([number])
    expect({number: InboxMark(second.number, 1)}, marks)
    await _finish(bench, first)
    await _finish(bench, second)
    expect({}, await bench.storage.read_inbox_marks([number]))


async def waiting_agents_are_found(bench: StorageBench) -> None:
    """Agents with unfinished entries from before a time are found, each once."""
    number, other = await bench.agent_id(ROOM), await bench.agent_id(OTHER)
    ages = [(number, "a", 10), (number, "b", 11), (other, "c", 20)]
    await _add(bench, *(replace(_call(n, key), created_at=age) for n, key, age in ages))
    expect([], await bench.storage.read_waiting_agents(10, 100))
    expect([ROOM], await bench.storage.read_waiting_agents(20, 100))
    expect({ROOM, OTHER}, set(await bench.storage.read_waiting_agents(21, 100)))
    expect(1, len(await bench.storage.read_waiting_agents(21, 1)))


async def deleted_entries_are_gone(bench: StorageBench) -> None:
    """Deleting drops an entry, finished or not, with the effects on its way."""
    number = await bench.agent_id(ROOM)
    await _add(bench, _call(number, "a"), _call(number, "b"))
    await bench.storage.write(lambda tx: tx.add_effect(_effect(number, "a", 0)))
    await bench.storage.write(lambda tx: tx.delete_invocations([(number, "a")]))
    expect(["b"], await _inbox(bench, number))
    expect(None, await _find(bench, ROOM, "a"))
    expect([], await bench.storage.read_effects(ROOM, "a"))


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


async def inboxes_survive_reopening(bench: StorageBench) -> None:
    """Unfinished work is found again after a restart."""
    number = await bench.agent_id(ROOM)

    async def unit(tx: Transaction) -> None:
        await tx.add_invocations([_call(number, "i")])
        await tx.add_effect(_effect(number, "i", 0))

    await bench.storage.write(unit)
    await bench.reopen()
    expect(["i"], await _inbox(bench, number))
    expect(1, len(await bench.storage.read_effects(ROOM, "i")))


async def connections_are_read_as_they_were_put(bench: StorageBench) -> None:
    """With their flags, also that of a token, of the last put."""
    number = await bench.agent_id(ROOM)
    plain = ConnectionRow("s1", number, "c", "g", "ws://host", '["c"]', False, True, 5)
    rows = [
        plain,
        replace(plain, socket="s2", is_readonly=True, has_protocol=False, opened_at=6),
        replace(plain, socket="s3", is_readonly=True, has_readonly_token=True, opened_at=7),
    ]

    async def unit(tx: Transaction) -> None:
        for row in (*rows, replace(rows[1], is_readonly=False), rows[1]):
            await tx.put_connection(row)

    await bench.storage.write(unit)
    expect(rows, await bench.storage.read_connections(ROOM))


CALL_CHECKS: Sequence[StorageCheck] = (
    the_first_answer_stands,
    an_entry_is_added_once,
    the_inbox_is_in_order,
    the_first_outcome_stands,
    cancelling_marks_what_is_unfinished,
    marks_tell_of_changes,
    waiting_agents_are_found,
    deleted_entries_are_gone,
    effects_are_noted_once,
    effects_come_by_position_with_mutations,
    finishing_drops_the_effects,
    inboxes_survive_reopening,
    connections_are_read_as_they_were_put,
)
