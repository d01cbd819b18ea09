# mypy: disable-error-code="import-not-found"
"""Conversations as the message list of a LangGraph state with the SQLite checkpointer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.conversation_line import serve_conversations


class GraphMessages:
    """A thread of one graph for each conversation; each append is a checkpoint."""

    def __init__(self, saver: AsyncSqliteSaver) -> None:
        builder = StateGraph(MessagesState)
        builder.add_node("say", lambda state: {})
        builder.add_edge(START, "say")
        builder.add_edge("say", END)
        self._graph = builder.compile(checkpointer=saver)

    async def append(self, name: str, texts: list[str]) -> object:
        """Append messages of the user."""
        messages = [HumanMessage(text) for text in texts]
        return await self._graph.aupdate_state(_thread(name), {"messages": messages}, "say")

    async def history(self, name: str) -> object:
        """Return all messages."""
        return (await self._graph.aget_state(_thread(name))).values["messages"]

    async def last(self, name: str, count: int) -> object:
        """Return the last messages; the state is read as a whole."""
        return (await self._graph.aget_state(_thread(name))).values["messages"][-count:]


def _thread(name: str) -> dict[str, dict[str, str]]:
    return {"configurable": {"thread_id": name}}


async def main() -> None:
    """Serve measurements."""
    path = str(Path(sys.argv[1]) / "langgraph_messages.db")
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        await serve_conversations(GraphMessages(saver))


asyncio.run(main())
