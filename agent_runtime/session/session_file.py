"""The lines of an exported session in a file, read as often as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from agent_runtime.errors import InvalidImportError

MAX_LINE_BYTES = 16 * 1024 * 1024
"""More than any line that can be imported has, however it is escaped."""


def file_lines(file: BinaryIO) -> Iterator[str]:
    """Give a file's lines from its beginning; at most one of them is in memory.

    Raises:
        InvalidImportError: A line is longer than 16 MiB, or no text in UTF-8.
    """
    file.seek(0)
    number = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise _invalid(number, f"it has more than {MAX_LINE_BYTES} bytes")
        try:
            yield raw.decode()
        except UnicodeDecodeError:
            raise _invalid(number, "it is no text in UTF-8") from None


def _invalid(number: int, reason: str) -> InvalidImportError:
    return InvalidImportError(f"line {number}: {reason}; nothing was stored", line=number)
