"""Checks of heads, receipts, history and listings."""

from __future__ import annotations

from collections.abc import Sequence

from agent_runtime.identity import AgentRef
from agent_runtime.state import UNSET
from agent_runtime.storage.protocol import AgentRow, StoredReceipt, StoredState
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
    expect_error,
    listed,
    put_one,
)

_ODD_NAMES = [
    "a/b",
    "..",
    "it's; DROP TABLE agents; --",
    '"quoted"',
    "ROOM",
    "room",
    "ключ",
    "🦊",
    "a\nb\x01",
    "100%_x",
    "x" * 500,
]


async def unknown_agents_have_nothing(bench: StorageBench) -> None:
    """Reading an agent that was never touched finds nothing and makes nothing."""
    expect(None, await bench.storage.read_state(ROOM))
    expect([], await bench.storage.read_history(ROOM))
    expect([], await bench.storage.read_version(ROOM, 1))
    expect({}, await bench.storage.read_invocations([(ROOM, "k")]))
    expect([], await bench.storage.read_effects(ROOM, "k"))
    expect([], await bench.storage.list_agents())


async def loading_makes_agents_once(bench: StorageBench) -> None:
    """The first load makes an agent, every later one returns the same number."""
    first = await bench.storage.write(lambda tx: tx.load_states([ROOM, OTHER]))
    again = await bench.storage.write(lambda tx: tx.load_states([OTHER, ROOM]))
    expect(first, again)
    expect(2, len({state.agent_id for state in first.values()}), "different agents")
    expect(StoredState(first[ROOM].agent_id), first[ROOM], "a new agent's head")
    expect(first[ROOM], await bench.storage.read_state(ROOM))


async def names_are_taken_literally(bench: StorageBench) -> None:
    """Any text is a name: no two names meet, and listings show them as they were given."""
    refs = [AgentRef("Room", name) for name in _ODD_NAMES]
    for number, ref in enumerate(refs):
        await bench.put(ref, str(number))
    states = await bench.storage.write(lambda tx: tx.load_states(refs))
    expect([str(n) for n in range(len(refs))], [states[ref].state for ref in refs])
    expect(set(refs), set(listed(await bench.storage.list_agents(limit=100))))


async def heads_are_replaced(bench: StorageBench) -> None:
    """The head is what the last commit wrote, and only that agent's."""
    await bench.put(ROOM, '{"n":1}', at=10)
    await bench.put(ROOM, '{"n":2}', at=20)
    await bench.put(OTHER, "null", at=30)
    number = await bench.agent_id(ROOM)
    expect(StoredState(number, 2, '{"n":2}', 2, 20), await bench.head(ROOM))
    expect("null", (await bench.head(OTHER)).state)


async def texts_come_back_exactly(bench: StorageBench) -> None:
    """Every JSON text comes back letter by letter, NUL escapes and rare planes included."""
    texts = ["null", "0", "false", '""', "[]", "{}", '"\\u0000x"', '"🦊ключ"', '" \\" \'"']
    texts.append('"' + "y" * 1_999_998 + '"')
    for text in texts:
        await bench.put(ROOM, text)
        expect(text, (await bench.head(ROOM)).state)
    rows = await bench.storage.read_history(ROOM, limit=100)
    expect(texts, [row.value for row in reversed(rows)])


async def receipts_belong_to_their_agent(bench: StorageBench) -> None:
    """A receipt is found by agent and key together, with what it stands for."""
    await bench.put(ROOM, "1", key="k")
    await bench.put(ROOM, "2", key="K")
    expect(
        {"k": StoredReceipt(1, "set", "print-1"), "K": StoredReceipt(2, "set", "print-2")},
        await bench.receipts(ROOM, "k", "K", "unknown"),
    )
    expect({}, await bench.receipts(OTHER, "k"))
    expect({}, await bench.storage.write(lambda tx: tx.load_receipts([])))


async def receipts_of_many_agents_load_together(bench: StorageBench) -> None:
    """One load answers for keys of several agents, odd characters in them included."""
    keys = ["plain", "it's", "ключ", '"', "a/b", "inv\x1f0"]
    for ref in (ROOM, OTHER):
        for key in keys:
            await bench.put(ref, "1", key=key)
    numbers = [await bench.agent_id(ROOM), await bench.agent_id(OTHER)]
    wanted = [(number, key) for number in numbers for key in keys]
    found = await bench.storage.write(lambda tx: tx.load_receipts(wanted))
    expect(set(wanted), set(found))


async def a_key_or_version_is_stored_once(bench: StorageBench) -> None:
    """A second row with a used key or version is refused, and its whole unit undone."""
    await bench.put(ROOM, "1", key="k")
    await expect_error(Exception, bench.put(ROOM, "2", key="k"))
    expect("1", (await bench.head(ROOM)).state)

    async def same_version() -> None:
        rows = await bench.storage.read_history(ROOM)
        await bench.storage.write(lambda tx: tx.add_mutations([rows[0]]))

    await expect_error(Exception, same_version())
    expect(1, len(await bench.storage.read_history(ROOM)))


