"""A process of ours that is started again whenever it ends."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_runtime.commands.serving import READY
from agent_runtime.errors import ConfigurationError

_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 30.0
_SOUND_SECONDS = 30.0
_STOP_SECONDS = 15.0
_USAGE_CODE = 2

Say = Callable[[str], None]


class ProcessSupervisor:
    """A process that is started again whenever it ends.

    The pause before a new start doubles from 0.2 s up to 30 s, and is short again once one has run
    for 30 s.

    Args:
        name: What it is called, "worker" or "gateway".
        command: Its command line; prints a line that begins with READY when it serves.
        log: Where its output goes.
        say: Told what happens, and each line of output.
    """

    def __init__(
        self, name: str, command: Sequence[str], environment: dict[str, str], log: Path, say: Say
    ) -> None:
        self.name = name
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
        """The process, while it runs."""
        return None if self._process is None else self._process.pid

    async def run(self) -> None:
        """Keep the process running until `stop`.

        Raises:
            ConfigurationError: The first one refused what it was given; it has said why.
        """
        pause = _FIRST_PAUSE_SECONDS
        while not self._is_stopping:
            started = time.monotonic()
            code = await self._run_once()
            if self._is_stopping:
                return
            if code == _USAGE_CODE and not self.ready.is_set():
                raise ConfigurationError(f"the {self.name} cannot start; its message is above")
            if time.monotonic() - started > _SOUND_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            self._say(
                f"the {self.name} {_ending(code)}; starting it again in {pause:g} s "
                f"(log {self._log})"
            )
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    async def stop(self) -> None:
        """End the process in order; kill it if it takes too long."""
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
        """End the process at once."""
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
            self._say(f"{self.name} {self.pid} is ready")
        else:
            self._say(f"{self.name} | {line}")


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
