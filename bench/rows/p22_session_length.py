"""S1 to S3: what a session's operations cost in a long conversation and among neighbours."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import orjson

from agent_runtime.session.direct_session_store import DirectSessionStore, open_session_store
from agent_runtime.session.session import Session
from agent_runtime.storage.sqlite import FILE_NAME
from bench.support.bench import Bench
from bench.support.conversation import fill, processor_seconds, seconds, spoken
from bench.support.copied_sessions import check_copy, copy_session
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio
from bench.support.steadily import steadily

_SHORT = 1_000
_SHOWN = 32
_numbers = itertools.count()

Operation = Callable[[Session], Awaitable[object]]


async def _append(session: Session) -> None:
    await session.append_message(spoken(f"new{next(_numbers)}"))


_OPERATIONS: dict[str, Operation] = {
    "append": _append,
    "latest leaf": lambda session: session.get_latest_leaf(),
    "path length": lambda session: session.get_path_length(),
    "token estimate": lambda session: session.estimate_tokens(),
}


async def length(bench: Bench) -> list[Figure]:
    """Compare operations in a long and in a short session, in turns."""
    count = bench.scale.pick(100_000, 20_000)
    async with await open_session_store(bench.data_dir(bench.new_name("sessions"))) as store:
        short, long = [Session.create(store).for_session(name) for name in ("short", "long")]
        bench.say(f"sessions of {_SHORT:,} and {count:,} messages")
        await fill(short, _SHORT)
        await fill(long, count)
        figures = []
        for name, operation in _OPERATIONS.items():
            few, many = await _in_turns(bench, partial(operation, short), partial(operation, long))
            figures.append(
                Figure(
                    f"{name}, {count:,} messages / {_SHORT:,}",
                    median_ratio(many, few),
                    at_most=1.5,
                    evidence=f"{_ms(many)} and {_ms(few)} ms",
                )
            )
        return figures


async def shown(bench: Bench) -> list[Figure]:
    """Read what a compacted conversation shows, all of one, and the first thing after a start."""
    count = bench.scale.pick(100_000, 20_000)
    folder = bench.data_dir(bench.new_name("sessions"))
    bench.say(f"a compacted session of {count:,} messages, and one of 10,000")
    async with await open_session_store(folder) as store:
        long, alone, whole = [
            Session.create(store).for_session(name) for name in ("long", "alone", "whole")
        ]
        await fill(long, count)
        await long.add_compaction("What was said before.", "m1", f"m{count - _SHOWN + 1}")
        await fill(alone, _SHOWN)
        await fill(whole, 10_000)
        assert len(await long.get_history()) == _SHOWN
        few, compacted = await _in_turns(bench, alone.get_history, long.get_history)
        contents = [orjson.dumps(each).decode() for each in await whole.get_history()]
        plain = await asyncio.to_thread(_PlainTable, folder / "plain.db", contents)
        rows, history = await _in_turns(
            bench, plain.read, whole.get_history, share=10, measure=processor_seconds
        )
        plain.close()
    opened, first = [], []
    for _ in range(bench.scale.repetitions):
        opened.append(await seconds(lambda: _reopen(folder)))
        async with await open_session_store(folder) as store:
            first.append(await seconds(Session.create(store).for_session("long").get_history))
    return [
        Figure(
            f"{_SHOWN} visible of {count:,} messages / {_SHOWN} alone",
            median_ratio(compacted, few),
            at_most=3,
            evidence=f"{_ms(compacted)} and {_ms(few)} ms",
        ),
        Figure(
            "history of 10,000 / SELECT and a JSON parse, processor time",
            median_ratio(history, rows),
            at_most=2,
            evidence=f"{_ms(history)} and {_ms(rows)} ms",
        ),
        Figure(
            f"first history after a start, {count:,} messages",
            median(first) * 1e3,
            "ms",
            at_most=10,
            evidence=f"opening and closing the file {_ms(opened)} ms",
        ),
    ]


async def neighbours(bench: Bench) -> list[Figure]:
    """Compare operations of a session alone in its file and beside a hundred others."""
    count = bench.scale.pick(20_000, 200)
    folder = bench.data_dir(bench.new_name("crowd"))
    async with (
        await open_session_store(bench.data_dir(bench.new_name("alone"))) as alone,
        await open_session_store(folder) as crowd,
    ):
        bench.say(f"100 neighbours of {count:,} messages")
        names = [f"neighbour {number}" for number in range(100)]
        first, *_, last = [Session.create(crowd).for_session(name) for name in names]
        await fill(first, count)
        await asyncio.to_thread(copy_session, folder / FILE_NAME, names[0], names[1:])
        await check_copy(first, last)
        size = (folder / FILE_NAME).stat().st_size
        sessions = [await _small(store) for store in (alone, crowd)]
        figures = []
        for name, operation in _OPERATIONS.items():
            lone, among = await _in_turns(bench, *(partial(operation, each) for each in sessions))
            figures.append(
                Figure(
                    f"{name} beside 100 x {count:,} messages / alone",
                    median_ratio(among, lone),
                    at_most=1.5,
                    evidence=f"{_ms(among)} and {_ms(lone)} ms; file {number(size / 1e6)} MB",
                )
            )
        return figures


class _PlainTable:
    """What one writes: a table of JSON texts, read in order and parsed one by one."""

    def __init__(self, path: Path, contents: list[str]) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, content TEXT)")
        self._connection.executemany(
            "INSERT INTO messages (content) VALUES (?)", ((content,) for content in contents)
        )
        self._connection.commit()

    async def read(self) -> object:
        """Return all messages."""
        return await asyncio.to_thread(self._read)

    def _read(self) -> object:
        rows = self._connection.execute("SELECT content FROM messages ORDER BY id").fetchall()
        return [orjson.loads(content) for (content,) in rows]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


async def _small(store: DirectSessionStore) -> Session:
    session = Session.create(store).for_session("small")
    await fill(session, _SHORT)
    return session


async def _reopen(folder: Path) -> None:
    await (await open_session_store(folder)).close()


async def _in_turns(
    bench: Bench,
    one: Callable[[], Awaitable[object]],
    other: Callable[[], Awaitable[object]],
    *,
    share: int = 1,
    measure: Callable[[Callable[[], Awaitable[object]]], Awaitable[float]] = seconds,
) -> tuple[list[float], list[float]]:
    """Take turns and return the medians of neighbouring dozens."""
    ones: list[float] = []
    others: list[float] = []
    each = max(3, 12 // share)
    for _ in range(bench.scale.pick(10, 5)):
        ones.append(median([await measure(one) for _ in range(each)]))
        others.append(median([await measure(other) for _ in range(each)]))
    return ones, others


def _ms(times: list[float]) -> str:
    return number(median(times) * 1e3)


ROWS = [
    Row("S1", "sessions, long and short", partial(steadily, length)),
    Row("S2", "sessions, what they show", partial(steadily, shown)),
    Row("S3", "sessions among others", partial(steadily, neighbours)),
]
