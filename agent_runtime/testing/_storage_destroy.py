"""Checks of destroying agents: nothing of one life is seen in the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_runtime.errors import AgentDestroyedError, SqlError
from agent_runtime.identity import AgentRef
from agent_runtime.storage.protocol import (
    DESTROYED,
    ConnectionRow,
    DestroyedAgent,
    EffectRow,
    InvocationRow,
    OutboxRow,
    StoredState,
    Transaction,
)
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
    put_one,
)

_OUTCOME = '{"error":"destroyed"}'


def _call(number: int, key: str, kind: str = "call") -> InvocationRow:
    return InvocationRow(number, key, kind, "method", "[]", f"print-{key}", 5)


def _effect(number: int, key: str = "k") -> EffectRow:
    return EffectRow(number, key, 0, "step", "print", "1", 5)


def _connection(number: int, socket: str) -> ConnectionRow:
    return ConnectionRow(socket, number, "c", "gateway", "ws://host", '["c"]', False, True, 5)


async def _fill(bench: StorageBench, ref: AgentRef) -> int:
    """Give an agent something of every kind and return its number."""
    number = await bench.agent_id(ref)

    async def unit(tx: Transaction) -> None:
        await put_one(tx, ref, '{"old":1}', key="k")
        await tx.add_outbox([OutboxRow(number, "state", 1, None, 5)])
        await tx.add_outbox([OutboxRow(number, "broadcast", 0, '"bye"', 5)])
        calls = [_call(number, key) for key in ("open", "own", "done")]
        await tx.add_invocations([*calls, _call(number, "told", "hook")])
        await tx.finish_invocations([replace(_call(number, "done"), outcome='{"result":1}')])
        await tx.add_effect(_effect(number, "own"))
        await tx.put_connection(_connection(number, f"socket-{number}"))

    await bench.storage.write(unit)
    await bench.sql(ref, "CREATE TABLE notes (text TEXT)", ())
    return number


async def _destroy(
    bench: StorageBench, ref: AgentRef, number: int, key: str = "d", at: int = 100
) -> None:
    gone = DestroyedAgent(number, ref, key, 1, at)
    await bench.storage.write(
        lambda tx: tx.delete_agent(gone, outcome=_OUTCOME, without_call="own")
    )


async def a_destroyed_agent_leaves_nothing(bench: StorageBench) -> None:
    """State, history, receipts, inbox, effects, connections and number go; others' stay."""
    number, other = await _fill(bench, ROOM), await _fill(bench, OTHER)
    await _destroy(bench, ROOM, number)
    expect(None, await bench.storage.read_state(ROOM))
    expect({other}, await bench.storage.read_living([number, other, 10**9]))
    expect({}, await bench.storage.write(lambda tx: tx.find_states([ROOM])))
    expect([], await bench.storage.read_history(ROOM))
    expect([], await bench.storage.read_inbox(number, 0, 10))
    expect([], await bench.storage.read_connections(ROOM))
    expect([], await bench.storage.read_effects(ROOM, "own"))
    receipts = await bench.storage.write(lambda tx: tx.load_receipts([(number, "k")]))
    expect({}, receipts)
    expect([OTHER], [row.ref for row in await bench.storage.list_agents()])
    expect('{"old":1}', (await bench.head(OTHER)).state)
    expect(3, len(await bench.storage.read_inbox(other, 0, 10)))
    expect(1, len(await bench.storage.read_connections(OTHER)))
    expect(1, len(await bench.storage.read_effects(OTHER, "own")))


async def the_next_life_is_another_agent(bench: StorageBench) -> None:
    """The name's next agent has a number of its own, though the last number given is gone."""
    number = await _fill(bench, ROOM)
    await _destroy(bench, ROOM, number)
    await bench.storage.delete_sql(ROOM, number)
    await bench.reopen()
    head = (await bench.storage.write(lambda tx: tx.load_states([ROOM])))[ROOM]
    expect(StoredState(head.agent_id), head)
    expect(True, head.agent_id > number, "a number is given once")
    expect({}, await bench.receipts(ROOM, "k"))
    await expect_error(SqlError, bench.sql(ROOM, "SELECT * FROM notes", ()))


async def what_comes_late_is_refused(bench: StorageBench) -> None:
    """Rows and statements of the former number are refused, alone or beside others."""
    number = await _fill(bench, ROOM)
    await _destroy(bench, ROOM, number)
    await bench.storage.delete_sql(ROOM, number)
    later = await bench.agent_id(ROOM)
    await bench.storage.write(lambda tx: tx.hold_agent(later))
    head = StoredState(number, 2, "{}", 2, 5)
    for unit in (
        lambda tx: tx.add_effect(_effect(number)),
        lambda tx: tx.add_invocations([_call(number, "late")]),
        lambda tx: tx.put_states([head]),
        lambda tx: tx.put_connection(_connection(number, "late")),
        lambda tx: tx.hold_agent(number),
    ):
        await expect_error(AgentDestroyedError, bench.storage.write(unit))
    insert = "INSERT INTO notes VALUES ('late') RETURNING text"
    await expect_error(AgentDestroyedError, bench.storage.sql(ROOM, number, insert, ()))
    once = bench.storage.sql_once(ROOM, insert, (), effect=_effect(number))
    await expect_error(AgentDestroyedError, once)
    expect(StoredState(later), await bench.head(ROOM))
    expect([], await bench.storage.read_inbox(later, 0, 10))


