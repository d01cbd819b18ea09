"""Checks of what is dropped with time, and of what never is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from agent_runtime.clock import now_milliseconds
from agent_runtime.state import UNSET
from agent_runtime.storage.protocol import InvocationRow, OutboxRow, Retention, Transaction
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
)

_LONG = timedelta(days=7)
_NOW = 10 * 24 * 3_600_000


async def _prune(bench: StorageBench, retention: Retention, now: int = _NOW) -> None:
    number = await bench.agent_id(ROOM)
    await bench.storage.write(lambda tx: tx.prune_agent(number, retention, now))


async def _fill(bench: StorageBench, count: int, *, at: int = _NOW) -> None:
    """Versions 1 to `count`: every fifth a whole state, the others changes of a key."""
    for number in range(count):
        is_full = number % 5 == 0
        text = f'{{"k{number % 3}":{number}}}'
        await bench.put(ROOM, text, is_full=is_full, at=at)


async def _kept(bench: StorageBench) -> list[int]:
    rows = await bench.storage.read_history(ROOM, limit=1000)
    return sorted(row.version for row in rows if row.value is not None)


async def history_is_kept_by_count(bench: StorageBench) -> None:
    """The newest values stay, with what is needed to rebuild them; older values go."""
    await _fill(bench, 23)
    before = {version: await bench.rebuilt(ROOM, version) for version in range(1, 24)}
    await _prune(bench, Retention(history_count=6))
    kept = await _kept(bench)
    expect(True, set(range(18, 24)) <= set(kept), "the newest six are kept")
    expect(True, kept[0] >= 18 - 5, "hardly more than asked for is kept")
    for version in kept:
        expect(before[version], await bench.rebuilt(ROOM, version), f"version {version}")
    expect(UNSET, await bench.rebuilt(ROOM, 3))


async def history_is_kept_by_bytes(bench: StorageBench) -> None:
    """Values beyond the bytes go, however few versions that leaves; the newest always stays."""
    for _ in range(6):
        await bench.put(ROOM, '"' + "x" * 1_000 + '"', at=_NOW)
    await _prune(bench, Retention(history_bytes=2_500))
    expect([5, 6], await _kept(bench))
    await _prune(bench, Retention(history_bytes=1))
    expect([6], await _kept(bench))


async def history_bytes_are_bytes(bench: StorageBench) -> None:
    """Bytes are counted in UTF-8, not in characters."""
    for _ in range(4):
        await bench.put(ROOM, '"' + "я" * 1_000 + '"', at=_NOW)
    await _prune(bench, Retention(history_bytes=4_100))
    expect([3, 4], await _kept(bench))


async def pruned_values_keep_their_receipts(bench: StorageBench) -> None:
    """Dropping a history value does not forget the key."""
    await _fill(bench, 20)
    await _prune(bench, Retention(history_count=1, receipt_age=timedelta(0), receipt_count=20))
    expect(20, len(await bench.receipts(ROOM, *(f"key-{n}" for n in range(1, 21)))))
    expect(20, len(await bench.storage.read_history(ROOM)))


async def receipts_go_when_old_and_many(bench: StorageBench) -> None:
    """A receipt goes when it is both older than the age and beyond the newest few."""
    await _fill(bench, 10, at=0)
    await _fill(bench, 10, at=_NOW)
    keys = [f"key-{n}" for n in range(1, 21)]
    await _prune(bench, Retention(history_count=1, receipt_age=_LONG, receipt_count=15))
    expect(set(keys[5:]), set(await bench.receipts(ROOM, *keys)), "old ones within the number")
    await _prune(bench, Retention(history_count=1, receipt_age=_LONG, receipt_count=3))
    expect(set(keys[10:]), set(await bench.receipts(ROOM, *keys)), "young ones beyond the number")


async def kept_history_keeps_its_rows(bench: StorageBench) -> None:
    """A row whose value is still kept is not dropped with the receipts."""
    await _fill(bench, 12, at=0)
    await _prune(bench, Retention(history_count=6, receipt_age=timedelta(0), receipt_count=0))
    kept = await _kept(bench)
    expect(True, set(range(7, 13)) <= set(kept))
    expect({"k2": 11, "k1": 10}, await bench.rebuilt(ROOM, 12))


async def operation_keys_go_with_age(bench: StorageBench) -> None:
    """What a session's operation did is recalled as long as receipts are kept."""

    async def recall() -> str | None:
        return await bench.storage.write(
            lambda tx: tx.sessions.registry.recall_operation(ROOM, "k", "fork")
        )

    await recall()
    await bench.storage.write(lambda tx: tx.sessions.registry.record_operation(ROOM, "k", '"done"'))
    now = now_milliseconds()
    await _prune(bench, Retention(), now + int(_LONG.total_seconds() * 1000) - 60_000)
    expect('"done"', await recall())
    await _prune(bench, Retention(), now + int(_LONG.total_seconds() * 1000) + 60_000)
    expect(None, await recall())


