"""A program of the tests in a process of its own, started again and again and ended at will."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.eventually import assert_eventually

ROOT = Path(__file__).parents[2]


class ChildProcess:
    """Starts a module that prints READY when it serves, and ends it, kindly or not.

    The module is to end when its stdin does.

    Args:
        environment: Variables beside those of this process.
    """

    def __init__(
        self,
        module: str,
        arguments: list[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def log(self) -> str:
        """What all processes so far have printed."""
        return self._log.read_text(errors="replace")

    async def start(self) -> None:
        """Start a process and wait until it serves."""
        self.starts += 1
        self._launch()
        await assert_eventually(self._is_ready, seconds=90)

    async def kill(self) -> None:
        """End the process at once, as the kernel would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask the process to stop."""
        await self._end(signal.SIGTERM)

    def _launch(self) -> None:
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                # Ours to hold: when this process dies, however, it sees the end of it and stops.
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env=self._environment,
            )

    async def _is_ready(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"the process died: {self.log[-3000:]}")
        assert self.log.count("READY") >= self.starts

    async def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            await asyncio.to_thread(process.wait, 90)
            assert process.stdin is not None
            process.stdin.close()
