"""A process of its own that writes an agent's state many times: `python -m ... DIR NAME COUNT`."""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from agent_runtime.identity import AgentRef
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.storage_bench import put_one


async def write_rows(data_dir: str, name: str, count: int) -> None:
    """Open the directory and commit `count` states of agent Room/`name`, some together."""
    storage = await SqliteStorage.open(data_dir)
    try:
        for start in range(0, count, 4):
            units = [
                partial(put_one, ref=AgentRef("Room", name), value=str(number))
                for number in range(start, min(start + 4, count))
            ]
            await asyncio.gather(*(storage.write(unit) for unit in units))
    finally:
        await storage.close()


if __name__ == "__main__":
    asyncio.run(write_rows(sys.argv[1], sys.argv[2], int(sys.argv[3])))
