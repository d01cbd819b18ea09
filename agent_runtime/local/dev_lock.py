"""One `agent-runtime dev` per data directory, and nothing left behind by a killed one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_runtime.errors import ConfigurationError

LOCK = "dev.lock"

# What the command line of each server has after the data directory, and what ends it in order.
_SERVERS = {
    "temporal": ("temporal.db", signal.SIGTERM),
    "postgres": ("postgres/cluster", signal.SIGINT),
}
_STOP_SECONDS = 15.0


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Keep a second `dev` out of the directory, and end the servers that a killed one left behind.

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


def note_servers(data_dir: Path, *, temporal: int | None, postgres: int | None) -> None:
    """Remember the servers' processes, for `locked` after a crash of ours."""
    (data_dir / LOCK).write_text(json.dumps({"temporal": temporal, "postgres": postgres}))


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
        noted = dict(json.loads((data_dir / LOCK).read_text()))
    except (ValueError, TypeError):  # empty after an orderly end, or cut short
        return
    deadline = time.monotonic() + _STOP_SECONDS
    for name, (place, number) in _SERVERS.items():
        pid = noted.get(name)
        # Numbers of processes are given again: make sure that it is the server of this directory.
        if not isinstance(pid, int) or str(data_dir / place) not in _command_of(pid):
            continue
        os.kill(pid, number)
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
