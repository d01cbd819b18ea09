"""Processes that write to one session, and what they said of it."""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Acknowledged:
    """What writers were told is on disk, and which deletions they had asked for."""

    appended: list[str] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    doomed: set[str] = field(default_factory=set)

    def note(self, line: str) -> None:
        """Take in one line of a writer; a line cut off by its death tells nothing."""
        if line.endswith("\n") and line[0] == "+":
            self.appended.append(line[1:].strip())
        elif line.endswith("\n") and line[0] == "-":
            self.deleted.add(line[1:].strip())
        elif line.endswith("\n") and line[0] == "?":
            self.doomed.add(line[1:].strip())


async def run_writer(
    data_dir: Path,
    writer: str,
    count: int,
    told: Acknowledged,
    *,
    kill_after: int | None = None,
) -> None:
    """Let a process write until it is done, or kill it after so many lines.

    Raises:
        AssertionError: It failed of itself.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.append_messages"),
        *(str(data_dir), writer, str(count)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    lines = 0
    while line := (await process.stdout.readline()).decode():
        told.note(line)
        lines += 1
        if lines == kill_after:
            await asyncio.sleep(random.Random(writer).random() * 0.01)
            process.kill()
    code = await process.wait()
    assert code == (0 if kill_after is None else -9), await errors
    await errors
