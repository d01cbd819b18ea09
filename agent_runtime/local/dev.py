"""Everything on one machine: servers, a worker and a gateway, supervised."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent_runtime.commands.gateway import HOW_TO_INSTALL, can_serve
from agent_runtime.errors import (
    ConfigurationError,
    StorageUnavailableError,
    TemporalUnreachableError,
)
from agent_runtime.local.dev_lock import note_servers
from agent_runtime.local.postgres_server import PostgresServer
from agent_runtime.local.supervisor import ProcessSupervisor, Say
from agent_runtime.local.temporal_server import HOST, TemporalServer, free_port, is_port_free
from agent_runtime.storage.opening import check_client
from agent_runtime.storage.sqlite import FILE_NAME

WORKER_LOG = "worker.log"
GATEWAY_LOG = "gateway.log"

POSTGRES_FOLDER = "postgres"

_SERVER_CHECK_SECONDS = 0.25
_RESTART_SECONDS = 20.0


class DevSession:
    """One `agent-runtime dev`: a server, a worker, a gateway, and the data that they share.

    The gateway runs in the worker's process, where it reaches the agents by short ways.

    Args:
        port: Of Temporal; 0 takes a free one.
        ui_port: Of Temporal's web page; 0 takes a free one.
        gateway_port: 0 takes a free one.
        say: Told what happens.
        static_folder: Files that the gateway serves too.
        is_gateway_apart: Give the gateway a process of its own, as it has in production.
        has_postgres: Keep the agents in a PostgreSQL server of their own, in place of a file.
    """

    def __init__(
        self,
        modules: Sequence[str],
        data_dir: Path,
        task_queue: str,
        *,
        port: int,
        ui_port: int,
        gateway_port: int,
        say: Say,
        static_folder: Path | None = None,
        is_gateway_apart: bool = False,
        has_postgres: bool = False,
    ) -> None:
        self._check_port(port, "--port")
        self._check_port(ui_port, "--ui-port")
        self._check_port(gateway_port, "--gateway-port")
        self.data_dir = data_dir
        self._say = say
        self.postgres = PostgresServer(data_dir / POSTGRES_FOLDER) if has_postgres else None
        self.server = TemporalServer(
            data_dir, port=port or free_port(), ui_port=ui_port or free_port()
        )
        place = ["--tethered", "--data-dir", str(data_dir), "--address", self.server.address]
        place += ["--namespace", "default", "--task-queue", task_queue]
        # A port of its own choice would be another one after each crash.
        serve = ["gateway", *modules, *place, "--host", HOST]
        serve += ["--port", str(gateway_port or free_port())]
        if static_folder is not None:
            serve += ["--static", str(static_folder.absolute())]
        is_joint = can_serve() and not is_gateway_apart
        work = [*serve, "--with-worker"] if is_joint else ["worker", *modules, *place]
        self.worker = self._child("worker", work, WORKER_LOG)
        self.gateway: ProcessSupervisor | None = None
        if can_serve() and is_gateway_apart:
            self.gateway = self._child("gateway", serve, GATEWAY_LOG)

    @property
    def _children(self) -> list[ProcessSupervisor]:
        return [child for child in (self.worker, self.gateway) if child is not None]

    def _child(self, name: str, arguments: list[str], log: str) -> ProcessSupervisor:
        command = [sys.executable, "-m", "agent_runtime.cli", *arguments]
        environment = _local_environment()
        if self.postgres is not None:
            environment["AGENT_RUNTIME_DATABASE_URL"] = self.postgres.url()
        return ProcessSupervisor(name, command, environment, self.data_dir / log, self._say)

    async def run(self, stop: asyncio.Event) -> None:
        """Run all until `stop`; the servers too are started again when they end.

        Raises:
            ConfigurationError: A port is taken, a program is missing, or a child refused what it
                was given.
            StorageError: The PostgreSQL server does not come up, or its schema is of a newer
                release.
            TemporalUnreachableError: The Temporal server does not come up.
        """
        try:
            await self._start_postgres()
            await self._run(stop)
        finally:
            if self.postgres is not None:
                await self.postgres.stop()

    async def _start_postgres(self) -> None:
        if self.postgres is None:
            return
        check_client()
        from agent_runtime.storage.postgres_migrations import migrate

        await self.postgres.start()
        self._note_servers()
        await migrate(self.postgres.url())

    async def _run(self, stop: asyncio.Event) -> None:
        await self.server.start()
        self._note_servers()
        tasks = {
            *(asyncio.create_task(child.run(), name=child.name) for child in self._children),
            asyncio.create_task(self._announce(), name="announce"),
            asyncio.create_task(self._watch_servers(), name="servers"),
            asyncio.create_task(stop.wait(), name="stop"),
        }
        try:
            pending = tasks
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                if any(task.get_name() != "announce" for task in done):
                    return
        finally:
            self._say("stopping")
            await asyncio.gather(*(child.stop() for child in self._children))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.server.stop()

    def kill(self) -> None:
        """End all at once."""
        for child in self._children:
            child.kill()
        _kill(self.server.pid, signal.SIGKILL)
        if self.postgres is not None:
            # Killed it would leave its own children behind.
            _kill(self.postgres.pid, signal.SIGQUIT)

    async def _announce(self) -> None:
        await asyncio.gather(*(child.ready.wait() for child in self._children))
        facts = {name: fact for child in self._children for name, fact in _facts(child).items()}
        for line in (
            f"Temporal     {self.server.address}  (log {self.data_dir / 'temporal.log'})",
            f"Temporal UI  http://{HOST}:{self.server.ui_port}",
            f"gateway      {facts.get('gateway', f'none: {HOW_TO_INSTALL}')}",
            f"data         {self._place_of_data(facts)}",
            f"agents       {facts['agents']}",
            f"task queue   {facts['task_queue']}",
            f"worker log   {self.data_dir / WORKER_LOG}",
            "Ctrl-C stops everything; after a change of your code start it again",
        ):
            self._say(line)

    def _place_of_data(self, facts: dict[str, str]) -> str:
        if self.postgres is not None:
            return f"{self.postgres.url()}  (log {self.postgres.data_dir / 'postgres.log'})"
        return facts.get("database") or str(self.data_dir / FILE_NAME)

    async def _watch_servers(self) -> None:
        while True:
            await asyncio.sleep(_SERVER_CHECK_SECONDS)
            if not self.server.is_running():
                await self._restart_temporal()
            if self.postgres is not None and not self.postgres.is_running():
                await self._restart_postgres(self.postgres)

    async def _restart_temporal(self) -> None:
        log = self.data_dir / "temporal.log"
        self._say(f"the Temporal server died; starting it again (log {log})")
        await self.server.stop()
        try:
            await self.server.start()
        except ConfigurationError as error:
            raise TemporalUnreachableError(
                f"the Temporal server died and cannot be started again: {error.message}"
            ) from error
        self._note_servers()
        self._say(f"the Temporal server answers again at {self.server.address}")

    async def _restart_postgres(self, postgres: PostgresServer) -> None:
        log = postgres.data_dir / "postgres.log"
        self._say(f"the PostgreSQL server died; starting it again (log {log})")
        await postgres.stop()
        deadline = time.monotonic() + _RESTART_SECONDS
        while not postgres.is_running():
            try:
                await postgres.start()
            except StorageUnavailableError:
                # Its former children may take a moment to notice that they are alone.
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(_SERVER_CHECK_SECONDS)
        self._note_servers()
        self._say(f"the PostgreSQL server answers again at {postgres.url()}")

    def _note_servers(self) -> None:
        postgres = None if self.postgres is None else self.postgres.pid
        note_servers(self.data_dir, temporal=self.server.pid, postgres=postgres)

    def _check_port(self, port: int, option: str) -> None:
        if port and not is_port_free(port):
            is_temporals = option == "--port"
            server = "if a Temporal server runs there already, use it with `agent-runtime worker`"
            hint = f"{server}, else " if is_temporals else ""
            raise ConfigurationError(
                f"port {port} is in use; {hint}choose another with {option} (0 takes a free one)",
                port=port,
            )


def _kill(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _facts(child: ProcessSupervisor) -> dict[str, str]:
    return dict(part.split("=", 1) for part in shlex.split(child.ready_line)[1:])


def _local_environment() -> dict[str, str]:
    """Return our environment without what points to another Temporal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull, "PYTHONUNBUFFERED": "1"}
