"""`agent-runtime session usage`: what language models have cost an agent."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, run
from agent_runtime.commands.output import print_json, print_table, printable
from agent_runtime.commands.session_access import open_to_read

if TYPE_CHECKING:
    from agent_runtime.session.model_usage import ModelUsage


def usage(
    class_name: options.AgentClassName,
    name: options.AgentName,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Of this session; by default of all."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="DAY", help="The first day, 2026-11-30.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DAY", help="The last.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, 1 to 1000.")] = 1000,
    offset: Annotated[int, typer.Option("--offset", help="After so many, to read on.")] = 0,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Print tokens and cost of an agent's models by day, session, model and purpose."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    rows = run(_read(target, class_name, name, session, since, until, limit, offset))
    if as_json:
        print_json({"agent": class_name, "name": name, "usage": [asdict(row) for row in rows]})
        return
    print_table(
        f"{class_name}/{name}",
        ["day (UTC)", "session", "model", "purpose", "calls", "tokens in", "tokens out", "cost"],
        [
            (
                row.day,
                options.shown_session(row.session_id),
                row.model,
                row.purpose,
                row.calls,
                row.input_tokens,
                row.output_tokens,
                f"{row.cost:.6g}",
            )
            for row in rows
        ],
        empty=f"{class_name}/{printable(name)} has asked no model then",
    )


async def _read(
    target: Target,
    class_name: str,
    name: str,
    session: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    offset: int,
) -> list[ModelUsage]:
    from agent_runtime.session.model_usage import day_of

    first = None if since is None else day_of(since, "--since")
    last = None if until is None else day_of(until, "--until")
    async with open_to_read(target, options.agent(class_name, name)) as agent:
        return await agent.sessions().model_usage(
            session_id=session, since=first, until=last, limit=limit, offset=offset
        )
