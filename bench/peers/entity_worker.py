"""The process that serves the hand-written entities.

Two task queues: `QUEUE` with stock options, as one writes it by hand, and `QUEUE-lean` without the
sandbox, as the floor and the prototype run.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.peers.entity import APPLY, Entity
from bench.peers.prototype_store import Operation, PrototypeStore
from bench.support.processes import READY
from bench.support.profiling import profiled


class Activities:
    """The activity of all forms, over one store."""

    def __init__(self, store: PrototypeStore) -> None:
        self._store = store

    @activity.defn(name=APPLY)
    async def apply(self, agent: str, operations: list[Operation]) -> list[int]:
        """Apply operations.

        Idempotency: each operation's key is stored with its effect.
        """
        return await self._store.apply(agent, operations)


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--profile")
    options = parser.parse_args()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = await Client.connect(options.address)
    activities = Activities(PrototypeStore(Path(options.data_dir) / "prototype.db"))
    stock = Worker(
        client, task_queue=options.queue, workflows=[Entity], activities=[activities.apply]
    )
    lean = Worker(
        client,
        task_queue=f"{options.queue}-lean",
        workflows=[Entity],
        activities=[activities.apply],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with stock, lean:
        print(READY, flush=True)
        with profiled(options.profile):
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
