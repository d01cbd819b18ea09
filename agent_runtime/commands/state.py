"""`agent-runtime state`: read and change an agent's state from the shell."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, open_client, open_storage, run
from agent_runtime.commands.output import print_json, print_table, printable, short_json

if TYPE_CHECKING:
    from agent_runtime.client.handle import AgentHandle
    from agent_runtime.hosting.state_reader import StateHistoryEntry, StateSnapshot
    from agent_runtime.identity import AgentRef
    from agent_runtime.json_value import Json
    from agent_runtime.mutation import Receipt

app = typer.Typer(help="Read and change the state of an agent.", no_args_is_help=True)

JsonArgument = Annotated[
    str, typer.Argument(metavar="JSON", help="The value as JSON text; - reads it from stdin.")
]


@app.command("get")
def get(
    class_name: options.AgentClassName,
    name: options.AgentName,
    version: Annotated[int | None, typer.Option("--version", help="An earlier state.")] = None,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Print an agent's state: from the data directory if it is here, else through Temporal."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    snapshot = run(_get(target, class_name, name, version))
    if as_json:
        fields = {"version": snapshot.version, "is_set": snapshot.is_set, "value": snapshot.value}
        print_json({"agent": class_name, "name": name, **fields})
    elif not snapshot.is_set:
        print(f"{class_name}/{printable(name)} has no state yet")
    else:
        print(f"{class_name}/{printable(name)}, version {snapshot.version}:")
        print_json(snapshot.value)


@app.command("set")
def set_state(
    class_name: options.AgentClassName,
    name: options.AgentName,
    value: JsonArgument,
    key: options.Key = None,
    expected_version: options.ExpectedVersion = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Replace an agent's state."""
    state = _read_json(value)
    target = Target(None, address, namespace, task_queue, timeout)

    async def change(agent: AgentHandle) -> Receipt:
        return await agent.set_state(state, idempotency_key=key, expected_version=expected_version)

    _mutate(target, class_name, name, change, as_json=as_json)


@app.command("merge")
def merge(
    class_name: options.AgentClassName,
    name: options.AgentName,
    value: JsonArgument,
    key: options.Key = None,
    expected_version: options.ExpectedVersion = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Replace the given top-level keys of an agent's state."""
    partial = _read_json(value)
    target = Target(None, address, namespace, task_queue, timeout)

    async def change(agent: AgentHandle) -> Receipt:
        return await agent.merge_state(
            partial, idempotency_key=key, expected_version=expected_version
        )

    _mutate(target, class_name, name, change, as_json=as_json)


@app.command("reset")
def reset(
    class_name: options.AgentClassName,
    name: options.AgentName,
    key: options.Key = None,
    expected_version: options.ExpectedVersion = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Put the initial state of the agent's class back."""
    target = Target(None, address, namespace, task_queue, timeout)

    async def change(agent: AgentHandle) -> Receipt:
        return await agent.reset_state(idempotency_key=key, expected_version=expected_version)

    _mutate(target, class_name, name, change, as_json=as_json)


@app.command("history")
def history(
    class_name: options.AgentClassName,
    name: options.AgentName,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, 1 to 1000.")] = 20,
    newest: Annotated[
        int | None, typer.Option("--newest", help="Start at this version, to read on.")
    ] = None,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Print the versions of an agent's state, newest first."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    entries = run(_history(target, class_name, name, newest, limit))
    if as_json:
        rows = [{**_fields(entry), "is_full": entry.is_full} for entry in entries]
        print_json({"agent": class_name, "name": name, "history": rows})
        return
    print_table(
        f"{class_name}/{name}",
        ["version", "when (UTC)", "kind", "source", "key", "value or changed keys"],
        [
            (
                entry.version,
                f"{entry.at:%Y-%m-%d %H:%M:%S}",
                entry.kind,
                entry.source,
                entry.key,
                short_json(entry.value),
            )
            for entry in entries
        ],
        empty=f"{class_name}/{name} has no state yet",
    )


async def _get(target: Target, class_name: str, name: str, version: int | None) -> StateSnapshot:
    from agent_runtime.hosting.state_reader import read_snapshot, read_version

    ref = _ref(class_name, name)
    async with open_storage(target) as storage:
        if storage is not None and version is not None:
            return await read_version(storage, ref, version)
        if storage is not None:
            return await read_snapshot(storage, ref)
    async with open_client(target) as client:
        return await client.agent(*ref).get_state(version=version)


async def _history(
    target: Target, class_name: str, name: str, newest: int | None, limit: int
) -> list[StateHistoryEntry]:
    from agent_runtime.errors import InvalidRequestError
    from agent_runtime.hosting.state_reader import MAX_HISTORY, read_history

    ref = _ref(class_name, name)
    if not 0 < limit <= MAX_HISTORY:
        raise InvalidRequestError(f"--limit must be 1 to {MAX_HISTORY}, not {limit}")
    async with open_storage(target) as storage:
        if storage is not None:
            return await read_history(storage, ref, newest=newest, limit=limit)
    async with open_client(target) as client:
        return await client.agent(*ref).state_history(newest=newest, limit=limit)


def _mutate(
    target: Target,
    class_name: str,
    name: str,
    change: Callable[[AgentHandle], Awaitable[Receipt]],
    *,
    as_json: bool,
) -> None:
    async def send() -> Receipt:
        ref = _ref(class_name, name)
        async with open_client(target) as client:
            return await change(client.agent(*ref))

    receipt = run(send())
    if as_json:
        fields = {"applied": receipt.applied, "duplicate": receipt.duplicate}
        print_json({"agent": class_name, "name": name, "version": receipt.version, **fields})
    elif receipt.duplicate:
        print(f"{class_name}/{printable(name)} had this change already: version {receipt.version}")
    else:
        print(f"{class_name}/{printable(name)} is at version {receipt.version}")


def _ref(class_name: str, name: str) -> AgentRef:
    from agent_runtime.identity import agent_ref

    return agent_ref(class_name, name)


def _read_json(argument: str) -> Json:
    from agent_runtime.errors import InvalidRequestError, NotSerializableError
    from agent_runtime.json_value import from_json

    text = sys.stdin.buffer.read() if argument == "-" else argument
    place = "stdin" if argument == "-" else "the argument"
    try:
        return from_json(text)
    except NotSerializableError as error:
        raise InvalidRequestError(f"{place} is {error.message}") from None


def _fields(entry: StateHistoryEntry) -> dict[str, Json]:
    return {
        "version": entry.version,
        "at": entry.at.isoformat(),
        "kind": entry.kind,
        "source": entry.source,
        "key": entry.key,
        "value": entry.value,
    }
