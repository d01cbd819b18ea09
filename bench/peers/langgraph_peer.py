# mypy: disable-error-code="import-not-found,untyped-decorator,import-untyped"
"""LangGraph doing the job: a graph of one node with the SQLite checkpointer, a lock per thread.

It has neither idempotency nor order per thread; the lock gives it the latter. Runs in LangGraph's
environment.
"""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from pathlib import Path
from typing import TypedDict

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.peer_line import serve_lines


class Counter(TypedDict):
    """The graph's state."""

    count: int


def increment(state: Counter) -> Counter:
    """Add one."""
    return {"count": state.get("count", 0) + 1}


async def main() -> None:
    """Serve measurements."""
    path = str(Path(sys.argv[1]) / "langgraph.db")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        builder = StateGraph(Counter)
        builder.add_node("increment", increment)
        builder.add_edge(START, "increment")
        builder.add_edge("increment", END)
        graph = builder.compile(checkpointer=saver)
        locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

        async def call(agent: str, key: str) -> object:
            async with locks[agent]:
                return await graph.ainvoke({}, {"configurable": {"thread_id": agent}})

        await serve_lines(call)


asyncio.run(main())
