"""`agent-runtime worker`: serve agents on any Temporal until a signal comes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from agent_runtime.commands import options
from agent_runtime.commands.access import Target
from agent_runtime.commands.serving import (
    announce,
    leave,
    load_modules,
    stop_on_end_of_stdin,
    stop_on_signals,
)
from agent_runtime.log_setup import set_up_logging

if TYPE_CHECKING:
    from agent_runtime.config import Settings

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


async def _serve(
    target: Target, settings: Settings, modules: list[str], *, is_tethered: bool
) -> None:
    from agent_runtime.runtime import AgentRuntime

    stop = stop_on_signals()
    if is_tethered:
        stop_on_end_of_stdin(stop)
    agents = load_modules(modules)
    runtime = await AgentRuntime.start(
        agents,
        data_dir=settings.data_dir,
        address=target.address,
        namespace=target.namespace,
        task_queue=settings.task_queue,
        retention=settings.retention(),
        max_cached_agents=settings.max_cached_agents,
        max_handlers=settings.max_handlers,
        entity=settings.entity_run(),
        timeout=settings.call_timeout,
        grace=settings.shutdown_grace,
    )
    service = runtime.client.temporal.service_client.config
    names = ",".join(sorted({agent.__name__ for agent in agents}))
    facts = {
        "agents": names,
        "task_queue": settings.task_queue,
        "temporal": service.target_host,
        "namespace": runtime.client.temporal.namespace,
        "data_dir": settings.data_dir,
    }
    announce(facts)
    serving = asyncio.create_task(runtime.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    logger.info("stopping")
    limit = settings.shutdown_grace_seconds + _HARD_STOP_EXTRA_SECONDS
    try:
        async with asyncio.timeout(limit):
            await runtime.stop()
    except TimeoutError:
        # Safe: whatever was not acknowledged is repeated with the same keys.
        logger.error("the worker did not stop within %g s; leaving at once", limit)
        leave(1)
    await serving
    # All is stored and closed; a plain method that still blocks its thread must not hold us up.
    leave(0)
