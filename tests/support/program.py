"""Running the program `agent-runtime` as people and scripts do: as a process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = (sys.executable, "-m", "agent_runtime.cli")
UNREACHABLE = "127.0.0.1:1"


@dataclass(frozen=True)
class Ran:
    """What a finished run left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)


def clean_environment(**variables: str) -> dict[str, str]:
    """Return the environment without settings of ours or of Temporal, and with `variables`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGENT_RUNTIME_", "TEMPORAL_"))
    }
    return {**kept, "TEMPORAL_CONFIG_FILE": os.devnull, "NO_COLOR": "1", **variables}


async def run_program(
    *arguments: str,
    cwd: Path,
    stdin: str = "",
    variables: Mapping[str, str] | None = None,
    command: tuple[str, ...] = PROGRAM,
    seconds: float = 180.0,
) -> Ran:
    """Run the program to its end."""
    process = await asyncio.create_subprocess_exec(
        *command,
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**(variables or {})),
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin.encode())
    except TimeoutError:
        process.kill()
        await process.communicate()
        raise
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def run_at_terminal(
    *arguments: str, answer: str, cwd: Path, variables: Mapping[str, str] | None = None
) -> Ran:
    """Run the program to its end where somebody sits at its stdin and types an answer."""
    keyboard, terminal = os.openpty()
    try:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            cwd=cwd,
            stdin=terminal,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=clean_environment(**(variables or {})),
        )
        os.write(keyboard, f"{answer}\n".encode())
        async with asyncio.timeout(180):
            out, err = await process.communicate()
    finally:
        os.close(keyboard)
        os.close(terminal)
    return Ran(process.returncode or 0, out.decode(), err.decode())


class Running:
    """A run that goes on; its output is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def line_with(self, text: str, *, seconds: float = 120.0) -> str:
        """Read on until a line holds `text`, and return it."""
        assert self.process.stdout is not None
        async with asyncio.timeout(seconds):
            while line := await self.process.stdout.readline():
                self.lines.append(line.decode().rstrip())
                if text in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"it ended without {text!r}; its output: {self.lines}")

    async def end(self, number: int = signal.SIGTERM, *, seconds: float = 90.0) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            _, code = await asyncio.gather(self._read_rest(), self.process.wait())
        return code

    async def _read_rest(self) -> None:
        assert self.process.stdout is not None
        rest = await self.process.stdout.read()
        self.lines += rest.decode().splitlines()


@asynccontextmanager
async def running(
    *arguments: str, cwd: Path, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """Start the program, both outputs in one, and end it at the latest on leaving."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        cwd=cwd,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=clean_environment(**(variables or {})),
    )
    started = Running(process)
    try:
        yield started
    finally:
        if process.returncode is None:
            await started.end()
        # Else the transport of a finished process would be collected open, which is a warning.
        process._transport.close()  # type: ignore[attr-defined]
