"""The sessions of `openai-agents` and of LangGraph beside the product's, in turns with them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial

from agent_runtime.session.direct_session_store import open_session_store
from agent_runtime.session.session import Session
from bench.peers.conversation_line import CROWD
from bench.support.bench import Bench
from bench.support.conversation import fill, seconds, spoken
from bench.support.peer_process import PeerProcess
from bench.support.row import Figure, Row, number
from bench.support.statistics import median, median_ratio

_LENGTHS = (1_000, 10_000)
_numbers = itertools.count()


async def run(
    bench: Bench,
    *,
    name: str,
    script: str,
    needs: str,
    goals: dict[str, float],
    has_crowd: bool = False,
) -> list[Figure]:
    """Compare an append at two lengths, all of a history, and its last hundred messages.

    Args:
        has_crowd: Compare many appends at once too.
    """
    folder = bench.data_dir(bench.new_name("sessions"))
    async with (
        PeerProcess(script, needs, bench.peers_python, bench.folder) as peer,
        await open_session_store(folder) as store,
    ):
        figures = []
        for length in _LENGTHS:
            bench.say(f"{name}: sessions of {length:,} messages")
            session = Session.create(store).for_session(f"of {length}")
            await fill(session, length)
            await peer.ask("fill", f"of {length}", length)
            for what, times, operation in _jobs(session, length, has_crowd):
                ours: list[float] = []
                theirs: list[float] = []
                for _ in range(bench.scale.pick(8, 4)):
                    ours.append(median([await seconds(operation) for _ in range(times)]))
                    theirs.append(median(await peer.ask(what, f"of {length}", times)))
                figures.append(
                    Figure(
                        f"{what}, {length:,} messages / {name}",
                        median_ratio(ours, theirs),
                        at_most=goals.get(f"{what} {length}"),
                        evidence=f"{_ms(ours)} and {_ms(theirs)} ms",
                    )
                )
        return figures


def _jobs(
    session: Session, length: int, has_crowd: bool
) -> list[tuple[str, int, Callable[[], Awaitable[object]]]]:
    async def append() -> None:
        await session.append_message(spoken(f"new{next(_numbers)}"))

    async def crowd() -> None:
        await asyncio.gather(*(append() for _ in range(CROWD)))

    jobs: list[tuple[str, int, Callable[[], Awaitable[object]]]] = [("append", 12, append)]
    if length == max(_LENGTHS):
        if has_crowd:
            jobs.append((f"{CROWD} appends at once", 3, crowd))
        jobs.append(("history", 3, session.get_history))
        jobs.append(("last", 6, partial(session.get_recent_history, 0, 100)))
    return jobs


def _ms(times: list[float]) -> str:
    return number(median(times) * 1e3)


ROWS = [
    Row(
        "S4",
        "the session of openai-agents, SQLite",
        partial(
            run,
            name="SQLiteSession",
            script="openai_agents_peer",
            needs="agents",
            goals={"history 10000": 0.5, "last 10000": 1.0},
            has_crowd=True,
        ),
    ),
    Row(
        "S5",
        "messages in LangGraph's state, SQLite",
        partial(
            run,
            name="LangGraph",
            script="langgraph_messages_peer",
            needs="langgraph.checkpoint.sqlite.aio",
            goals={"append 10000": 0.5},
        ),
    ),
]
