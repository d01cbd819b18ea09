"""What commands print, and the exit codes that scripts rely on."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from agent_runtime.errors import AgentRuntimeError
    from agent_runtime.json_value import Json


class ExitCode(IntEnum):
    """A public contract, listed in docs/cli.md."""

    OK = 0
    REFUSED = 1
    USAGE = 2
    UNAVAILABLE = 3
    STORAGE = 4
    INTERNAL = 5


def exit_code(error: AgentRuntimeError) -> ExitCode:
    """Return the exit code that an error stands for."""
    from agent_runtime import errors

    by_kind: list[tuple[type[AgentRuntimeError], ExitCode]] = [
        (errors.StateRejectedError, ExitCode.REFUSED),
        (errors.ClientViewError, ExitCode.REFUSED),
        (errors.ConflictError, ExitCode.REFUSED),
        (errors.HandlerError, ExitCode.REFUSED),
        (errors.InvalidRequestError, ExitCode.USAGE),
        (errors.ConfigurationError, ExitCode.USAGE),
        (errors.UnavailableError, ExitCode.UNAVAILABLE),
        (errors.StorageError, ExitCode.STORAGE),
        (errors.ModelRequestError, ExitCode.USAGE),
        (errors.ModelRefusedError, ExitCode.REFUSED),
        (errors.ModelError, ExitCode.UNAVAILABLE),
    ]
    for kind, code in by_kind:
        if isinstance(error, kind):
            return code
    return ExitCode.INTERNAL


def print_failure(record: dict[str, Any], *, as_json: bool) -> None:
    """Print an error: one line on stderr, or with --json one object on stdout."""
    if as_json:
        print_json(record)
        return
    line = printable(" ".join(str(record["message"]).split()))
    print(f"agent-runtime: {record['type']}: {line}", file=sys.stderr, flush=True)


def print_json(value: Json) -> None:
    """Print a value as indented JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str
) -> None:
    """Print rows for people; `empty` in place of a table without rows."""
    if not rows:
        print(empty)
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # `Text` keeps square brackets of values from being read as markup.
        table.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))
    console().print(table)


def printable(text: str) -> str:
    """Return the text with control characters spelt out, so that it cannot steer a terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def console() -> Console:
    """Return a console of stdout, wide enough for tables when it is no terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 160)


def short_json(value: Json, limit: int = 80) -> str:
    """Return a value as one line of JSON, cut at `limit` characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
