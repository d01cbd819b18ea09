"""Programs that die in the middle of a unit of work on sessions."""

from __future__ import annotations

import asyncio
import os
import sys

from agent_runtime.session.direct_session_store import open_session_store
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.storage.message_tree import MessageTree


def _die_after(method: str) -> None:
    write = getattr(MessageTree, method)

    async def dying(*args: object, **kwargs: object) -> None:
        await write(*args, **kwargs)
        os._exit(9)

    setattr(MessageTree, method, dying)


async def main(directory: str, operation: str, session_id: str, message_id: str) -> None:
    """Fork or split a session, and die before the transaction ends."""
    manager = SessionManager.create(await open_session_store(directory))
    if operation == "fork":
        # The copy is made in several parts; one of them is done.
        _die_after("copy_part")
        await manager.fork(session_id, message_id, "fork", operation_key="once")
    else:
        _die_after("append")
        await manager.compact_and_split(session_id, "Summary", operation_key="once")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