async def keyless_rows_never_conflict(bench: StorageBench) -> None:
    """Rows without a key, as reading an initial state makes them, may be many."""
    number = await bench.agent_id(ROOM)
    await bench.put(ROOM, "1")
    [row] = await bench.storage.read_history(ROOM)
    for version in (2, 3):
        keyless = type(row)(number, version, None, None, "init", "server", "1", True, 1)
        await bench.storage.write(lambda tx, row=keyless: tx.add_mutations([row]))  # type: ignore[misc]
    expect([None, None, "key-1"], [row.key for row in await bench.storage.read_history(ROOM)])


async def history_is_newest_first(bench: StorageBench) -> None:
    """History comes newest first, from a version down, as many as were asked for."""
    for number in range(1, 8):
        await bench.put(ROOM, str(number), source=f"client-{number}", at=number)
        await bench.put(OTHER, "0")
    rows = await bench.storage.read_history(ROOM)
    expect([7, 6, 5, 4, 3, 2, 1], [row.version for row in rows])
    expect(("7", "set", "client-7", True, 7), _entry(rows[0]))
    page = await bench.storage.read_history(ROOM, newest=5, limit=2)
    expect([5, 4], [row.version for row in page])
    expect([], await bench.storage.read_history(ROOM, newest=0))


async def every_version_is_rebuilt(bench: StorageBench) -> None:
    """A version is the newest whole state up to it and the changes since, others' left out."""
    await bench.put(ROOM, '{"a":0}')
    for number in range(1, 6):
        await bench.put(ROOM, f'{{"b":{number}}}', is_full=False)
        await bench.put(OTHER, "0")
    await bench.put(ROOM, '{"c":1}')
    await bench.put(ROOM, '{"a":null}', is_full=False)
    expect([1, 2, 3, 4], [row.version for row in await bench.storage.read_version(ROOM, 4)])
    expect({"a": 0}, await bench.rebuilt(ROOM, 1))
    expect({"a": 0, "b": 3}, await bench.rebuilt(ROOM, 4))
    expect({"c": 1}, await bench.rebuilt(ROOM, 7))
    expect({"c": 1, "a": None}, await bench.rebuilt(ROOM, 8))
    expect(UNSET, await bench.rebuilt(ROOM, 9))
    expect(UNSET, await bench.rebuilt(ROOM, 0))


async def listings_are_ordered_and_paged(bench: StorageBench) -> None:
    """Agents are listed by class and name; a page goes on after the last of the one before."""
    refs = [AgentRef(kind, name) for kind in ("Cat", "Dog") for name in ("1", "10", "2", "Z", "a")]
    for ref in reversed(refs):
        await bench.agent_id(ref)
    expect(refs, listed(await bench.storage.list_agents()))
    expect(refs[:4], listed(await bench.storage.list_agents(limit=4)))
    expect(refs[4:8], listed(await bench.storage.list_agents(after=refs[3], limit=4)))
    expect(refs[5:], listed(await bench.storage.list_agents(class_name="Dog")))
    page = await bench.storage.list_agents(class_name="Dog", after=refs[6], limit=2)
    expect(refs[7:9], listed(page))
    expect([], await bench.storage.list_agents(class_name="Cow"))


async def listings_show_version_and_times(bench: StorageBench) -> None:
    """A listing shows how often an agent changed and when last."""
    await bench.put(ROOM, "1", at=5)
    await bench.put(ROOM, "2", at=9)
    await bench.agent_id(OTHER)
    rows = await bench.storage.list_agents()
    expect([(ROOM, 2, 9), (OTHER, 0, 0)], [(r.ref, r.version, r.updated_at) for r in rows])
    expect(True, all(isinstance(row, AgentRow) and row.created_at > 0 for row in rows))


async def reopening_keeps_everything(bench: StorageBench) -> None:
    """What was committed is there after closing and opening again."""
    await bench.put(ROOM, '{"a":1}', key="k")
    await bench.put(ROOM, '{"b":2}', is_full=False)
    await bench.storage.write(lambda tx: tx.add_answer("batch", "[]", 5))
    before = (await bench.head(ROOM), await bench.storage.read_history(ROOM))
    await bench.reopen()
    expect(before, (await bench.head(ROOM), await bench.storage.read_history(ROOM)))
    expect({"k"}, set(await bench.receipts(ROOM, "k")))
    expect("[]", await bench.storage.read_answer("batch"))
    expect(3, await bench.storage.write(lambda tx: put_one(tx, ROOM, "3")))


def _entry(row: object) -> tuple[object, ...]:
    return tuple(
        getattr(row, name) for name in ("value", "kind", "source", "is_full", "created_at")
    )


STATE_CHECKS: Sequence[StorageCheck] = (
    unknown_agents_have_nothing,
    loading_makes_agents_once,
    names_are_taken_literally,
    heads_are_replaced,
    texts_come_back_exactly,
    receipts_belong_to_their_agent,
    receipts_of_many_agents_load_together,
    a_key_or_version_is_stored_once,
    keyless_rows_never_conflict,
    history_is_newest_first,
    every_version_is_rebuilt,
    listings_are_ordered_and_paged,
    listings_show_version_and_times,
    reopening_keeps_everything,
)
