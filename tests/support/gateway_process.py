"""A gateway in a process of its own, to be killed; run with `python -m`."""

from __future__ import annotations

import argparse
import asyncio
import signal
from datetime import timedelta
from pathlib import Path

from agent_runtime.client import AgentClient
from agent_runtime.registry import load_agents
from tests.support.child_process import ChildProcess
from tests.support.gateway_server import GatewayServer, free_port

HEARTBEAT = timedelta(seconds=0.3)


class GatewayProcess(ChildProcess):
    """Gateways on one port."""

    def __init__(self, module: str, *, address: str, data_dir: Path, task_queue: str) -> None:
        self.port = free_port()
        arguments = [module, address, str(data_dir), task_queue, str(self.port)]
        log = data_dir.parent / f"gateway-{self.port}.log"
        super().__init__("tests.support.gateway_process", arguments, log)

    @property
    def host(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"


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
