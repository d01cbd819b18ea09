"""Processes of a benchmark: started with their output in a file, ended by their id."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

READY = "READY"
_START_SECONDS = 60.0
_STOP_SECONDS = 15.0


class ChildProcess:
    """A Python module of ours as a process of its own.

    Its output goes to a file: Temporal's native core writes there too, and a full pipe would block
    the process.
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    async def wait_ready(self) -> None:
        """Return once the process has printed READY.

        Raises:
            RuntimeError: It ended or took too long; shows the end of its log.
        """
        deadline = time.monotonic() + _START_SECONDS
        while READY not in self.log.read_text(errors="replace"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.log}: {self.log.read_text(errors='replace')[-3000:]}")
            await asyncio.sleep(0.01)

    def terminate(self) -> None:
        """Ask the process to end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    async def wait_ended(self, seconds: float = _STOP_SECONDS) -> bool:
        """Wait for the end; kill the process and return False if it takes too long."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                self.kill()
                return False
            await asyncio.sleep(0.002)
        return True

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    async def stop(self) -> None:
        """Ask the process to end and wait for it."""
        self.terminate()
        await self.wait_ended()
