"""A process of its own that writes to one session: `python -m ... DIR WRITER COUNT`.

It prints a line for each change once that is on disk: `+id` for a message, `-id` for a deletion;
and `?id` before it asks for a deletion.
"""

from __future__ import annotations

import asyncio
import sys

from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.session_bench import CHAT, SessionBench, message
from agent_runtime.testing.storage_bench import StorageBench


async def append_messages(data_dir: str, writer: str, count: int) -> None:
    """Append messages, three at a time; update the second, now and then delete the third."""
    storage = await SqliteStorage.open(data_dir)

    async def opened() -> SqliteStorage:
        return storage

    chat = SessionBench(StorageBench(opened, storage), CHAT)
    try:
        for start in range(0, count, 3):
            names = [f"{writer}-{number}" for number in range(start, min(start + 3, count))]
            await asyncio.gather(*(_append(chat, name) for name in names))
            if len(names) > 1:
                await chat.update(message(names[1], "changed " * (start % 7), tokens=start))
            if start % 9 == 0 and len(names) > 2:
                print(f"?{names[2]}", flush=True)
                await chat.delete(names[2])
                print(f"-{names[2]}", flush=True)
    finally:
        await storage.close()


async def _append(chat: SessionBench, name: str) -> None:
    [result] = await chat.append(message(name, f"{name} says something"))
    assert result.is_inserted
    print(f"+{name}", flush=True)


if __name__ == "__main__":
    asyncio.run(append_messages(sys.argv[1], sys.argv[2], int(sys.argv[3])))
