"""Clients of the product as processes of their own, all calling until they are told to stop."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from types import TracebackType

from agent_runtime.client.agent_client import AgentClient
from bench.support.core_log import quiet_core
from bench.support.load import Load, note

_START_SECONDS = 120.0


@dataclass(frozen=True)
class ClientPlan:
    """What one client process does.

    Args:
        data_dir: The workers' data directory, if the client may read it.
        callers: Per agent.
    """

    address: str
    queue: str
    data_dir: str | None
    agents: tuple[str, ...]
    callers: int


class ClientProcesses:
    """So many processes with the same plan; `async with` starts them and waits until all are warm.

    They are forked from a process that has loaded the product but not begun to use it: loading it
    anew in each would take longer than the measurement.
    """

    def __init__(self, plan: ClientPlan, count: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._pipes: list[Connection] = []
        self._processes: list[ForkServerProcess] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_main, args=(plan, theirs), daemon=True)
            self._pipes.append(ours)
            self._processes.append(process)

    async def __aenter__(self) -> ClientProcesses:
        for process in self._processes:
            process.start()
        await self._receive()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.join(2)
            if process.is_alive():
                process.kill()

    def go(self) -> None:
        """Let all begin to call."""
        self._tell("go")

    async def stop(self) -> Load:
        """Let all finish the calls under way, and return what they saw together."""
        self._tell("stop")
        whole = Load()
        for part in await self._receive():
            assert isinstance(part, Load)
            whole.seconds = max(whole.seconds, part.seconds)
            whole.latencies += part.latencies
            whole.acknowledged_at += part.acknowledged_at
            whole.errors += part.errors
        return whole

    def _tell(self, word: str) -> None:
        for pipe in self._pipes:
            pipe.send(word)

    async def _receive(self) -> Sequence[object]:
        return await asyncio.gather(*(asyncio.to_thread(_take, pipe) for pipe in self._pipes))


def _take(pipe: Connection) -> object:
    if not pipe.poll(_START_SECONDS):
        raise TimeoutError("a client process does not answer")
    message: object = pipe.recv()
    return message


def _main(plan: ClientPlan, pipe: Connection) -> None:
    asyncio.run(_call(plan, pipe))


async def _call(plan: ClientPlan, pipe: Connection) -> None:
    quiet_core()
    async with await AgentClient.connect(
        plan.address, task_queue=plan.queue, data_dir=plan.data_dir
    ) as client:
        pipe.send("ready")
        await asyncio.to_thread(pipe.recv)
        load = Load()
        is_over = asyncio.Event()
        numbers = itertools.count(os.getpid() * 1_000_000)

        async def caller(agent: str) -> None:
            handle = client.agent("Counter", agent)
            while not is_over.is_set():
                await note(
                    load,
                    lambda: handle.merge_state({"count": next(numbers)}),
                    time.perf_counter(),
                )

        start = time.perf_counter()
        callers = [
            asyncio.create_task(caller(agent)) for agent in plan.agents for _ in range(plan.callers)
        ]
        await asyncio.to_thread(pipe.recv)
        load.seconds = time.perf_counter() - start
        is_over.set()
        await asyncio.gather(*callers)
        pipe.send(load)
