"""One run of the benchmark: its server, workers, clients and what was measured already."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from temporalio.client import Client

from agent_runtime.call import EntityRun
from agent_runtime.client.agent_client import AgentClient
from agent_runtime.local.temporal_server import TemporalServer
from bench.support.accounting import ProcessorSpan
from bench.support.core_log import quiet_core
from bench.support.forms import ByHand, Form, Product, Prototype, PureFloor
from bench.support.load import Load, Submit, drive
from bench.support.processes import ChildProcess


@dataclass(frozen=True)
class Scale:
    """How long and how often to measure."""

    repetitions: int
    seconds: float
    is_quick: bool

    @classmethod
    def quick(cls) -> Scale:
        """Short: the whole table in about three minutes."""
        return cls(3, 0.6, is_quick=True)

    @classmethod
    def full(cls) -> Scale:
        """The table that counts."""
        return cls(5, 2.0, is_quick=False)

    def pick(self, full: int, quick: int) -> int:
        """Return the amount that fits the scale."""
        return quick if self.is_quick else full


@dataclass(frozen=True)
class Sample:
    """One repetition of one form."""

    load: Load
    used: dict[str, float]

    def per_operation(self, process: str) -> float:
        """Processor milliseconds of a process per call."""
        return self.used[process] / max(1, len(self.load.latencies)) * 1_000


Samples = dict[str, list[Sample]]
"""By form; the n-th samples of all forms were taken side by side."""


class Bench:
    """The stock development server, the product's worker and the peers' worker.

    Processes are started when a row first needs them and are ended with `async with`.
    """

    def __init__(
        self,
        folder: Path,
        scale: Scale,
        peers_python: str = sys.executable,
        reference: str | None = None,
    ) -> None:
        self.folder = folder
        self.peers_python = peers_python
        self.reference = reference
        self.scale = scale
        self.server = TemporalServer(folder / "temporal")
        self._stack = contextlib.AsyncExitStack()
        self._numbers = itertools.count()
        self._workers: dict[str, ChildProcess] = {}
        self._forms: list[Form] = []
        self._one_agent: dict[int, Samples] = {}

    async def __aenter__(self) -> Bench:
        quiet_core()
        await self._stack.enter_async_context(self.server)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def new_name(self, stem: str) -> str:
        """Return a name that this run has not used."""
        return f"{stem}-{next(self._numbers)}"

    def say(self, text: str) -> None:
        """Tell what is going on, beside the table."""
        print(f"  ... {text}", file=sys.stderr, flush=True)

    def data_dir(self, queue: str) -> Path:
        """Return the data directory of the worker on a task queue."""
        folder = self.folder / queue
        folder.mkdir(exist_ok=True)
        return folder

    async def start_worker(
        self, queue: str, *arguments: str, module: str = "bench.worker"
    ) -> ChildProcess:
        """Start a worker process, ended with the run at the latest."""
        worker = self.launch_worker(queue, *arguments, module=module)
        await worker.wait_ready()
        return worker

    def launch_worker(
        self, queue: str, *arguments: str, module: str = "bench.worker"
    ) -> ChildProcess:
        """Launch a worker process without waiting for it."""
        options = ["--address", self.server.address, "--queue", queue]
        options += ["--data-dir", str(self.data_dir(queue)), *arguments]
        log = self.folder / f"{self.new_name(queue)}.log"
        worker = ChildProcess(module, options, log)
        self._stack.push_async_callback(worker.stop)
        return worker

    async def worker(self) -> ChildProcess:
        """Return the product's common worker."""
        if "product" not in self._workers:
            self._workers["product"] = await self.start_worker("product")
        return self._workers["product"]

    async def peer_worker(self) -> ChildProcess:
        """Return the worker of the hand-written entities."""
        if "peers" not in self._workers:
            self._workers["peers"] = await self.start_worker(
                "peers", module="bench.peers.entity_worker"
            )
        return self._workers["peers"]

    async def client(
        self,
        queue: str = "product",
        *,
        has_storage: bool = False,
        entity: EntityRun | None = None,
    ) -> AgentClient:
        """Connect a client of the product's agents on a task queue."""
        client = await AgentClient.connect(
            self.server.address,
            task_queue=queue,
            data_dir=self.data_dir(queue) if has_storage else None,
            entity=entity,
        )
        return await self._stack.enter_async_context(client)

    async def forms(self) -> list[Form]:
        """Return all forms of the job, their workers running."""
        await self.worker()
        await self.peer_worker()
        if not self._forms:
            temporal = await Client.connect(self.server.address)
            self._forms = [
                Product(await self.client()),
                ByHand(temporal, "peers"),
                PureFloor(temporal, "peers"),
                Prototype(temporal, "peers"),
            ]
        return self._forms

    async def one_agent(self, callers: int) -> Samples:
        """Measure all forms with so many callers on one agent, in turns; only once per run."""
        if callers not in self._one_agent:
            self.say(f"one agent, {callers} callers, {self.scale.repetitions} repetitions")
            samples: Samples = {}
            for _ in range(self.scale.repetitions):
                for form in await self.forms():
                    agent = self.new_name("one")
                    submit = await form.open(agent)
                    samples.setdefault(form.name, []).append(
                        await self.sample(form, [submit], callers)
                    )
                    await form.close(agent)
            self._one_agent[callers] = samples
        return self._one_agent[callers]

    async def sample(self, form: Form, submits: list[Submit], callers: int) -> Sample:
        """Take one sample of a form."""
        worker = await (self.worker() if form.name == "product" else self.peer_worker())
        span = ProcessorSpan(server=self.server.pid or 0, worker=worker.pid, client=os.getpid())
        with span:
            load = await drive(submits, callers, self.scale.seconds)
        if load.errors:
            self.say(f"{form.name}: {len(load.errors)} calls failed, first: {load.errors[0]}")
        return Sample(load, span.used)
