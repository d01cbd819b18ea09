"""`agent-runtime dev`: everything that agents need, on one machine, with one command."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target

if TYPE_CHECKING:
    from agent_runtime.local.dev import DevSession


def dev(
    modules: options.Modules,
    port: Annotated[int, typer.Option(help="Temporal's port; 0 takes a free one.")] = 7233,
    ui_port: Annotated[
        int, typer.Option(help="Port of Temporal's web page; 0 takes a free one.")
    ] = 8233,
    gateway_port: Annotated[
        int | None,
        typer.Option(
            "--gateway-port", help="The gateway's; 0 takes a free one [AGENT_RUNTIME_GATEWAY_PORT]."
        ),
    ] = None,
    static: Annotated[
        Path | None, typer.Option("--static", help="Folder of files to serve beside the agents.")
    ] = None,
    gateway_apart: Annotated[
        bool,
        typer.Option("--gateway-apart", help="Run the gateway in a process of its own."),
    ] = False,
    postgres: Annotated[
        bool,
        typer.Option("--postgres", help="Keep the agents in a PostgreSQL server of their own."),
    ] = False,
    data_dir: options.DataDir = None,
    task_queue: options.TaskQueue = None,
) -> None:
    """Start Temporal, a worker and a gateway for MODULE...; restarts what crashes, until Ctrl-C."""
    from agent_runtime.errors import ConfigurationError
    from agent_runtime.local.dev import DevSession
    from agent_runtime.local.dev_lock import locked

    settings = Target(data_dir=data_dir, task_queue=task_queue).settings()
    if postgres and settings.database_url is not None:
        raise ConfigurationError(
            "--postgres starts a database and AGENT_RUNTIME_DATABASE_URL names another; "
            "leave one of them out"
        )
    directory = settings.data_dir.absolute()
    with locked(directory):
        session = DevSession(
            modules,
            directory,
            settings.task_queue,
            port=port,
            ui_port=ui_port,
            gateway_port=settings.gateway_port if gateway_port is None else gateway_port,
            static_folder=static,
            is_gateway_apart=gateway_apart,
            has_postgres=postgres,
            say=_say,
        )
        asyncio.run(_run(session))


async def _run(session: DevSession) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def arrived(number: int) -> None:
        if stop.is_set():
            session.kill()
            os._exit(128 + number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, arrived, number)
    await session.run(stop)


def _say(line: str) -> None:
    print(line, file=sys.stdout, flush=True)
