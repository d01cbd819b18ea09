"""`agent-runtime session`: read, shorten and continue an agent's conversations from the shell."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from agent_runtime.commands import options, session_transfer, session_usage
from agent_runtime.commands.access import Target, run
from agent_runtime.commands.output import print_json, print_table, printable, short_json
from agent_runtime.commands.session_access import open_to_change, open_to_read

if TYPE_CHECKING:
    from agent_runtime.compaction.compact_context import CompactResult
    from agent_runtime.json_value import Json
    from agent_runtime.session.message import Message
    from agent_runtime.session.session_listing import ListedSession
    from agent_runtime.session.session_provider import Compaction, SearchHit
    from agent_runtime.session.session_record import SessionRecord
    from agent_runtime.session.tree_node import TreeNode

app = typer.Typer(help="Read and change an agent's conversations.", no_args_is_help=True)
app.command("export")(session_transfer.export)
app.command("import")(session_transfer.import_)
app.command("usage")(session_usage.usage)

Leaf = Annotated[
    str | None,
    typer.Option("--leaf", metavar="ID", help="End at this message; by default the latest leaf."),
]


@app.command("list")
def list_sessions(
    class_name: options.AgentClassName,
    name: options.AgentName,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, 1 to 1000.")] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Behind this session, to read on.")
    ] = None,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """List an agent's sessions in order of their ids, the default one first."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    found = run(_list(target, class_name, name, after, limit))
    if as_json:
        rows = [asdict(each) for each in found]
        print_json({"agent": class_name, "name": name, "sessions": rows})
        return
    print_table(
        f"{class_name}/{name}",
        ["session", "name", "parent", "tokens in", "tokens out", "ended", "updated (UTC)"],
        [(options.shown_session(each.session_id), *_cells(each.record)) for each in found],
        empty=f"{class_name}/{printable(name)} has no sessions",
    )


@app.command("show")
def show(
    class_name: options.AgentClassName,
    name: options.AgentName,
    session: options.SessionId = "",
    leaf: Leaf = None,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Print what a reader of a session sees: a path, with summaries for compacted ranges."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    messages = run(_show(target, class_name, name, session, leaf))
    if as_json:
        fields = {"agent": class_name, "name": name, "session": session}
        print_json({**fields, "messages": messages})
        return
    if not messages:
        print(f"session {options.shown_session(session)} has no messages there")
    for message in messages:
        _print_message(message)


@app.command("tree")
def tree(
    class_name: options.AgentClassName,
    name: options.AgentName,
    session: options.SessionId = "",
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="At most so many messages, the oldest.")
    ] = 10_000,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Draw all branches of a session, with sizes, the head, and what summaries stand for."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    nodes, summaries, head, is_whole = run(_tree(target, class_name, name, session, limit))
    if as_json:
        fields = {"agent": class_name, "name": name, "session": session, "head": head}
        rows = {"nodes": [asdict(node) for node in nodes], "is_whole": is_whole}
        print_json({**fields, **rows, "compactions": [asdict(each) for each in summaries]})
        return
    from agent_runtime.commands.output import console
    from agent_runtime.commands.session_tree import draw_tree

    if not nodes:
        print(f"session {options.shown_session(session)} has no messages")
        return
    title = f"{class_name}/{name}, session {options.shown_session(session)}"
    console().print(draw_tree(title, nodes, summaries, head))
    if not is_whole:
        print(f"there are more than {limit} messages; see --limit")


@app.command("search")
def search(
    class_name: options.AgentClassName,
    name: options.AgentName,
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Words that all must be in the message.")
    ],
    session: options.SessionId = "",
    is_everywhere: Annotated[
        bool, typer.Option("--all", help="In all registered sessions instead of one.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", help="At most so many, 1 to 1000.")] = 20,
    as_json: options.AsJson = False,
    data_dir: options.DataDir = None,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
    timeout: options.Timeout = None,
) -> None:
    """Find messages by their words, on all branches, best first."""
    target = Target(data_dir, address, namespace, task_queue, timeout)
    hits = run(_search(target, class_name, name, None if is_everywhere else session, query, limit))
    if as_json:
        rows = [asdict(hit) for hit in hits]
        print_json({"agent": class_name, "name": name, "hits": rows})
        return
    print_table(
        f"{class_name}/{name}",
        ["session", "message", "role", "stored (UTC)", "text"],
        [
            (
                options.shown_session(hit.session_id or ""),
                hit.id,
                hit.role,
                hit.created_at,
                _short(hit.content),
            )
            for hit in hits
        ],
        empty="nothing was found",
    )


