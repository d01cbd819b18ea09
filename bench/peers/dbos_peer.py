# mypy: disable-error-code="import-not-found,untyped-decorator,import-untyped"
"""DBOS doing the job: a workflow with one step that writes SQLite. Runs in DBOS's environment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from dbos import DBOS, SetWorkflowID

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.peer_line import serve_lines
from bench.peers.prototype_store import PrototypeStore

FOLDER = Path(sys.argv[1])
STORE = PrototypeStore(FOLDER / "dbos-application.db")


@DBOS.step()
async def apply(agent: str, key: str) -> int:
    """Increment the agent's counter."""
    return (await STORE.apply(agent, [{"id": key, "by": 1}]))[0]


@DBOS.workflow()
async def increment(agent: str, key: str) -> int:
    """Increment durably."""
    return int(await apply(agent, key))


async def call(agent: str, key: str) -> int:
    """Run the workflow under an idempotency key."""
    with SetWorkflowID(key):
        return int(await increment(agent, key))


async def main() -> None:
    """Serve measurements."""
    url = f"sqlite:///{FOLDER / 'dbos-system.db'}"
    DBOS(config={"name": "peer", "system_database_url": url, "log_level": "ERROR"})
    DBOS.launch()
    await serve_lines(call)
    DBOS.destroy()


asyncio.run(main())
