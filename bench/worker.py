"""The product's worker as a process of its own, serving the benchmarks' agents."""

from __future__ import annotations

import argparse
import asyncio
import signal

from agent_runtime.runtime import AgentRuntime
from bench.agents import ALL
from bench.support.processes import READY
from bench.support.profiling import profiled


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--queue", required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--max-cached", type=int, default=2_000)
    parser.add_argument("--profile", help="write a cProfile file at the end")
    options = parser.parse_args()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await AgentRuntime.start(
        ALL,
        data_dir=options.data_dir,
        address=options.address,
        task_queue=options.queue,
        max_cached_agents=options.max_cached,
    ):
        print(READY, flush=True)
        with profiled(options.profile):
            await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