@app.command("compact")
def compact(
    class_name: options.AgentClassName,
    name: options.AgentName,
    session: options.SessionId = "",
    leaf: Leaf = None,
    key: options.Key = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
) -> None:
    """Have the agent summarize a part of a session now; waits until it has. Ctrl-C cancels it."""
    target = Target(None, address, namespace, task_queue)
    result, reason = run(_compact(target, class_name, name, session, leaf, key))
    if as_json:
        stored = None if result is None else asdict(result)
        fields = {"agent": class_name, "name": name, "session": session}
        print_json({**fields, "compaction": stored, "reason": reason})
    elif result is None:
        print("nothing was summarized" + (f": {printable(reason)}" if reason else ""))
    else:
        ends = f"{printable(result.from_message_id)} to {printable(result.to_message_id)}"
        print(f"summarized {ends}: {_short(result.summary)}")


@app.command("fork")
def fork(
    class_name: options.AgentClassName,
    name: options.AgentName,
    message: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="Id of the last message to take along.")
    ],
    new_name: Annotated[str, typer.Argument(metavar="NEW_NAME", help="Of the new session.")],
    session: options.SessionId = "",
    copy_context: Annotated[
        bool, typer.Option("--copy-context", help="Copy the context blocks too.")
    ] = False,
    key: options.Key = None,
    as_json: options.AsJson = False,
    address: options.Address = None,
    namespace: options.Namespace = None,
    task_queue: options.TaskQueue = None,
) -> None:
    """Continue a session from one of its messages in a new one."""
    target = Target(None, address, namespace, task_queue)
    record = run(_fork(target, class_name, name, session, message, new_name, copy_context, key))
    if as_json:
        print_json({"agent": class_name, "name": name, "record": asdict(record)})
    else:
        print(f"session {record.id} continues {options.shown_session(session)}")


async def _list(
    target: Target, class_name: str, name: str, after: str | None, limit: int
) -> list[ListedSession]:
    async with open_to_read(target, options.agent(class_name, name)) as agent:
        return await agent.sessions().list_all(after=after, limit=limit)


async def _show(
    target: Target, class_name: str, name: str, session: str, leaf: str | None
) -> list[Message]:
    async with open_to_read(target, options.agent(class_name, name)) as agent:
        return await agent.session(session).get_history(leaf)


async def _tree(
    target: Target, class_name: str, name: str, session_id: str, limit: int
) -> tuple[list[TreeNode], list[Compaction], str | None, bool]:
    from agent_runtime.client.session_handle import MAX_TREE_PAGE

    async with open_to_read(target, options.agent(class_name, name)) as agent:
        session = agent.session(session_id)
        nodes: list[TreeNode] = []
        while len(nodes) <= limit:
            size = min(MAX_TREE_PAGE, limit + 1 - len(nodes))
            page = await session.get_tree(after=nodes[-1].seq if nodes else 0, limit=size)
            nodes += page
            if len(page) < size:
                break
        latest = await session.get_latest_leaf()
        summaries = await session.get_compactions()
    head = None if latest is None else str(latest["id"])
    return nodes[:limit], summaries, head, len(nodes) <= limit


async def _search(
    target: Target, class_name: str, name: str, session: str | None, query: str, limit: int
) -> list[SearchHit]:
    async with open_to_read(target, options.agent(class_name, name)) as agent:
        if session is None:
            return await agent.sessions().search(query, limit)
        return await agent.session(session).search(query, limit)


async def _compact(
    target: Target, class_name: str, name: str, session: str, leaf: str | None, key: str | None
) -> tuple[CompactResult | None, str]:
    from agent_runtime.commands.compaction_bar import compact_visibly

    async with open_to_change(target, options.agent(class_name, name)) as agent:
        return await compact_visibly(agent.session(session), leaf, idempotency_key=key)


async def _fork(
    target: Target,
    class_name: str,
    name: str,
    session: str,
    message: str,
    new_name: str,
    copy_context: bool,
    key: str | None,
) -> SessionRecord:
    async with open_to_change(target, options.agent(class_name, name)) as agent:
        return await agent.sessions().fork(
            session, message, new_name, copy_context=copy_context, idempotency_key=key
        )


def _cells(record: SessionRecord | None) -> tuple[object, ...]:
    if record is None:
        return (None,) * 6
    parent = record.parent_session_id
    return (
        record.name,
        None if parent is None else options.shown_session(parent),
        record.input_tokens,
        record.output_tokens,
        record.end_reason,
        record.updated_at,
    )


def _print_message(message: Message) -> None:
    created = message.get("createdAt")
    when = f"  {created}" if isinstance(created, str) else ""
    print(printable(f"-- {message['role']}  {message['id']}{when}"))
    for part in message["parts"]:
        for line in _part_text(part).split("\n"):
            print(f"   {printable(line)}")


def _part_text(part: dict[str, Json]) -> str:
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    rest = {name: value for name, value in part.items() if name != "type"}
    return f"[{part.get('type')}] {short_json(rest, 160)}"


def _short(text: str, limit: int = 80) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
