"""`agent-runtime worker`: serve agents on any Temporal until a signal comes."""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import signal
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target
from agent_runtime.log_setup import set_up_logging

if TYPE_CHECKING:
    from agent_runtime.config import Settings
    from agent_runtime.registry import AgentClass

logger = logging.getLogger("agent_runtime")

READY = "READY"
_HARD_STOP_EXTRA_SECONDS = 5.0


def worker(
    modules: options.Modules,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    tethered: Annotated[
        bool, typer.Option("--tethered", help="Stop when stdin closes, as `dev` asks for.")
    ] = False,
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

    stop = _stop_on_signals()
    if is_tethered:
        _stop_on_end_of_stdin(stop)
    agents = _load(modules)
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
        "pid": os.getpid(),
    }
    print(READY, shlex.join(f"{name}={value}" for name, value in facts.items()), flush=True)
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
        _leave(1)
    await serving
    # All is stored and closed; a plain method that still blocks its thread must not hold us up.
    _leave(0)


def _load(modules: list[str]) -> list[AgentClass]:
    from agent_runtime.registry import load_agents

    return list(dict.fromkeys(agent for module in modules for agent in load_agents(module)))


def _stop_on_signals() -> asyncio.Event:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def arrived(number: int) -> None:
        if stop.is_set():
            _leave(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, arrived, number)
    return stop


def _stop_on_end_of_stdin(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    descriptor = sys.stdin.fileno()

    def readable() -> None:
        if not os.read(descriptor, 4096):
            loop.remove_reader(descriptor)
            stop.set()

    try:
        loop.add_reader(descriptor, readable)
    except PermissionError:  # a file or /dev/null, which has ended already
        stop.set()


def _leave(code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
