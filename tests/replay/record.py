"""Record histories anew, after a deliberate change: `python -m tests.replay.record`.

Old recordings stay: what is running somewhere must go on replaying.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import tempfile
from pathlib import Path

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Worker

from agent_runtime.call import EntityRun
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.identity import (
    agent_ref,
    compaction_workflow_id,
    handlers_workflow_id,
    workflow_id,
)
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.runtime import AgentRuntime
from agent_runtime.session.message import text_message
from tests.replay.agents import Talk, Task
from tests.replay.workflows import Progress
from tests.support.eventually import assert_eventually

HISTORIES = Path(__file__).with_name("histories")
QUEUE = "replay"


async def record(release: str) -> dict[str, WorkflowHistory]:
    """Run every kind of workflow and return its history by name."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            TemporalServer(folder) as server,
            await AgentRuntime.start(
                [Task, Talk],
                data_dir=Path(folder) / "data",
                address=server.address,
                task_queue=QUEUE,
            ) as runtime,
            await AgentClient.connect(
                server.address,
                task_queue=QUEUE,
                storage=runtime.storage,
                entity=EntityRun("", "", max_events=40, idle_seconds=1),
            ) as client,
            Worker(client.temporal, task_queue="user", workflows=[Progress]),
        ):
            return await _record(client, runtime, release)


async def _record(
    client: AgentClient, runtime: AgentRuntime, release: str
) -> dict[str, WorkflowHistory]:
    histories: dict[str, WorkflowHistory] = {}
    progress = await client.temporal.start_workflow(
        Progress.run, args=["t", QUEUE], id="progress", task_queue="user"
    )
    await progress.result()
    histories["user-steps"] = await progress.fetch_history()

    ref = agent_ref("Task", "e")
    handle = client.agent(*ref)
    await handle.call("advance", 5)

    for number in range(4):
        await handle.merge_state({"n": number})
    client.channel.contention(ref).note()
    await handle.merge_state({"one_way": 1})  # by signal
    client.channel._contention.pop(ref)
    entity = workflow_id(QUEUE, ref)
    histories["entity-running"] = await _history(client.temporal, entity)
    first_run = (await client.temporal.get_workflow_handle(entity).describe()).run_id
    while (await client.temporal.get_workflow_handle(entity).describe()).run_id == first_run:
        await handle.merge_state({"n": 0})
    histories["entity-continued"] = await _history(client.temporal, entity, first_run)

    runtime._state.drain()  # local attempts fail now, regular activities carry the batches
    await handle.merge_state({"n": 100})

    async def is_idle() -> None:
        description = await client.temporal.get_workflow_handle(entity).describe()
        assert description.close_time is not None

    await assert_eventually(is_idle)
    histories["entity-drained-and-idle"] = await _history(client.temporal, entity)
    handlers = handlers_workflow_id(QUEUE, ref)

    async def has_ended() -> None:
        description = await client.temporal.get_workflow_handle(handlers).describe()
        assert description.close_time is not None

    await assert_eventually(has_ended)
    histories["handlers"] = await _history(client.temporal, handlers)
    for name in ("applied", "refused", "patient"):
        histories[f"compaction-{name}"] = await _compact(client, name)
    return {f"{release}-{name}": history for name, history in histories.items()}


async def _compact(client: AgentClient, name: str) -> WorkflowHistory:
    """Have a conversation summarized in several parts, or try in vain."""
    session = client.agent("Talk", name).session()
    await session.append_messages(
        [text_message("user", f"{n} ".ljust(900, "x"), id=f"m{n}") for n in range(12)]
    )
    compacting = asyncio.create_task(session.compact())
    if name == "patient":

        async def is_summarizing() -> None:
            progress = await session.compaction.progress()
            assert progress is not None
            assert progress.phase == "summarizing"

        await assert_eventually(is_summarizing)
        await session.compaction.cancel()
    await compacting
    ref = agent_ref("Talk", name)
    return await _history(client.temporal, compaction_workflow_id(QUEUE, ref, "", ""))


async def _history(temporal: Client, identity: str, run_id: str | None = None) -> WorkflowHistory:
    return await temporal.get_workflow_handle(identity, run_id=run_id).fetch_history()


def main(release: str) -> None:
    """Write one JSON file a history."""
    HISTORIES.mkdir(exist_ok=True)
    for name, history in asyncio.run(record(release)).items():
        text = re.sub(r'"identity": "[^"]*"', '"identity": "worker"', history.to_json())
        text = re.sub(r'"stackTrace": "(?:[^"\\]|\\.)*"', '"stackTrace": ""', text)
        (HISTORIES / f"{name}.json").write_text(text.replace(socket.gethostname(), "host"))


if __name__ == "__main__":
    main(sys.argv[1])
