"""Other products in processes and environments of their own."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from types import TracebackType

from agent_runtime.json_value import Json
from bench.peers.peer_line import READY
from bench.support.load import Load
from bench.support.row import SkipRow

_PEERS = Path(__file__).parents[1] / "peers"
_START_SECONDS = 60.0
_LINE_BYTES = 256 * 2**20


class PeerProcess:
    """A peer that measures itself on request; `async with` starts and ends it.

    Args:
        script: Its module under `bench/peers`.
        needs: What its environment must have.
        python: The environment's interpreter.
        folder: For its data and log.
    """

    def __init__(self, script: str, needs: str, python: str, folder: Path) -> None:
        self._script = script
        self._needs = needs
        self._python = python
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> PeerProcess:
        probe = await asyncio.create_subprocess_exec(
            self._python, "-c", f"import {self._needs}", stderr=subprocess.DEVNULL
        )
        if await probe.wait():
            raise SkipRow(f"{self._needs} is not installed for {self._python}; see --peers-python")
        with (self._folder / f"{self._script}.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._python,
                str(_PEERS / f"{self._script}.py"),
                str(self._folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                limit=_LINE_BYTES,
                cwd=self._folder,
            )
        async with asyncio.timeout(_START_SECONDS):
            await self._read(READY)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process is None or self._process.stdin is None:
            return
        self._process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def measure(self, agents: int, callers: int, seconds: float) -> Load:
        """Let the peer do the job for a while and return what its callers saw."""
        took, latencies, errors = await self.ask(agents, callers, seconds)
        return Load(took, latencies, errors=errors)

    async def ask(self, *command: Json) -> Json:
        """Send the peer a command in its own words and return its answer."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        return json.loads(await self._read("RESULT"))

    async def _read(self, start: str) -> str:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            if line.decode(errors="replace").startswith(start):
                return line.decode().removeprefix(start)
        raise RuntimeError(f"{self._script} ended; see {self._folder / self._script}.log")
