"""`agent-runtime agents`: which agents there are, what is known of one, and destroying one."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options
from agent_runtime.commands.access import Target, open_client, open_storage, run
from agent_runtime.commands.output import print_json, print_table, printable

if TYPE_CHECKING:
    from agent_runtime.identity import AgentRef
    from agent_runtime.json_value import Json
    from agent_runtime.mutation import Receipt
    from agent_runtime.storage.protocol import Storage

app = typer.Typer(help="List agents, describe or delete one.", no_args_is_help=True)

_PAGE = 500


@app.command("list")
def list_agents(
    class_name: Annotated[
        str | None, typer.Option("--class", help="Only agents of this class.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 100,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
) -> None:
    """List agents; through Temporal only those whose entity ran within its retention."""
    target = Target(data_dir, address, namespace, task_queue)
    rows = run(_list(target, class_name, limit))
    if as_json:
        print_json({"agents": rows})
        return
    print_table(
        "agents",
        ["class", "name", "version", "updated (UTC)"],
        [(row["agent"], row["name"], row["version"], row["updated_at"]) for row in rows],
        empty="there are no agents yet",
    )


@app.command("describe")
def describe(
    class_name: options.AgentClassName,
    name: options.AgentName,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Print where an agent stands: state, database, entity workflow."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    facts = run(_describe(target, class_name, name))
    if as_json:
        print_json(facts)
        return
    rows = [(key.replace("_", " "), value) for key, value in facts.items()]
    print_table(f"{class_name}/{name}", ["", ""], rows, empty="")


@app.command("delete")
def delete(
    class_name: options.AgentClassName,
    name: options.AgentName,
    is_sure: options.IsSure = False,
    key: options.Key = None,
    expected_version: options.ExpectedVersion = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Destroy an agent with all that it has; the next contact meets a new one."""
    if not is_sure:
        _ask(f"Destroy {class_name}/{printable(name)} with all its data?", as_json=as_json)
    target = Target(None, address, namespace, task_queue, timeout)
    receipt = run(_destroy(target, class_name, name, key, expected_version))
    if as_json:
        fields = {"applied": receipt.applied, "duplicate": receipt.duplicate}
        print_json({"agent": class_name, "name": name, "version": receipt.version, **fields})
    elif receipt.duplicate:
        print(f"{class_name}/{printable(name)} was destroyed by this key already")
    else:
        print(f"{class_name}/{printable(name)} is destroyed; it was at version {receipt.version}")


def _ask(question: str, *, as_json: bool) -> None:
    """Go on only if somebody says yes."""
    if as_json or not sys.stdin.isatty():
        raise typer.BadParameter(
            "what is destroyed does not come back; say --yes", param_hint="--yes"
        )
    typer.confirm(question, abort=True)


async def _destroy(
    target: Target, class_name: str, name: str, key: str | None, expected_version: int | None
) -> Receipt:
    from agent_runtime.identity import agent_ref

    ref = agent_ref(class_name, name)
    async with open_client(target) as client:
        agent = client.agent(*ref)
        return await agent.destroy(idempotency_key=key, expected_version=expected_version)


async def _list(target: Target, class_name: str | None, limit: int) -> list[dict[str, Json]]:
    async with open_storage(target) as storage:
        if storage is not None:
            return await _list_stored(storage, class_name, limit)
    return await _list_running(target, class_name, limit)


async def _list_stored(
    storage: Storage, class_name: str | None, limit: int
) -> list[dict[str, Json]]:
    rows: list[dict[str, Json]] = []
    after: AgentRef | None = None
    while len(rows) < limit:
        size = min(_PAGE, limit - len(rows))
        page = await storage.list_agents(class_name=class_name, after=after, limit=size)
        for agent in page:
            rows.append(_row(agent.ref, agent.version or 0, _time(agent.updated_at)))
        if len(page) < size:
            break
        after = page[-1].ref
    return rows


async def _list_running(
    target: Target, class_name: str | None, limit: int
) -> list[dict[str, Json]]:
    from temporalio.service import RPCError

    from agent_runtime.call import ENTITY_WORKFLOW
    from agent_runtime.errors import TemporalUnreachableError
    from agent_runtime.identity import AgentRef

    refs: dict[AgentRef, datetime] = {}
    async with open_client(target) as client:
        prefix = f"{client.task_queue}/agent/"
        try:
            async for run in client.temporal.list_workflows(f"WorkflowType='{ENTITY_WORKFLOW}'"):
                found, _, name = run.id.removeprefix(prefix).partition("/")
                if not run.id.startswith(prefix) or class_name not in (None, found):
                    continue
                refs.setdefault(AgentRef(found, name), run.start_time)
                if len(refs) >= limit:
                    break
        except RPCError as error:
            raise TemporalUnreachableError(f"Temporal did not answer: {error.message}") from error
    return [_row(ref, None, None) for ref in sorted(refs)]


async def _describe(target: Target, class_name: str, name: str) -> dict[str, Json]:
    from agent_runtime.errors import UnavailableError
    from agent_runtime.hosting.state_reader import read_snapshot
    from agent_runtime.identity import agent_ref, workflow_id

    ref = agent_ref(class_name, name)
    settings = target.settings()
    facts: dict[str, Json] = {"agent": class_name, "name": name}
    async with open_storage(target) as storage:
        if storage is not None:
            stored = await storage.read_state(ref)
            snapshot = await read_snapshot(storage, ref)
            facts |= {
                "is_known": stored is not None,
                "version": snapshot.version,
                "is_set": snapshot.is_set,
                "state_bytes": len((stored.state or "").encode()) if stored else 0,
                "updated_at": _time(stored.updated_at) if stored else None,
                "pending_handlers": len(await storage.read_inbox(stored.agent_id, 0, 1_000))
                if stored
                else 0,
                "database": storage.place,
                "own_database": await storage.sql_place(ref, stored.agent_id) if stored else None,
            }
        else:
            async with open_client(target) as client:
                remote = await client.agent(*ref).get_state()
            facts |= {"version": remote.version, "is_set": remote.is_set}
    facts["workflow_id"] = workflow_id(settings.task_queue, ref)
    try:
        facts["entity"] = await _entity_status(target, facts["workflow_id"])
    except UnavailableError:
        facts["entity"] = "unknown: Temporal does not answer"
    return facts


async def _entity_status(target: Target, identity: str) -> str:
    from temporalio.service import RPCError, RPCStatusCode

    from agent_runtime.errors import TemporalUnreachableError

    async with open_client(target) as client:
        try:
            found = await client.temporal.get_workflow_handle(identity).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return "asleep"
            raise TemporalUnreachableError(f"Temporal did not answer: {error.message}") from error
    is_awake = found.status is not None and found.status.name == "RUNNING"
    return f"awake, {found.history_length} events" if is_awake else "asleep"


def _row(ref: AgentRef, version: int | None, updated_at: str | None) -> dict[str, Json]:
    return {"agent": ref.class_name, "name": ref.name, "version": version, "updated_at": updated_at}


def _time(milliseconds: int | None) -> str | None:
    if not milliseconds:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
