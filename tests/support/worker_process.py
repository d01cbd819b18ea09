"""A worker in a process of its own, to be killed: `python -m tests.support.worker_process ...`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from agent_runtime.commands.serving import stop_on_end_of_stdin
from agent_runtime.registry import load_agents
from agent_runtime.runtime import AgentRuntime
from tests.support.child_process import ChildProcess


class WorkerProcess(ChildProcess):
    """Workers on one data directory."""

    def __init__(
        self,
        module: str,
        *,
        address: str,
        data_dir: Path,
        task_queue: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        arguments = [module, address, str(data_dir), task_queue]
        log = data_dir.parent / f"{task_queue}.log"
        super().__init__("tests.support.worker_process", arguments, log, environment)


async def _serve(module: str, address: str, data_dir: str, task_queue: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    stop_on_end_of_stdin(stopping)
    async with await AgentRuntime.start(
        load_agents(module), data_dir=data_dir, address=address, task_queue=task_queue
    ):
        print(f"READY {os.getpid()}", flush=True)
        await stopping.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("module", "address", "data_dir", "task_queue"):
        parser.add_argument(name)
    asyncio.run(_serve(**vars(parser.parse_args())))
