"""Checks of what language models have cost: each call counted once, sums kept for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from agent_runtime.storage.protocol import Retention, Storage
from agent_runtime.storage.session_protocol import (
    DAY_MILLISECONDS,
    DayUsageRow,
    RecordRow,
    SessionRef,
    UsageRow,
)
from agent_runtime.testing.storage_bench import (
    OTHER,
    ROOM,
    StorageBench,
    StorageCheck,
    expect,
)

_CHAT = SessionRef(ROOM, "chat")


def _call(key: str, at: int = 0, *, model: str = "m", purpose: str = "turn") -> UsageRow:
    return UsageRow(key, purpose, model, 10, 2, 0.5, at)


async def _add(storage: Storage, usage: UsageRow, ref: SessionRef = _CHAT) -> None:
    await storage.write(lambda tx: tx.sessions.jobs.add_usage(ref, usage))


async def _days(bench: StorageBench) -> list[tuple[str, int, int]]:
    rows = await bench.storage.sessions.usage_of_days(ROOM, limit=100)
    return [(row.session_id, row.day, row.calls) for row in rows]


async def usage_is_counted_by_day(bench: StorageBench) -> None:
    """Calls add up by day, session, model and purpose, read in this order and in parts."""
    late = 3 * DAY_MILLISECONDS
    for key, at, model, purpose in (
        ("a", 0, "m", "turn"),
        ("b", DAY_MILLISECONDS - 1, "m", "turn"),
        ("c", DAY_MILLISECONDS, "m", "turn"),
        ("d", late, "m", "turn"),
        ("e", late, "m", "summary"),
        ("f", late, "l", "turn"),
    ):
        await _add(bench.storage, _call(key, at, model=model, purpose=purpose))
    await _add(bench.storage, _call("g", late), SessionRef(ROOM, "a"))
    await _add(bench.storage, _call("a"), SessionRef(OTHER, "chat"))
    read = bench.storage.sessions.usage_of_days
    rows = await read(ROOM, limit=100)
    expect(DayUsageRow("chat", 0, "m", "turn", 2, 20, 4, 1.0), rows[0])
    expect(
        [
            ("chat", 0, "m", "turn", 2),
            ("chat", 1, "m", "turn", 1),
            ("a", 3, "m", "turn", 1),
            ("chat", 3, "l", "turn", 1),
            ("chat", 3, "m", "summary", 1),
            ("chat", 3, "m", "turn", 1),
        ],
        [(row.session_id, row.day, row.model, row.purpose, row.calls) for row in rows],
    )
    expect(rows[1:3], await read(ROOM, limit=2, offset=1))
    expect(rows[1:2], await read(ROOM, since=1, until=2, limit=9))
    expect(rows[2:3], await read(ROOM, session_id="a", limit=9))
    expect(rows[3:], await read(ROOM, session_id="chat", since=2, limit=9))
    expect([], await read(ROOM, session_id="none", limit=9))


async def a_call_is_counted_once(bench: StorageBench) -> None:
    """A repeat under the same key changes nothing, from another process at the same time too."""
    record = RecordRow("chat", "Chat", None, None, None, 0, 0, 0.0, None, 5, 5)
    await bench.storage.write(lambda tx: tx.sessions.registry.create_record(ROOM, record))
    second = await bench.open_again()
    try:
        for key in ("a", "b", "c"):
            await asyncio.gather(
                *(_add(storage, _call(key)) for storage in (bench.storage, second) * 2)
            )
    finally:
        await second.close()
    expect([("chat", 0, 3)], await _days(bench))
    expect(["a", "b", "c"], [row.key for row in await bench.storage.sessions.usage(_CHAT)])
    stored = await bench.storage.sessions.record(_CHAT)
    expect(
        (30, 6, 1.5), stored and (stored.input_tokens, stored.output_tokens, stored.estimated_cost)
    )


async def calls_go_when_old_and_many(bench: StorageBench) -> None:
    """Single calls are kept like receipts, and count once meanwhile; their sums never go."""
    for number in range(6):
        await _add(bench.storage, _call(f"c{number}", number * DAY_MILLISECONDS))
    await _add(bench.storage, _call("c0"), SessionRef(OTHER, "chat"))
    days = await _days(bench)
    number = await bench.agent_id(ROOM)

    async def prune(age: timedelta, count: int) -> list[str]:
        retention = Retention(receipt_age=age, receipt_count=count)
        now = 6 * DAY_MILLISECONDS
        await bench.storage.write(lambda tx: tx.prune_agent(number, retention, now))
        return [row.key for row in await bench.storage.sessions.usage(_CHAT)]

    week = timedelta(days=7)
    expect(6, len(await prune(week, 0)), "none is older")
    expect(6, len(await prune(timedelta(0), 6)), "no more than that")
    expect(["c2", "c3", "c4", "c5"], await prune(timedelta(days=2), 4), "the newest four")
    expect(["c3", "c4", "c5"], await prune(timedelta(days=3), 0), "of three days")
    for key in ("c3", "c4", "c5"):
        await _add(bench.storage, _call(key, 9 * DAY_MILLISECONDS))
    expect(days, await _days(bench), "sums")
    expect(1, len(await bench.storage.sessions.usage(SessionRef(OTHER, "chat"))))


USAGE_CHECKS: Sequence[StorageCheck] = (
    usage_is_counted_by_day,
    a_call_is_counted_once,
    calls_go_when_old_and_many,
)
