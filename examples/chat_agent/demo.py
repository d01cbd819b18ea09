"""Talk to an agent, kill its worker in the middle of a turn, and see that it forgot nothing.

Offline a model by a few rules answers, and summaries are extracts. With AGENT_RUNTIME_MODEL,
AGENT_RUNTIME_MODEL_BASE_URL and so on (docs/settings.md) a real one does both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from agent_runtime import AgentClient, AgentHandle
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.local.dev import DevSession

FIRST = "Hello, my name is Ada and I like green tea."
TASK = "Please remind me to water the plants."
TALK = (
    "The analytical engine weaves algebraic patterns just as the loom weaves flowers and leaves. "
    "It can do whatever we know how to order it to perform, and has no pretensions to originate "
    "anything. Part {number} of what I wanted to tell you about it."
)
NAME = "What is my name?"
TASKS = "What are my tasks?"

console = Console(highlight=False)


async def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--talk", type=int, default=6, help="how much is said between")
    parser.add_argument("--interactive", action="store_true", help="then talk yourself")
    options = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="agent-runtime-chat-"))
    stop = asyncio.Event()
    session = DevSession(
        [str(Path(__file__).with_name("agents.py"))],
        data_dir,
        "agent-runtime",
        port=0,
        ui_port=0,
        gateway_port=0,
        say=_note,
    )
    serving = asyncio.create_task(session.run(stop))
    ready = asyncio.create_task(session.worker.ready.wait())
    await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if serving.done():
            ready.cancel()
            return 1
        async with await AgentClient.connect(session.server.address, data_dir=data_dir) as client:
            agent = client.agent("ChatAgent", "ada")
            is_sound = await converse(session, agent, options.talk)
            if options.interactive:
                await talk_on(agent)
    except AgentRuntimeError as error:
        console.print(f"[red]the conversation has ended: {escape(error.message)}[/]")
        is_sound = False
    finally:
        stop.set()
        await serving
    if is_sound:
        shutil.rmtree(data_dir)
        return 0
    print(f"the data is kept in {data_dir}")
    return 1


async def converse(session: DevSession, agent: AgentHandle, talk: int) -> bool:
    """Hold the conversation, with a kill in it; return whether storage has it all, once."""
    said = [FIRST, TASK, *(TALK.format(number=number + 1) for number in range(talk)), NAME, TASKS]
    answers: dict[str, str] = {}
    for text in said:
        console.print(f"[bold]ada[/]    {text}")
        answering = asyncio.create_task(agent.call("chat", text))
        if text == TASK:
            await kill_while_a_tool_runs(session, agent, answering)
        answers[text] = str(await answering)
        console.print(f"[bold]agent[/]  {escape(answers[text])}")
    return await verify(agent, said, answers)


async def kill_while_a_tool_runs(
    session: DevSession, agent: AgentHandle, answering: asyncio.Task[object]
) -> None:
    """Kill the worker when the model has asked for a tool that has not answered yet."""
    while not answering.done():
        leaf = await agent.session().get_latest_leaf()
        states = [part.get("state") for part in (leaf or {"parts": []})["parts"]]
        if "input-available" in states and session.worker.pid is not None:
            console.print(f"[red]kill -9 of worker {session.worker.pid}[/]")
            os.kill(session.worker.pid, signal.SIGKILL)
            return
        await asyncio.sleep(0.02)


async def verify(agent: AgentHandle, said: list[str], answers: dict[str, str]) -> bool:
    """Compare what is stored with what was said, print it, and return whether it fits."""
    session = agent.session()
    stored = await session.get_history_row_stats()
    users = [row for row in stored if row.role == "user"]
    shown = await session.get_history()
    [memory] = [each for each in await session.get_context_blocks() if each.label == "memory"]
    tasks = await agent.call("tasks")
    rows = [
        ("messages of the user, each once", len(said), len(users)),
        ("the conversation is shown with a summary", True, len(shown) < len(stored)),
        ("its memory names Ada", True, "Ada" in memory.content),
        ("it knows the name, after the summary", True, "Ada" in answers[NAME]),
        ("tasks on the list, over the kill", 1, len(tasks)),
        ("it reads the list", True, "water the plants" in answers[TASKS]),
    ]
    table = Table(title="what storage says", title_justify="left")
    for column in ("", "expected", "found", ""):
        table.add_column(column, justify="right" if column else "left")
    for name, expected, found in rows:
        mark = "[green]ok[/]" if expected == found else "[red]WRONG[/]"
        table.add_row(name, str(expected), str(found), mark)
    console.print(table)
    return all(expected == found for _, expected, found in rows)


async def talk_on(agent: AgentHandle) -> None:
    """Let the user talk, until an empty line or the end of the input."""
    while text := await asyncio.to_thread(next_line):
        try:
            answer = str(await agent.call("chat", text))
        except AgentRuntimeError as error:
            answer = f"(no answer: {error.message})"
        console.print(f"[bold]agent[/]  {escape(answer)}")


def next_line() -> str:
    """Return what the user says, nothing at the end of the input."""
    try:
        return input("you    ")
    except EOFError:
        return ""


def _note(line: str) -> None:
    if "worker" in line or "error" in line.lower():
        console.print(f"[dim]       {line}[/]")


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
