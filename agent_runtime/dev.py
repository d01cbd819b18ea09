"""Everything on one machine: a Temporal development server, a worker and a gateway, supervised."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_runtime.commands.gateway import HOW_TO_INSTALL, can_serve
from agent_runtime.dev_lock import note_server
from agent_runtime.errors import ConfigurationError, TemporalUnreachableError
from agent_runtime.storage.sqlite import FILE_NAME
from agent_runtime.supervisor import ProcessSupervisor, Say
from agent_runtime.temporal_server import HOST, TemporalServer, free_port, is_port_free

WORKER_LOG = "worker.log"
GATEWAY_LOG = "gateway.log"

_SERVER_CHECK_SECONDS = 0.25


class DevSession:
    """One `agent-runtime dev`: a server, a worker, a gateway, and the data that they share.

    Args:
        port: Of Temporal; 0 takes a free one.
        ui_port: Of Temporal's web page; 0 takes a free one.
        gateway_port: 0 takes a free one.
        say: Told what happens.
        static_folder: Files that the gateway serves too.
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
    ) -> None:
        self._check_port(port, "--port")
        self._check_port(ui_port, "--ui-port")
        self._check_port(gateway_port, "--gateway-port")
        self.data_dir = data_dir
        self._say = say
        self.server = TemporalServer(
            data_dir, port=port or free_port(), ui_port=ui_port or free_port()
        )
        place = ["--tethered", "--data-dir", str(data_dir), "--address", self.server.address]
        place += ["--namespace", "default", "--task-queue", task_queue]
        self.worker = self._child("worker", [*modules, *place], WORKER_LOG)
        self.gateway: ProcessSupervisor | None = None
        if can_serve():
            # A port of its own choice would be another one after each crash.
            listening = ["--host", HOST, "--port", str(gateway_port or free_port())]
            if static_folder is not None:
                listening += ["--static", str(static_folder.absolute())]
            self.gateway = self._child("gateway", [*modules, *place, *listening], GATEWAY_LOG)

    @property
    def _children(self) -> list[ProcessSupervisor]:
        return [child for child in (self.worker, self.gateway) if child is not None]

    def _child(self, name: str, arguments: list[str], log: str) -> ProcessSupervisor:
        command = [sys.executable, "-m", "agent_runtime.cli", name, *arguments]
        return ProcessSupervisor(
            name, command, _local_environment(), self.data_dir / log, self._say
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Run all until `stop`; the server too is started again when it ends.

        Raises:
            ConfigurationError: A port is taken, or a child refused what it was given.
            TemporalUnreachableError: The server does not come up.
        """
        await self.server.start()
        note_server(self.data_dir, self.server)
        tasks = {
            *(asyncio.create_task(child.run(), name=child.name) for child in self._children),
            asyncio.create_task(self._announce(), name="announce"),
            asyncio.create_task(self._watch_server(), name="server"),
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
        if self.server.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.server.pid, signal.SIGKILL)

    async def _announce(self) -> None:
        await asyncio.gather(*(child.ready.wait() for child in self._children))
        facts = _facts(self.worker)
        live = (
            f"none: {HOW_TO_INSTALL}" if self.gateway is None else _facts(self.gateway)["gateway"]
        )
        for line in (
            f"Temporal     {self.server.address}  (log {self.data_dir / 'temporal.log'})",
            f"Temporal UI  http://{HOST}:{self.server.ui_port}",
            f"gateway      {live}",
            f"data         {self.data_dir / FILE_NAME}",
            f"agents       {facts['agents']}",
            f"task queue   {facts['task_queue']}",
            f"worker log   {self.data_dir / WORKER_LOG}",
            "Ctrl-C stops everything; after a change of your code start it again",
        ):
            self._say(line)

    async def _watch_server(self) -> None:
        while True:
            await asyncio.sleep(_SERVER_CHECK_SECONDS)
            if self.server.is_running():
                continue
            log = self.data_dir / "temporal.log"
            self._say(f"the Temporal server died; starting it again (log {log})")
            await self.server.stop()
            await self._restart_server()
            note_server(self.data_dir, self.server)
            self._say(f"the Temporal server answers again at {self.server.address}")

    async def _restart_server(self) -> None:
        try:
            await self.server.start()
        except ConfigurationError as error:
            raise TemporalUnreachableError(
                f"the Temporal server died and cannot be started again: {error.message}"
            ) from error

    def _check_port(self, port: int, option: str) -> None:
        if port and not is_port_free(port):
            raise ConfigurationError(
                f"port {port} is in use; if a Temporal server runs there already, use it with "
                f"`agent-runtime worker`, else choose another with {option} (0 takes a free one)",
                port=port,
            )


def _facts(child: ProcessSupervisor) -> dict[str, str]:
    return dict(part.split("=", 1) for part in shlex.split(child.ready_line)[1:])


def _local_environment() -> dict[str, str]:
    """Return our environment without what points to another Temporal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull, "PYTHONUNBUFFERED": "1"}
