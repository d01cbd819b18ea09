"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from agent_runtime.identity import AgentRef

AgentClassName = Annotated[str, typer.Argument(metavar="CLASS", help="Agent class, GameAgent.")]
AgentName = Annotated[str, typer.Argument(metavar="NAME", help="Instance name, room-1.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
DataDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Directory of the database [AGENT_RUNTIME_DATA_DIR]."),
]
Address = Annotated[
    str | None,
    typer.Option("--address", help="Temporal's host:port [TEMPORAL_ADDRESS]."),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", help="Temporal's namespace [TEMPORAL_NAMESPACE]."),
]
TaskQueue = Annotated[
    str | None,
    typer.Option("--task-queue", help="The installation [AGENT_RUNTIME_TASK_QUEUE]."),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", help="Seconds to wait [AGENT_RUNTIME_CALL_TIMEOUT_SECONDS]."),
]
Key = Annotated[
    str | None,
    typer.Option("--key", help="Idempotency key: a repeat with it changes nothing."),
]
ExpectedVersion = Annotated[
    int | None,
    typer.Option("--expected-version", help="Refuse unless the state has this version."),
]
IsSure = Annotated[
    bool, typer.Option("--yes", help="Do it without being asked; needed where nobody can be asked.")
]
Modules = Annotated[
    list[str],
    typer.Argument(
        metavar="MODULE...",
        help="Files or dotted modules with agents; either with :Class for one of them.",
    ),
]
Tethered = Annotated[
    bool, typer.Option("--tethered", help="Stop when stdin closes, as `dev` asks for.")
]
SessionId = Annotated[
    str, typer.Option("--session", metavar="ID", help="The session; by default the default one.")
]


def agent(class_name: str, name: str) -> AgentRef:
    """Return the agent that a command names.

    Raises:
        InvalidAgentError: One of the names cannot be an address.
    """
    from agent_runtime.identity import agent_ref

    return agent_ref(class_name, name)


def shown_session(session_id: str) -> str:
    """Return how people are shown a session's id."""
    return session_id or "(default)"