async def a_destroy_is_remembered_by_its_key(bench: StorageBench) -> None:
    """The key tells a repeat of the destroy, of this agent only, until it is pruned."""

    async def find(ref: AgentRef = ROOM) -> DestroyedAgent | None:
        return await bench.storage.write(lambda tx: tx.find_destroyed(ref, "d"))

    number = await _fill(bench, ROOM)
    expect(None, await find())
    await _destroy(bench, ROOM, number)
    expect(DestroyedAgent(number, ROOM, "d", 1, 100), await find())
    expect(None, await find(OTHER))
    await bench.storage.write(lambda tx: tx.prune_destroyed(101))
    expect(number, (await find() or DestroyedAgent(0, ROOM, "", 0, 0)).agent_id, "not finished")
    await bench.storage.write(lambda tx: tx.finish_destroyed(number, _OUTCOME))
    await bench.storage.write(lambda tx: tx.prune_destroyed(100))
    expect(True, (await find() or DestroyedAgent(0, ROOM, "", 0, 0)).is_finished)
    await bench.storage.write(lambda tx: tx.prune_destroyed(101))
    expect(None, await find())


async def calls_under_way_get_an_outcome(bench: StorageBench) -> None:
    """Who waits for a call learns what became of it; a repeat finds it in the next life too."""

    async def outcomes(*keys: str) -> dict[str, str | None]:
        found = await bench.storage.read_invocations([(ROOM, key) for key in keys])
        return {key: row.outcome for (_, key), row in found.items()}

    number = await _fill(bench, ROOM)
    await _destroy(bench, ROOM, number)
    every = ("open", "own", "done", "told")
    expect({"open": _OUTCOME, "own": None}, await outcomes(*every))
    await bench.storage.write(lambda tx: tx.finish_destroyed_call(number, "own", '{"result":2}'))
    await bench.storage.write(lambda tx: tx.finish_destroyed_call(number, "own", "late"))
    await bench.storage.write(lambda tx: tx.finish_destroyed(number, "later still"))
    expect({"open": _OUTCOME, "own": '{"result":2}'}, await outcomes(*every))
    later = await bench.agent_id(ROOM)
    keys = [(later, key) for key in every]
    found = await bench.storage.write(lambda tx: tx.load_invocations(keys))
    expect({(later, "open"), (later, "own")}, set(found))
    expect("print-own", found[later, "own"].fingerprint)
    other = await bench.agent_id(OTHER)
    keys = [(other, key) for key in every]
    expect({}, await bench.storage.write(lambda tx: tx.load_invocations(keys)))


async def what_is_cut_short_is_found(bench: StorageBench) -> None:
    """A destroy that was not finished is found after a restart, and its calls are given up."""
    number, other = await _fill(bench, ROOM), await _fill(bench, OTHER)
    await _destroy(bench, ROOM, number, at=100)
    await _destroy(bench, OTHER, other, at=200)
    await bench.reopen()
    unfinished = await bench.storage.read_unfinished(201, 10)
    expect([number, other], [agent.agent_id for agent in unfinished])
    expect([ROOM], [agent.ref for agent in await bench.storage.read_unfinished(200, 10)])
    expect(1, len(await bench.storage.read_unfinished(201, 1)))
    [mine] = await bench.storage.read_unfinished(201, 10, ref=OTHER)
    expect(other, mine.agent_id)
    await bench.storage.delete_sql(OTHER, other)
    await bench.storage.delete_sql(OTHER, other)
    await bench.storage.write(lambda tx: tx.finish_destroyed(other, '{"error":"given up"}'))
    expect([], await bench.storage.read_unfinished(201, 10, ref=OTHER))
    found = await bench.storage.read_invocations([(OTHER, "own")])
    expect('{"error":"given up"}', found[OTHER, "own"].outcome)


async def the_feed_ends_with_the_destroy(bench: StorageBench) -> None:
    """Messages sent before are told still, states no more; the next life's come after."""
    number = await _fill(bench, ROOM)
    await _destroy(bench, ROOM, number)
    await bench.put(ROOM, '{"new":1}')
    later = await bench.agent_id(ROOM)
    await bench.storage.write(lambda tx: tx.add_outbox([OutboxRow(later, "state", 1, None, 6)]))
    rows = await bench.storage.read_feed(0, 10)
    expect(["broadcast", DESTROYED, "state"], [row.kind for row in rows])
    expect({ROOM}, {row.ref for row in rows})
    expect('{"new":1}', rows[-1].payload)


DESTROY_CHECKS: Sequence[StorageCheck] = (
    a_destroyed_agent_leaves_nothing,
    the_next_life_is_another_agent,
    what_comes_late_is_refused,
    a_destroy_is_remembered_by_its_key,
    calls_under_way_get_an_outcome,
    what_is_cut_short_is_found,
    the_feed_ends_with_the_destroy,
)
