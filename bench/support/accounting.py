"""Processor time and memory of processes, from /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """Return the processor time a process has used; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(pid: int) -> int:
    """Return the memory a process holds; 0 where there is no /proc."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class ProcessorSpan:
    """Processor seconds per process within a `with` block."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._before: dict[str, float] = {}
        self.used: dict[str, float] = {}
        self.seconds = 0.0
        self._start = 0.0

    def __enter__(self) -> ProcessorSpan:
        self._before = {name: processor_seconds(pid) for name, pid in self._pids.items()}
        self._start = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds = time.perf_counter() - self._start
        self.used = {
            name: processor_seconds(pid) - self._before[name] for name, pid in self._pids.items()
        }
