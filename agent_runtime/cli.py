"""The program `agent-runtime`."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated

import typer

from agent_runtime.commands import agents, database, session, state
from agent_runtime.commands.call import call
from agent_runtime.commands.dev import dev
from agent_runtime.commands.gateway import gateway
from agent_runtime.commands.output import ExitCode, exit_code, print_failure
from agent_runtime.commands.worker import worker

app = typer.Typer(
    name="agent-runtime",
    help="Durable AI agents on Temporal.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("dev")(dev)
app.command("worker")(worker)
app.command("gateway")(gateway)
app.command("call")(call)
app.add_typer(state.app, name="state")
app.add_typer(session.app, name="session")
app.add_typer(agents.app, name="agents")
app.add_typer(database.app, name="db")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"agent-runtime {metadata.version('temporal-agent-runtime')}")
        raise typer.Exit


@app.callback()
def program(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the release and exit."
        ),
    ] = False,
) -> None:
    """Durable AI agents on Temporal."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code (docs/cli.md); no error becomes a traceback.

    Args:
        arguments: In place of the command line's.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        result = app(given, prog_name="agent-runtime", standalone_mode=False)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has seen enough; nothing more may be written, at exit neither.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as error:
        return _fail(error, as_json=as_json)
    return result if isinstance(result, int) else ExitCode.OK


def _fail(error: Exception, *, as_json: bool) -> int:
    from agent_runtime.errors import AgentRuntimeError, InternalError

    if isinstance(error, typer.Abort):
        return 130
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    if hasattr(error, "format_message"):  # typer's own refusals of the command line
        text = str(error.format_message())
        if type(error).__name__ == "NoArgsIsHelpError":
            print(text, file=sys.stderr, flush=True)
            return ExitCode.USAGE
        message = f"{text.rstrip('.')}. See --help." if text else "See --help."
        print_failure({"type": "UsageError", "message": message}, as_json=as_json)
        return ExitCode.USAGE
    if not isinstance(error, AgentRuntimeError):
        if os.environ.get("AGENT_RUNTIME_LOG_LEVEL", "").lower() == "debug":
            traceback.print_exception(error)
        bug = InternalError(f"{type(error).__name__}: {error}; please report it with the command")
        bug.__cause__ = error
        error = bug
    print_failure(error.to_record(), as_json=as_json)
    return exit_code(error)


if __name__ == "__main__":
    sys.exit(main())
