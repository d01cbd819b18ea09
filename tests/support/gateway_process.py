"""A gateway in a process of its own, to be killed; run with `python -m`."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from agent_runtime.client import AgentClient
from agent_runtime.registry import load_agents
from tests.support.eventually import assert_eventually
from tests.support.gateway_server import GatewayServer, free_port

ROOT = Path(__file__).parents[2]
HEARTBEAT = timedelta(seconds=0.3)


class GatewayProcess:
    """Starts gateways on one port and ends them, kindly or not."""

    def __init__(self, module: str, *, address: str, data_dir: Path, task_queue: str) -> None:
        self.port = free_port()
        self._arguments = [module, address, str(data_dir), task_queue, str(self.port)]
        self._log = data_dir.parent / f"gateway-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    @property
    def host(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start a gateway and wait until it serves."""
        self._starts += 1
        self._launch()
        await assert_eventually(self._is_ready, seconds=30)

    async def kill(self) -> None:
        """End the gateway at once, as the kernel would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask the gateway to stop."""
        await self._end(signal.SIGTERM)

    def _launch(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.gateway_process", *self._arguments],
                stdout=output,
                stderr=output,
                cwd=ROOT,
            )

    async def _is_ready(self) -> None:
        assert self._process is not None
        log = self._log.read_text(errors="replace")
        if self._process.poll() is not None:
            raise RuntimeError(f"the gateway died: {log[-3000:]}")
        assert log.count("READY") >= self._starts

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            await asyncio.to_thread(process.wait, 30)


async def _serve(module: str, address: str, data_dir: str, task_queue: str, port: int) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with (
        await AgentClient.connect(address, data_dir=data_dir, task_queue=task_queue) as client,
        GatewayServer(client, load_agents(module), port=port, heartbeat=HEARTBEAT),
    ):
        print("READY", flush=True)
        await stopping.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("module", "address", "data_dir", "task_queue"):
        parser.add_argument(name)
    parser.add_argument("port", type=int)
    asyncio.run(_serve(**vars(parser.parse_args())))
