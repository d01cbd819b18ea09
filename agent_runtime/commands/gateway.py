"""`agent-runtime gateway`: live clients and the HTTP API, until a signal comes."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
from agent_runtime.commands.worker import running_worker
from agent_runtime.log_setup import set_up_logging

if TYPE_CHECKING:
    from agent_runtime.client.agent_client import AgentClient
    from agent_runtime.config import Settings

logger = logging.getLogger("agent_runtime")

NEEDED = ("starlette", "uvicorn", "websockets")
HOW_TO_INSTALL = 'pip install "temporal-agent-runtime[gateway]"'


def gateway(
    modules: options.Modules,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Address to listen on [AGENT_RUNTIME_GATEWAY_HOST]."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", help="Port; 0 takes a free one [AGENT_RUNTIME_GATEWAY_PORT]."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-origin",
            help="Let pages of this origin in; may be repeated [AGENT_RUNTIME_GATEWAY_ORIGINS].",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            help="Lines of `full TOKEN` or `readonly TOKEN` [AGENT_RUNTIME_GATEWAY_TOKEN_FILE].",
        ),
    ] = None,
    static: Annotated[
        Path | None, typer.Option("--static", help="Folder of files to serve beside the agents.")
    ] = None,
    with_worker: Annotated[
        bool,
        typer.Option("--with-worker", help="Run the agents in this process too, with short ways."),
    ] = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    tethered: options.Tethered = False,
) -> None:
    """Serve live clients of the agents of MODULE... until SIGTERM or Ctrl-C."""
    from agent_runtime.config import load_settings
    from agent_runtime.errors import ConfigurationError

    if not can_serve():
        raise ConfigurationError(f"the gateway needs packages that are missing: {HOW_TO_INSTALL}")
    settings = load_settings(
        data_dir=data_dir,
        task_queue=task_queue,
        gateway_host=host,
        gateway_port=port,
        gateway_token_file=token_file,
        gateway_origins=",".join(allow_origin) if allow_origin else None,
    )
    set_up_logging(settings.log_level, settings.log_format)
    target = Target(data_dir, address, namespace, task_queue)
    asyncio.run(
        _serve(target, settings, modules, static, has_worker=with_worker, is_tethered=tethered)
    )


def can_serve() -> bool:
    """Tell whether the packages of a gateway are installed."""
    return all(importlib.util.find_spec(name) is not None for name in NEEDED)


async def _serve(
    target: Target,
    settings: Settings,
    modules: list[str],
    static: Path | None,
    *,
    has_worker: bool,
    is_tethered: bool,
) -> None:
    from agent_runtime.gateway.access import check_bind
    from agent_runtime.gateway.gateway import Gateway
    from agent_runtime.gateway.server import GatewayServer, listen, url_of
    from agent_runtime.gateway.service import build_service
    from agent_runtime.gateway.settings import limits_of, origins_of, tokens_of
    from agent_runtime.registry import AgentRegistry

    stop = stop_on_signals()
    if is_tethered:
        stop_on_end_of_stdin(stop)
    tokens = tokens_of(settings)
    check_bind(settings.gateway_host, tokens)
    agents = load_modules(modules)
    registry = AgentRegistry(agents)
    listener = listen(settings.gateway_host, settings.gateway_port)
    async with AsyncExitStack() as stack:
        working: list[asyncio.Task[None]] = []
        if has_worker:
            runtime = await stack.enter_async_context(running_worker(target, settings, agents))
            working.append(asyncio.create_task(runtime.run()))
            client = runtime.client
        else:
            client = await stack.enter_async_context(await _connect(target, settings))
        gateway = Gateway(client, registry)
        app = build_service(
            gateway,
            tokens=tokens,
            origins=origins_of(settings),
            limits=limits_of(settings),
            static_folder=static,
        )
        server = GatewayServer(app, max_frame_bytes=settings.gateway_max_frame_bytes)
        serving = asyncio.create_task(server.run(listener))
        await server.wait_until_ready(serving)
        announce(
            {
                "gateway": url_of(listener),
                "agents": ",".join(registry.class_names),
                "task_queue": settings.task_queue,
                "temporal": client.temporal.service_client.config.target_host,
                "namespace": client.temporal.namespace,
                **settings.database_fact(),
            }
        )
        await first_to_end(stop, serving, *working)
        logger.info("stopping")
        # Before the worker, which gives the answers that are under way.
        server.stop()
        await serving
    await asyncio.gather(*working)
    leave(0)


async def _connect(target: Target, settings: Settings) -> AgentClient:
    from agent_runtime.client.agent_client import AgentClient

    return await AgentClient.connect(
        target.address,
        target.namespace,
        data_dir=settings.data_dir,
        database_url=settings.plain_database_url,
        task_queue=settings.task_queue,
        timeout=settings.call_timeout,
        entity=settings.entity_run(),
    )
