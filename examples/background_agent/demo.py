"""Run a background agent under fire, and prove that nothing was lost or done twice.

A workflow lets an agent index Python's standard library while several callers change the same
agent. In the middle the worker process is killed with -9. At the end everything that was
acknowledged is looked up in storage.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from agent_runtime import AgentClient, AgentHandle, StateHistoryEntry
from agent_runtime.local.dev import DevSession
from workflows import IndexFolder, IndexJob

AGENT = "standard-library"
WORKFLOW_QUEUE = "demo-workflows"
KILL_AT_PERCENT = 40
PAUSE_SECONDS = 0.03
VOTE_EVERY = 5


@dataclass
class Acknowledged:
    """What callers were told: the versions of their changes by key, and their counted votes."""

    changes: dict[str, int] = field(default_factory=dict)
    votes: int = 0
    slowest_seconds: float = 0.0


@dataclass
class Screen:
    """What is shown while it runs."""

    messages: deque[str] = field(default_factory=lambda: deque(maxlen=12))
    state: dict[str, object] = field(default_factory=dict)
    version: int = 0
    started: float = field(default_factory=time.monotonic)

    def say(self, line: str) -> None:
        """Note what happened, with the time since the start."""
        self.messages.append(f"{time.monotonic() - self.started:5.1f} s  {line}")

    def draw(self, acknowledged: Acknowledged) -> Group:
        """Return the present picture."""
        state = self.state
        facts = Table.grid(padding=(0, 2))
        facts.add_row("files", f"{state.get('files_done', 0)} of {state.get('files_total', 0)}")
        facts.add_row("words", f"{state.get('words', 0):,}")
        facts.add_row("definitions", f"{state.get('definitions', 0):,}")
        facts.add_row("state version", str(self.version))
        facts.add_row("acknowledged changes", f"{len(acknowledged.changes)}")
        facts.add_row("acknowledged calls", f"{acknowledged.votes}")
        progress = state.get("progress", 0)
        bar = ProgressBar(total=100, completed=float(str(progress)), width=60)
        return Group(
            Panel(Group(facts, bar), title=f"IndexAgent/{AGENT}: {state.get('status', 'new')}"),
            Text("\n".join(self.messages)),
        )


async def main() -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=800, help="how many files to index")
    parser.add_argument(
        "--callers", type=int, default=5, help="how many change the agent meanwhile"
    )
    options = parser.parse_args()
    data_dir = Path(tempfile.mkdtemp(prefix="agent-runtime-demo-"))
    screen, stop = Screen(), asyncio.Event()
    agents = Path(__file__).with_name("agents.py")
    session = DevSession(
        [str(agents)],
        data_dir,
        "agent-runtime",
        port=0,
        ui_port=0,
        gateway_port=0,
        say=screen.say,
    )
    serving = asyncio.create_task(session.run(stop))
    ready = asyncio.create_task(session.worker.ready.wait())
    await asyncio.wait({serving, ready}, return_when=asyncio.FIRST_COMPLETED)
    try:
        if serving.done():
            ready.cancel()
            return 1
        is_sound = await run(session, screen, options.files, options.callers, data_dir)
    finally:
        stop.set()
        await serving
    if is_sound:
        shutil.rmtree(data_dir)
        return 0
    print(f"the data is kept in {data_dir}")
    return 1


async def run(
    session: DevSession, screen: Screen, files: int, callers: int, data_dir: Path
) -> bool:
    """Run workflow, callers and the killing; return whether everything was found in storage."""
    address = session.server.address
    temporal = await Client.connect(address)
    folder = sysconfig.get_paths()["stdlib"]
    acknowledged = Acknowledged()
    async with (
        await AgentClient.connect(address, data_dir=data_dir) as client,
        Worker(temporal, task_queue=WORKFLOW_QUEUE, workflows=[IndexFolder]),
    ):
        agent = client.agent("IndexAgent", AGENT)
        workflow = await temporal.start_workflow(
            IndexFolder.run,
            IndexJob(AGENT, folder, files),
            id=f"index-{AGENT}",
            task_queue=WORKFLOW_QUEUE,
        )
        screen.say(f"workflow index-{AGENT} indexes {folder}")
        done = asyncio.Event()
        # Others join once the workflow has reset the state, or it would reset their changes too.
        while True:
            if (await agent.get_state()).value["files_total"] > 0:
                break
            await asyncio.sleep(0.05)
        tasks = [
            asyncio.create_task(change(agent, number, acknowledged, done))
            for number in range(callers)
        ]
        with Live(console=Console(), refresh_per_second=8) as live:
            total = await watch(session, screen, live, agent, workflow, acknowledged)
            done.set()
            await asyncio.gather(*tasks)
            screen.say(f"the workflow is done: {total} files")
            live.update(screen.draw(acknowledged))
        return await verify(agent, acknowledged, workflow, total)


async def change(
    agent: AgentHandle, number: int, acknowledged: Acknowledged, done: asyncio.Event
) -> None:
    """Change the agent again and again, noting what was acknowledged."""
    count = 0
    while not done.is_set():
        key = f"caller-{number}-{count}"
        started = time.monotonic()
        if count % VOTE_EVERY == VOTE_EVERY - 1:
            await agent.call("vote", idempotency_key=key)
            acknowledged.votes += 1
        else:
            note: dict[str, str] = {"note": f"change {count} of caller {number}"}
            receipt = await agent.merge_state(note, idempotency_key=key)
            acknowledged.changes[key] = receipt.version
        seconds = time.monotonic() - started
        acknowledged.slowest_seconds = max(acknowledged.slowest_seconds, seconds)
        count += 1
        await asyncio.sleep(PAUSE_SECONDS)


async def watch(
    session: DevSession,
    screen: Screen,
    live: Live,
    agent: AgentHandle,
    workflow: WorkflowHandle[IndexFolder, int],
    acknowledged: Acknowledged,
) -> int:
    """Show the progress until the workflow ends; kill the worker on the way."""
    result = asyncio.create_task(workflow.result())
    is_killed = False
    while not result.done():
        snapshot = await agent.get_state()
        screen.state, screen.version = snapshot.value, snapshot.version
        live.update(screen.draw(acknowledged))
        pid = session.worker.pid
        if not is_killed and pid is not None and snapshot.value["progress"] >= KILL_AT_PERCENT:
            is_killed = True
            screen.say(f"kill -9 of worker {pid}")
            os.kill(pid, signal.SIGKILL)
        await asyncio.wait({result}, timeout=0.1)
    snapshot = await agent.get_state()
    screen.state, screen.version = snapshot.value, snapshot.version
    if not is_killed:
        raise RuntimeError("the worker was never killed; index more files")
    return await result


async def verify(
    agent: AgentHandle,
    acknowledged: Acknowledged,
    workflow: WorkflowHandle[IndexFolder, int],
    total: int,
) -> bool:
    """Look everything up in storage, print the table, and return whether it is all there once."""
    snapshot = await agent.get_state()
    history = await read_history(agent)
    versions = [entry.version for entry in history]
    by_key = Counter(entry.key for entry in history)
    at = {entry.key: entry.version for entry in history}
    run_id = workflow.first_execution_run_id or ""
    steps = [entry for entry in history if (entry.key or "").startswith(f"{run_id}/")]
    step_keys = {entry.key for entry in steps}
    # Reset, update, the scan's own change and the last merge; two changes for each batch.
    expected_steps = 4 + 2 * -(-total // IndexJob.batch_size)
    totals = await agent.call("totals")
    some = list(acknowledged.changes.items())[:: max(1, len(acknowledged.changes) // 20)]
    again = [
        (await agent.merge_state(note_of(key), idempotency_key=key), version)
        for key, version in some
    ]
    rows = [
        (
            "acknowledged changes found once, at their version",
            len(acknowledged.changes),
            sum(
                by_key[key] == 1 and at[key] == version
                for key, version in acknowledged.changes.items()
            ),
        ),
        ("acknowledged calls, counted in the state", acknowledged.votes, snapshot.value["votes"]),
        ("changes by the workflow's steps, all keys", expected_steps, len(steps)),
        ("changes by the workflow's steps, different keys", expected_steps, len(step_keys)),
        ("files indexed, by state", total, snapshot.value["files_done"]),
        *(
            (f"{name}, own database and state", totals[name], snapshot.value[name])
            for name in ("files_done", "bytes_done", "words", "definitions")
        ),
        ("versions without a gap", snapshot.version, len(set(versions))),
        (
            "sent again with the same key: first receipt",
            len(some),
            sum(receipt.duplicate and receipt.version == version for receipt, version in again),
        ),
    ]
    print()
    table = Table(title="what storage says", title_justify="left")
    for column in ("", "expected", "found", ""):
        table.add_column(column, justify="right" if column else "left")
    for name, expected, found in rows:
        mark = "[green]ok[/]" if expected == found else "[red]WRONG[/]"
        table.add_row(name, f"{expected:,}", f"{found:,}", mark)
    Console().print(table)
    print(f"the longest wait of a caller, over the kill: {acknowledged.slowest_seconds:.1f} s")
    return all(expected == found for _, expected, found in rows) and total > 0


def note_of(key: str) -> dict[str, str]:
    """Return the change that a caller had sent with this key."""
    _, number, count = key.split("-")
    return {"note": f"change {count} of caller {number}"}


async def read_history(agent: AgentHandle) -> list[StateHistoryEntry]:
    """Return all versions of the agent's state."""
    entries: list[StateHistoryEntry] = []
    newest: int | None = None
    while page := await agent.state_history(newest=newest, limit=1_000):
        entries += page
        newest = page[-1].version - 1
    return entries


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
