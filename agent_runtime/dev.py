"""Everything on one machine: a Temporal development server and a supervised worker process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_runtime.commands.worker import READY
from agent_runtime.errors import ConfigurationError, TemporalUnreachableError
from agent_runtime.storage.sqlite import FILE_NAME
from agent_runtime.temporal_server import HOST, TemporalServer, free_port, is_port_free

WORKER_LOG = "worker.log"
LOCK = "dev.lock"

_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 30.0
_SOUND_SECONDS = 30.0
_STOP_SECONDS = 15.0
_SERVER_CHECK_SECONDS = 0.25
_USAGE_CODE = 2

Say = Callable[[str], None]


class WorkerSupervisor:
    """A worker process that is started again whenever it ends.

    The pause before a new start doubles from 0.2 s up to 30 s, and is short again once a worker has
    run for 30 s.

    Args:
        command: The worker's command line.
        log: Where its output goes.
        say: Told what happens, and each line of output.
    """

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], log: Path, say: Say
    ) -> None:
        self._command = command
        self._environment = environment
        self._log = log
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self.ready = asyncio.Event()
        self.ready_line = ""

    @property
    def pid(self) -> int | None:
        """The worker's process, while it runs."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Keep a worker running until `stop`.

        Raises:
            ConfigurationError: The first worker refused what it was given; it has said why.
        """
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_stopping:
            started = time.monotonic()
            code = await self._run_once()
            if self._is_stopping:
                return
            if code == _USAGE_CODE and not self.ready.is_set():
                raise ConfigurationError("the worker cannot start; its message is above")
            if time.monotonic() - started > _SOUND_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            self._say(
                f"the worker {_ending(code)}; starting it again in {pause:g} s (log {self._log})"
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def stop(self) -> None:
        """End the worker in order; kill it if it takes too long."""
        self._is_stopping = True
        process = self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """End the worker at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _run_once(self) -> int:
        # Its stdin is ours to hold: when we die, however, it sees the end of it and stops.
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
            limit=16 * 1024 * 1024,
        )
        self._process = process
        try:
            assert process.stdout is not None
            with self._log.open("ab", buffering=0) as log:
                async for line in process.stdout:
                    log.write(line)
                    self._show(line.decode(errors="replace").rstrip())
            return await process.wait()
        finally:
            self._process = None

    def _show(self, line: str) -> None:
        if line.startswith(f"{READY} "):
            self.ready_line = line
            self.ready.set()
            self._say(f"worker {self.pid} is ready")
        else:
            self._say(f"worker | {line}")


class DevSession:
    """One `agent-runtime dev`: a server, a worker, and the data directory that they use.

    Args:
        port: Of Temporal; 0 takes a free one.
        ui_port: Of Temporal's web page; 0 takes a free one.
        say: Told what happens.
    """

    def __init__(
        self,
        modules: Sequence[str],
        data_dir: Path,
        task_queue: str,
        *,
        port: int,
        ui_port: int,
        say: Say,
    ) -> None:
        self._check_port(port, "--port")
        self._check_port(ui_port, "--ui-port")
        self.data_dir = data_dir
        self._say = say
        self.server = TemporalServer(
            data_dir, port=port or free_port(), ui_port=ui_port or free_port()
        )
        command = [sys.executable, "-m", "agent_runtime.cli", "worker", *modules, "--tethered"]
        command += ["--data-dir", str(data_dir), "--address", self.server.address]
        command += ["--namespace", "default", "--task-queue", task_queue]
        self.worker = WorkerSupervisor(command, _local_environment(), data_dir / WORKER_LOG, say)

    async def run(self, stop: asyncio.Event) -> None:
        """Run both until `stop`; the server too is started again when it ends.

        Raises:
            ConfigurationError: A port is taken, or the worker refused what it was given.
            TemporalUnreachableError: The server does not come up.
        """
        await self.server.start()
        note_server(self.data_dir, self.server)
        tasks = {
            asyncio.create_task(self.worker.run(), name="worker"),
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
            await self.worker.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.server.stop()

    def kill(self) -> None:
        """End both at once."""
        self.worker.kill()
        if self.server.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.server.pid, signal.SIGKILL)

    async def _announce(self) -> None:
        await self.worker.ready.wait()
        facts = dict(part.split("=", 1) for part in shlex.split(self.worker.ready_line)[1:])
        for line in (
            f"Temporal     {self.server.address}  (log {self.data_dir / 'temporal.log'})",
            f"Temporal UI  http://{HOST}:{self.server.ui_port}",
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


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Keep a second `dev` out of the directory, and end the server that a killed one left behind.

    Raises:
        ConfigurationError: Another one runs, or the directory cannot be made.
    """
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        lock = (data_dir / LOCK).open("a+")
    except OSError as error:
        raise ConfigurationError(
            f"{data_dir} cannot be the data directory: {error.strerror}"
        ) from error
    with lock:
        if not _take_lock(lock.fileno()):
            raise ConfigurationError(
                f"another `agent-runtime dev` uses {data_dir}; stop it, or choose another "
                "directory with --data-dir"
            )
        _end_left_over(data_dir)
        yield
        (data_dir / LOCK).write_text("")


def note_server(data_dir: Path, server: TemporalServer) -> None:
    """Remember the server's process, for `locked` after a crash of ours."""
    (data_dir / LOCK).write_text(json.dumps({"server": server.pid}))


def _take_lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _end_left_over(data_dir: Path) -> None:
    try:
        pid = int(json.loads((data_dir / LOCK).read_text())["server"])
    except (ValueError, KeyError, TypeError):  # empty after an orderly end, or cut short
        return
    # Numbers of processes are given again: make sure that it is the server of this directory.
    if str(data_dir / "temporal.db") not in _command_of(pid):
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _exists(pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def _command_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    with contextlib.suppress(OSError):
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return ""


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _local_environment() -> dict[str, str]:
    """Return our environment without what points to another Temporal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull, "PYTHONUNBUFFERED": "1"}


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
