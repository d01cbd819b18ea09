"""A gateway in a process of its own, to be killed; run with `python -m`."""

from __future__ import annotations

import argparse
import asyncio
import signal
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.commands.serving import stop_on_end_of_stdin
from agent_runtime.local.temporal_server import free_port
from agent_runtime.registry import load_agents
from agent_runtime.runtime import AgentRuntime
from tests.support.child_process import ChildProcess
from tests.support.gateway_server import GatewayServer

HEARTBEAT = timedelta(seconds=0.3)


class GatewayProcess(ChildProcess):
    """Gateways on one port.

    Args:
        has_worker: Each runs the agents too.
    """

    def __init__(
        self,
        module: str,
        *,
        address: str,
        data_dir: Path,
        task_queue: str,
        has_worker: bool = False,
    ) -> None:
        self.port = free_port()
        arguments = [module, address, str(data_dir), task_queue, str(self.port)]
        log = data_dir.parent / f"gateway-{self.port}.log"
        if has_worker:
            arguments.append("--has-worker")
        super().__init__("tests.support.gateway_process", arguments, log)

    @property
    def host(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"


async def _serve(
    module: str, address: str, data_dir: str, task_queue: str, port: int, has_worker: bool
) -> None:
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    stop_on_end_of_stdin(stopping)
    agents = load_agents(module)
    async with AsyncExitStack() as stack:
        if has_worker:
            runtime = await AgentRuntime.start(
                agents, data_dir=data_dir, address=address, task_queue=task_queue
            )
            client = (await stack.enter_async_context(runtime)).client
        else:
            client = await stack.enter_async_context(
                await AgentClient.connect(address, data_dir=data_dir, task_queue=task_queue)
            )
        await stack.enter_async_context(
            GatewayServer(client, agents, port=port, has_api=True, heartbeat=HEARTBEAT)
        )
        print("READY", flush=True)
        await stopping.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("module", "address", "data_dir", "task_queue"):
        parser.add_argument(name)
    parser.add_argument("port", type=int)
    parser.add_argument("--has-worker", action="store_true")
    asyncio.run(_serve(**vars(parser.parse_args())))
