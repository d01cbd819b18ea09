"""A worker in a process of its own, to be killed: `python -m tests.support.worker_process ...`."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from agent_runtime.registry import load_agents
from agent_runtime.runtime import AgentRuntime
from tests.support.eventually import assert_eventually

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """Starts workers on one data directory and ends them, kindly or not."""

    def __init__(self, module: str, *, address: str, data_dir: Path, task_queue: str) -> None:
        self._arguments = [module, address, str(data_dir), task_queue]
        self._log = data_dir.parent / f"{task_queue}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def log(self) -> str:
        """What all workers so far have printed."""
        return self._log.read_text(errors="replace")

    async def start(self) -> None:
        """Start a worker and wait until it serves."""
        self.starts += 1
        self._launch()
        await assert_eventually(self._is_ready, seconds=30)

    async def kill(self) -> None:
        """End the worker at once, as the kernel would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask the worker to stop."""
        await self._end(signal.SIGTERM)

    def _launch(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.worker_process", *self._arguments],
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )

    async def _is_ready(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the worker died: {self.log[-3000:]}")
        assert self.log.count("READY") >= self.starts

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            await asyncio.to_thread(process.wait, 30)


async def _serve(module: str, address: str, data_dir: str, task_queue: str) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
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