async def pruning_leaves_other_agents_and_the_head(bench: StorageBench) -> None:
    """Pruning touches one agent's past only."""
    await _fill(bench, 10, at=0)
    for number in range(10):
        await bench.put(OTHER, str(number), at=0)
    before = (await bench.head(ROOM), await bench.storage.read_history(OTHER))
    await _prune(bench, Retention(history_count=1, receipt_age=timedelta(0), receipt_count=0))
    expect(before, (await bench.head(ROOM), await bench.storage.read_history(OTHER)))


async def versions_go_on_after_pruning(bench: StorageBench) -> None:
    """The next version follows the head, although rows below it are gone."""
    await _fill(bench, 12, at=0)
    await _prune(bench, Retention(history_count=1, receipt_age=timedelta(0), receipt_count=0))
    expect(13, await bench.put(ROOM, '{"z":1}', is_full=False))
    expect({"k2": 11, "k1": 10, "z": 1}, await bench.rebuilt(ROOM, 13))


async def invocations_go_when_old_and_many(bench: StorageBench) -> None:
    """Finished calls go by age and number like receipts; unfinished ones never."""
    number = await bench.agent_id(ROOM)
    rows = [
        InvocationRow(number, f"c{n}", "call", "m", "[]", "print", n, outcome='{"result":1}')
        for n in range(6)
    ]
    unfinished = InvocationRow(number, "open", "call", "m", "[]", "print", 0)

    async def unit(tx: Transaction) -> None:
        await tx.add_invocations([unfinished, *rows])
        await tx.finish_invocations(rows)

    await bench.storage.write(unit)
    far = 2**45
    await _prune(bench, Retention(receipt_age=timedelta(0), receipt_count=2), far)
    keys = ["open", *(row.key for row in rows)]
    found = await bench.storage.read_invocations([(ROOM, key) for key in keys])
    expect(["open", "c4", "c5"], [key for key in keys if (ROOM, key) in found])


async def the_feed_is_in_order(bench: StorageBench) -> None:
    """Outbox rows get rising numbers in order of commit, and are read on from any of them."""
    number = await bench.agent_id(ROOM)
    for version in range(1, 4):
        rows = [
            OutboxRow(number, "state", version, None, 5),
            OutboxRow(number, "event", version, '{"x":1}', 5),
        ]
        await bench.storage.write(lambda tx, rows=rows: tx.add_outbox(rows))  # type: ignore[misc]
    feed = await bench.storage.read_outbox(0, 100)
    expect([1, 1, 2, 2, 3, 3], [row.version for row in feed])
    expect(["state", "event"] * 3, [row.kind for row in feed])
    expect([None, '{"x":1}'] * 3, [row.payload for row in feed])
    numbers = [row.seq for row in feed]
    expect(sorted(set(numbers)), numbers, "rising numbers")
    expect(feed[2:4], await bench.storage.read_outbox(numbers[1], 2))
    expect([], await bench.storage.read_outbox(numbers[-1], 100))


async def feed_numbers_are_never_used_again(bench: StorageBench) -> None:
    """After the feed was emptied and the storage reopened, new rows have still higher numbers."""
    number = await bench.agent_id(ROOM)
    row = OutboxRow(number, "state", 1, None, 5)
    await bench.storage.write(lambda tx: tx.add_outbox([row, row]))
    last = (await bench.storage.read_outbox(0, 100))[-1].seq
    await bench.storage.write(lambda tx: tx.prune_feed(6))
    expect([], await bench.storage.read_outbox(0, 100))
    await bench.reopen()
    await bench.storage.write(lambda tx: tx.add_outbox([row]))
    expect(True, (await bench.storage.read_outbox(0, 100))[0].seq > last, "a higher number")


async def the_feed_is_pruned_by_time(bench: StorageBench) -> None:
    """Outbox rows and answers made before the time go, later ones stay."""
    number = await bench.agent_id(ROOM)

    async def unit(tx: Transaction) -> None:
        for at in (10, 20, 30):
            await tx.add_outbox([OutboxRow(number, "state", at, None, at)])
            await tx.add_answer(f"answer-{at}", "[]", at)

    await bench.storage.write(unit)
    await bench.storage.write(lambda tx: tx.prune_feed(20))
    expect([20, 30], [row.version for row in await bench.storage.read_outbox(0, 100)])
    expect(None, await bench.storage.read_answer("answer-10"))
    expect("[]", await bench.storage.read_answer("answer-20"))


RETENTION_CHECKS: Sequence[StorageCheck] = (
    history_is_kept_by_count,
    history_is_kept_by_bytes,
    history_bytes_are_bytes,
    pruned_values_keep_their_receipts,
    receipts_go_when_old_and_many,
    kept_history_keeps_its_rows,
    operation_keys_go_with_age,
    pruning_leaves_other_agents_and_the_head,
    versions_go_on_after_pruning,
    invocations_go_when_old_and_many,
    the_feed_is_in_order,
    feed_numbers_are_never_used_again,
    the_feed_is_pruned_by_time,
)
