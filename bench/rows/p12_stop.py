"""P12: a worker is asked to stop under load, alone and with another beside it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import pairwise

from temporalio.api.enums.v1 import EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

from agent_runtime.client.agent_client import AgentClient
from agent_runtime.identity import agent_ref, workflow_id
from bench.support.bench import Bench
from bench.support.client_processes import ClientPlan, ClientProcesses
from bench.support.processes import ChildProcess
from bench.support.row import Figure, Row, number
from bench.support.statistics import median

_PROCESSES = 4
_AGENTS = 4
_CALLERS = 2
_TIMED_OUT = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
)


async def run(bench: Bench) -> list[Figure]:
    """Stop workers while four client processes call, and see how long nobody answers."""
    queue = bench.new_name("stopped")
    worker = await bench.start_worker(queue)
    client = await bench.client(queue, has_storage=True)
    agents = tuple(bench.new_name("stopped") for _ in range(_AGENTS))
    for agent in agents:
        await client.agent("Counter", agent).merge_state({"count": 0})
    plan = ClientPlan(bench.server.address, queue, str(bench.data_dir(queue)), agents, _CALLERS)
    stops = bench.scale.pick(5, 2)
    bench.say(f"{stops} stops, {_PROCESSES} client processes")
    exits: list[float] = []
    ready_at: list[float] = []
    rolled: list[tuple[float, float]] = []
    async with ClientProcesses(plan, _PROCESSES) as clients:
        clients.go()
        for _ in range(stops):
            await asyncio.sleep(1)
            exits.append(await _stop_seconds(worker))
            worker = await bench.start_worker(queue)
            ready_at.append(time.time())
            await asyncio.sleep(1)
        for _ in range(stops):
            follower = await bench.start_worker(queue)
            await asyncio.sleep(1)
            begin = time.time()
            exits.append(await _stop_seconds(worker))
            await asyncio.sleep(1)
            rolled.append((begin, time.time()))
            worker = follower
        load = await clients.stop()
    timed_out = await _timed_out(client, agents)
    await worker.stop()
    acknowledged = sorted(load.acknowledged_at)
    first = [_first_after(acknowledged, at) for at in ready_at]
    silent = [_longest_silence(acknowledged, begin, end) for begin, end in rolled]
    return [
        Figure(
            "SIGTERM under load, time to exit",
            median(exits),
            "s",
            at_most=0.5,
            evidence=f"worst {number(max(exits))} s of {len(exits)}",
        ),
        Figure(
            "SIGTERM, next worker ready to first success",
            median(first),
            "s",
            at_most=0.5,
            evidence=f"worst {number(max(first))} s",
        ),
        Figure(
            "SIGTERM with a second worker up, longest silence",
            median(silent),
            "s",
            at_most=0.5,
            evidence=f"worst {number(max(silent))} s",
        ),
        Figure(
            "SIGTERM, failed calls",
            len(load.errors),
            "calls",
            at_most=0,
            evidence=f"of {len(load.latencies):,}; worst call {number(load.worst)} s",
        ),
        Figure(
            "SIGTERM, workflow tasks timed out or failed",
            timed_out.total(),
            "tasks",
            at_most=0,
            evidence=", ".join(f"{count} x {kind}" for kind, count in timed_out.items()),
        ),
    ]


async def _stop_seconds(worker: ChildProcess) -> float:
    start = time.perf_counter()
    worker.terminate()
    await worker.wait_ended()
    return time.perf_counter() - start


async def _timed_out(client: AgentClient, agents: tuple[str, ...]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for agent in agents:
        identity = workflow_id(client.task_queue, agent_ref("Counter", agent))
        run_id: str | None = None
        handle = client.temporal.get_workflow_handle(identity)
        run_id = (await handle.describe()).raw_description.workflow_execution_info.first_run_id
        while run_id:
            next_run = ""
            handle = client.temporal.get_workflow_handle(identity, run_id=run_id)
            async for event in handle.fetch_history_events():
                if event.event_type in _TIMED_OUT:
                    kinds[_kind(event)] += 1
                attributes = event.workflow_execution_continued_as_new_event_attributes
                next_run = attributes.new_execution_run_id or next_run
            run_id = next_run
    return kinds


def _kind(event: HistoryEvent) -> str:
    if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
        cause = event.workflow_task_failed_event_attributes.cause
        return WorkflowTaskFailedCause.Name(cause).removeprefix("WORKFLOW_TASK_FAILED_CAUSE_")
    timeout = event.workflow_task_timed_out_event_attributes.timeout_type
    return TimeoutType.Name(timeout).removeprefix("TIMEOUT_TYPE_")


def _first_after(times: list[float], moment: float) -> float:
    return next((at for at in times if at > moment), float("inf")) - moment


def _longest_silence(times: list[float], begin: float, end: float) -> float:
    marks = [begin, *(at for at in times if begin < at < end), end]
    return max(later - earlier for earlier, later in pairwise(marks))


ROW = Row("P12", "SIGTERM under load", run)
