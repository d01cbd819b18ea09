# mypy: disable-error-code="import-not-found,untyped-decorator,import-untyped"
"""Restate's side of the job: a virtual object that writes SQLite. Runs in Restate's environment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import restate
from hypercorn.asyncio import serve
from hypercorn.config import Config

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.peers.prototype_store import PrototypeStore

_UNLIMITED = 2**31 - 1
STORE: PrototypeStore
counter = restate.VirtualObject("Counter")


@counter.handler()
async def increment(context: restate.ObjectContext, key: str) -> int:
    """Increment the object's counter once per key."""
    name = context.key()

    async def apply() -> int:
        return (await STORE.apply(name, [{"id": key, "by": 1}]))[0]

    return int(await context.run_typed("apply", apply))


async def main(folder: str, port: str) -> None:
    """Serve until killed."""
    global STORE
    STORE = PrototypeStore(Path(folder) / "restate-application.db")
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "ERROR"
    # With the default of 1,000 requests per connection Restate meets broken pipes and retries.
    config.keep_alive_max_requests = _UNLIMITED
    config.keep_alive_timeout = _UNLIMITED
    config.h2_max_concurrent_streams = _UNLIMITED
    await serve(restate.app([counter]), config)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
