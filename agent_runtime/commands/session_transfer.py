"""`agent-runtime session export` and `import`: whole conversations in and out of agents."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, run
from agent_runtime.commands.output import print_json, printable
from agent_runtime.commands.session_access import open_to_change, open_to_read

if TYPE_CHECKING:
    from agent_runtime.client.sessions_handle import ImportedTables
    from agent_runtime.session.reference_messages import ImportProblem
    from agent_runtime.session.session_import import ImportedSession


def export(
    class_name: options.AgentClassName,
    name: options.AgentName,
    session: options.SessionId = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Where to, in place of stdout."),
    ] = None,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Write all that is stored of a session as JSON Lines, for `session import`."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    count = run(_export(target, class_name, name, session, output))
    if output is None:
        return
    if as_json:
        fields = {"agent": class_name, "name": name, "session": session}
        print_json({**fields, "file": str(output), "lines": count})
    else:
        print(f"{count} lines of session {options.shown_session(session)} are in {output}")


def import_(
    class_name: options.AgentClassName,
    name: options.AgentName,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What `session export` wrote; - reads stdin.")
    ] = "-",
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Where to; by default the id it had."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            metavar="DATABASE",
            help="An SQLite file with the reference server's tables, in place of FILE.",
        ),
    ] = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Bring sessions into an agent; after a failure repeat it, and what is there is passed over."""
    from agent_runtime.errors import InvalidRequestError

    target = Target(None, address, namespace, task_queue, timeout)
    problems: list[ImportProblem] = []
    if reference is None:
        with _opened(file) as opened:
            imported = [run(_import(target, class_name, name, opened, session))]
    elif file != "-" or session is not None:
        raise InvalidRequestError("--reference brings all its sessions; leave FILE and --session")
    else:
        tables = run(_import_reference(target, class_name, name, reference))
        imported, problems = tables.sessions, tables.problems
    if as_json:
        rows = {"sessions": [asdict(each) for each in imported]}
        told = {"problems": [asdict(each) for each in problems]}
        print_json({"agent": class_name, "name": name, **rows, **told})
        return
    for each in imported:
        place = printable(options.shown_session(each.session_id))
        print(f"session {place}: {each.messages} messages, {each.compactions} summaries")
    for problem in problems:
        print(printable(f"{problem.table} {problem.key}: {problem.reason}"), file=sys.stderr)


async def _export(
    target: Target, class_name: str, name: str, session: str, output: Path | None
) -> int:
    from agent_runtime.session.session_export import existing_lines

    async with open_to_read(target, options.agent(class_name, name)) as agent:
        shown = f"{options.shown_session(session)}; see `session list`"
        lines = existing_lines(agent.sessions().export(session), shown)
        if output is None:
            count = 0
            async for line in lines:
                sys.stdout.write(f"{line}\n")
                count += 1
            return count
        return await _write(lines, output)


async def _write(lines: AsyncIterator[str], output: Path) -> int:
    """Write a file that is there whole or not at all."""
    from agent_runtime.errors import InvalidRequestError

    count = 0
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=output.parent, prefix=f".{output.name}.", delete=False
        ) as part:
            try:
                async for line in lines:
                    part.write(f"{line}\n")
                    count += 1
                part.flush()
                os.fsync(part.fileno())
                os.replace(part.name, output)
            except BaseException:
                os.unlink(part.name)
                raise
    except OSError as error:
        raise InvalidRequestError(f"{output} cannot be written: {error.strerror}") from None
    return count


async def _import(
    target: Target, class_name: str, name: str, file: BinaryIO, session: str | None
) -> ImportedSession:
    async with open_to_change(target, options.agent(class_name, name)) as agent:
        return await agent.sessions().import_file(file, session_id=session)


async def _import_reference(
    target: Target, class_name: str, name: str, path: Path
) -> ImportedTables:
    async with open_to_change(target, options.agent(class_name, name)) as agent:
        return await agent.sessions().import_reference(path)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    """Open a file, or a copy of what comes from stdin or a pipe, as it is read twice."""
    from agent_runtime.errors import InvalidRequestError

    with ExitStack() as stack:
        try:
            is_stdin = file == "-"
            source = sys.stdin.buffer if is_stdin else stack.enter_context(open(file, "rb"))
            if is_stdin or not source.seekable():
                copy = stack.enter_context(tempfile.TemporaryFile())
                shutil.copyfileobj(source, copy)
                source = copy
        except OSError as error:
            raise InvalidRequestError(f"{file} cannot be read: {error.strerror}") from None
        yield source
