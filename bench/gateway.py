"""The product's gateway as a process of its own: beside a worker of the same agents, or with it."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack

import uvicorn

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.gateway.app import build_app
from agent_runtime.gateway.gateway import Gateway
from agent_runtime.registry import AgentRegistry
from agent_runtime.runtime import AgentRuntime
from bench.agents import ALL
from bench.support.gateway_port import serve_until_term


async def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    for name in ("--address", "--queue", "--data-dir"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--with-worker", action="store_true")
    options = parser.parse_args()
    place = {"task_queue": options.queue, "data_dir": options.data_dir}
    async with AsyncExitStack() as stack:
        if options.with_worker:
            runtime = await AgentRuntime.start(ALL, address=options.address, **place)
            client = (await stack.enter_async_context(runtime)).client
        else:
            client = await stack.enter_async_context(
                await AgentClient.connect(options.address, **place)
            )
        app = build_app(Gateway(client, AgentRegistry(ALL)))
        await serve_until_term(uvicorn.Config(app, port=options.port))


if __name__ == "__main__":
    asyncio.run(main())
