"""`agent-runtime worker`: serve agents on any Temporal until a signal comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent_runtime.commands import options
from agent_runtime.commands.access import Target
from agent_runtime.commands.serving import (
    announce,
    first_to_end,
    leave,
    load_modules,
    stop_on_end_of_stdin,
    stop_on_signals,
)
from agent_runtime.log_setup import set_up_logging

if TYPE_CHECKING:
    from agent_runtime.config import Settings
    from agent_runtime.registry import AgentClass
    from agent_runtime.runtime import AgentRuntime

logger = logging.getLogger("agent_runtime")

_HARD_STOP_EXTRA_SECONDS = 5.0


def worker(
    modules: options.Modules,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    tethered: options.Tethered = False,
) -> None:
    """Serve the agents of MODULE... until SIGTERM or Ctrl-C; a second one exits at once."""
    target = Target(data_dir, address, namespace, task_queue)
    settings = target.settings()
    set_up_logging(settings.log_level, settings.log_format)
    asyncio.run(_serve(target, settings, modules, is_tethered=tethered))


@asynccontextmanager
async def running_worker(
    target: Target, settings: Settings, agents: Sequence[AgentClass]
) -> AsyncIterator[AgentRuntime]:
    """Serve agents; a worker that cannot stop in time takes the process with it."""
    from agent_runtime.runtime import AgentRuntime

    runtime = await AgentRuntime.start(
        agents,
        storage=await settings.open_storage(),
        address=target.address,
        namespace=target.namespace,
        task_queue=settings.task_queue,
        retention=settings.retention(),
        max_cached_agents=settings.max_cached_agents,
        max_handlers=settings.max_handlers,
        entity=settings.entity_run(),
        timeout=settings.call_timeout,
        grace=settings.shutdown_grace,
        model=settings.chat_model(),
    )
    try:
        yield runtime
    finally:
        limit = settings.shutdown_grace_seconds + _HARD_STOP_EXTRA_SECONDS
        try:
            async with asyncio.timeout(limit):
                await runtime.stop()
        except TimeoutError:
            # Safe: whatever was not acknowledged is repeated with the same keys.
            logger.error("the worker did not stop within %g s; leaving at once", limit)
            leave(1)


async def _serve(
    target: Target, settings: Settings, modules: list[str], *, is_tethered: bool
) -> None:
    stop = stop_on_signals()
    if is_tethered:
        stop_on_end_of_stdin(stop)
    agents = load_modules(modules)
    async with running_worker(target, settings, agents) as runtime:
        announce(
            {
                "agents": ",".join(sorted({agent.__name__ for agent in agents})),
                "task_queue": settings.task_queue,
                "temporal": runtime.client.temporal.service_client.config.target_host,
                "namespace": runtime.client.temporal.namespace,
                **settings.database_fact(),
            }
        )
        serving = asyncio.create_task(runtime.run())
        await first_to_end(stop, serving)
        logger.info("stopping")
    await serving
    # All is stored and closed; a plain method that still blocks its thread must not hold us up.
    leave(0)
