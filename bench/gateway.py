"""The product's gateway as a process of its own, beside the worker of the same agents."""

from __future__ import annotations

import argparse
import asyncio

import uvicorn

from agent_runtime.client import AgentClient
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.registry import AgentRegistry
from bench.agents import ALL
from bench.support.gateway_port import serve_until_term


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("--address", "--queue", "--data-dir"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    async with await AgentClient.connect(
        options.address, task_queue=options.queue, data_dir=options.data_dir
    ) as client:
        app = build_app(Gateway(client, AgentRegistry(ALL)))
        await serve_until_term(uvicorn.Config(app, port=options.port))


if __name__ == "__main__":
    asyncio.run(main())
