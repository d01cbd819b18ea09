"""The agents that live in this process: their objects, their start, their commits."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from temporalio.service import RPCError

from agent_runtime.agent import Agent
from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.client.channel import Channel
from agent_runtime.client.handle import AgentHandle
from agent_runtime.client.outcomes import Outcomes
from agent_runtime.connection import unreachable
from agent_runtime.durable_compaction.compaction_start import run_compaction, try_compaction
from agent_runtime.durable_compaction.compaction_wait import cannot_wait
from agent_runtime.errors import (
    AgentDestroyedError,
    AgentRuntimeError,
    AgentStartError,
    InternalError,
    StorageError,
    describe,
    is_stop,
    repeats_handler,
)
from agent_runtime.handlers.handler_journal import run_within
from agent_runtime.handlers.invocation import Invocation, current_invocation
from agent_runtime.hosting.commit import Committed, Committer
from agent_runtime.hosting.decision import CommitRequest
from agent_runtime.hosting.destruction import destroy_rows, destroyed_error, finish_destroy
from agent_runtime.hosting.instance_rules import InstanceRules
from agent_runtime.hosting.state_change import StateRules
from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Outcome, Receipt
from agent_runtime.registry import AgentDefinition, AgentRegistry
from agent_runtime.state import UNSET, parse_stored
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.protocol import DestroyedAgent, Retention, Storage

if TYPE_CHECKING:
    from agent_runtime.client.agent_client import AgentClient

logger = logging.getLogger("agent_runtime")

MAX_INSTANCES = 10_000


class Runner(Protocol):
    """What runs an agent's handlers in this process."""

    def notify(self, *, looks_back: bool) -> bool:
        """Look at the inbox, at all of it or at what is new; False if another runner must."""

    def spare(self, call: str) -> None:
        """Let a call end that is about to destroy the agent."""

    def leave(self, agent_id: int) -> None:
        """Stop the handlers of a destroyed agent, but for those that are spared."""

    def has(self, agent_id: int, call: str) -> bool:
        """Tell whether a call of the agent with this number runs here."""


class _Instance:
    """An agent's object; `users` keeps it in memory while its code runs."""

    def __init__(self, agent: Agent[Any], *, is_started: bool) -> None:
        self.agent = agent
        self.users = 0
        self.agent_id = 0
        self.is_started = is_started
        self.start: asyncio.Task[None] | None = None

    def is_of(self, agent_id: int) -> bool:
        """Tell whether this is the agent with a number, 0 for none; a later one counts too.

        Who has read an earlier number was slow: an object that serves the present agent stays.
        """
        return self.agent_id in (0, agent_id) or 0 < agent_id < self.agent_id


class AgentHost:
    """Keeps agents' objects and commits their state.

    Args:
        on_inbox: Called with each agent that has handlers to run and no runner in this process.
    """

    def __init__(
        self,
        storage: Storage,
        registry: AgentRegistry,
        *,
        on_inbox: Callable[[AgentRef], None],
        retention: Retention | None = None,
    ) -> None:
        self.storage = storage
        self.registry = registry
        self.retention = retention or Retention()
        self.outcomes = Outcomes(None)
        self.runners: dict[AgentRef, Runner] = {}
        self._on_inbox = on_inbox
        self._channel: Channel | None = None
        self._committer = Committer(storage, on_commit=self._committed, retention=retention)
        self._instances: OrderedDict[AgentRef, _Instance] = OrderedDict()

    def connect(self, client: AgentClient) -> None:
        """Let handlers reach other agents through `client`, and tell it of calls that end here."""
        self._channel = client.channel
        self.outcomes = client.channel.outcomes

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return another agent, as handlers reach it."""
        return AgentHandle(self._connected(), agent_ref(class_name, name))

    async def commit_batch(self, batch: AgentBatch) -> list[Outcome]:
        """Commit mutations that came from outside; one outcome each.

        What refuses all of them, such as an unknown class, is the outcome of each.

        Raises:
            StorageUnavailableError: Nothing was stored; repeat it.
        """
        count = await self._count_gone(batch)
        outcomes: list[Outcome] = [destroyed_error(batch.ref)] * count
        for is_destroy, group in groupby(batch.mutations[count:], _is_destroy):
            mutations = list(group)
            for part in [[one] for one in mutations] if is_destroy else [mutations]:
                outcomes += await self._commit_part(batch.ref, part)
        return outcomes

    async def _count_gone(self, batch: AgentBatch) -> int:
        """Count what stands before a destroy that has happened: the batch is a repeat.

        It went with the agent, if it was done; it must not be done to the next one.
        """
        for index, mutation in reversed(list(enumerate(batch.mutations))):
            if _is_destroy(mutation) and await self._find_destroyed(batch.ref, mutation.key):
                return index
        return 0

    async def _find_destroyed(self, ref: AgentRef, key: str) -> DestroyedAgent | None:
        return await self.storage.write(lambda tx: tx.find_destroyed(ref, key))

    async def _commit_part(self, ref: AgentRef, mutations: list[Mutation]) -> list[Outcome]:
        try:
            definition = self.registry.definition(ref.class_name)
            if _is_destroy(mutations[0]):
                return [await self._destroy(ref, mutations[0])]
            if not (definition.needs_object or definition.has_start):
                return await self._submit(definition, ref, mutations, definition)
            async with self.using(ref) as agent:
                rules = self._rules(definition, agent)
                return await self._submit(definition, ref, mutations, rules)
        except AgentRuntimeError as error:
            if error.is_retryable:
                raise
            return [error] * len(mutations)

    async def commit(
        self,
        agent: Agent[Any],
        mutations: list[Mutation],
        update: Callable[[Any], Any] | None,
        hook_depth: int,
        agent_id: int | None = None,
    ) -> list[Outcome]:
        """Commit mutations made by the agent's own code.

        Args:
            agent_id: The number of the agent that the code runs for.

        Raises:
            AgentDestroyedError: There is no agent with that number any more.
        """
        definition = self.registry.definition(agent._ref.class_name)
        rules = self._rules(definition, agent)
        request = CommitRequest(
            agent._ref, mutations, rules, update, definition.has_hook, hook_depth, agent_id
        )
        return await self._committer.commit(request)

    async def start_compaction(self, run: CompactionRun) -> bool:
        """Begin a compaction job; False if one runs for the session and branch already.

        One that cannot be begun now is logged; whoever has no news of it asks again later.
        """
        try:
            return await try_compaction(self._connected(), run)
        except RPCError as error:
            logger.warning("%s/%s: no compaction now: %s", run.agent, run.name, error)
            return True

    async def run_compaction(self, run: CompactionRun, key: str) -> CompactionOutcome:
        """Run a compaction job, or join the one that runs, and wait for its end.

        Args:
            key: Names the request; asked again with it, the job's outcome is found.

        Raises:
            TemporalUnreachableError: Temporal did not answer.
        """
        try:
            return await run_compaction(self._connected(), run, key)
        except RPCError as error:
            raise unreachable(error) from error

    def _connected(self) -> Channel:
        if self._channel is None:
            raise InternalError("this process has no connection to other agents")
        return self._channel

    async def destroy(self, ref: AgentRef, mutation: Mutation, agent_id: int, call: str) -> None:
        """Destroy an agent from within a call of it, whose handler may end.

        Raises:
            AgentDestroyedError: There is no agent with that number any more.
        """
        await self._destroy(ref, mutation, agent_id, call)

    async def _destroy(
        self,
        ref: AgentRef,
        mutation: Mutation,
        agent_id: int | None = None,
        call: str | None = None,
    ) -> Receipt:
        runner = self.runners.get(ref)
        if runner is not None and call is not None:
            runner.spare(call)
        gone, receipt = await destroy_rows(
            self.storage, ref, mutation, agent_id=agent_id, without_call=call
        )
        instance = self._instances.get(ref)
        if instance is not None and instance.agent_id in (0, gone.agent_id):
            del self._instances[ref]
        runner = self.runners.get(ref)
        if runner is not None:
            runner.leave(gone.agent_id)
        if runner is not None and call is not None and runner.has(gone.agent_id, call):
            # It finishes what is left when the call has ended.
            await self.storage.delete_sql(ref, gone.agent_id)
        elif not gone.is_finished:
            await finish_destroy(self.storage, gone)
        return receipt

    async def store_initial_state(self, agent: Agent[Any], agent_id: int) -> None:
        """Store `initial_state` if a handler has read it (state-and-sync 7.2)."""
        if not agent._is_initial_read:
            return
        agent._is_initial_read = False
        init = [Mutation("-", MutationKind.INIT)]
        try:
            [outcome] = await self.commit(agent, init, None, 0, agent_id)
        except AgentDestroyedError:
            return  # there is nobody whose state it would be
        if isinstance(outcome, AgentRuntimeError):
            raise outcome

    @asynccontextmanager
    async def using(self, ref: AgentRef) -> AsyncIterator[Agent[Any]]:
        """Lend the agent's object, started, showing the newest committed state.

        Raises:
            UnknownAgentClassError: This worker does not serve the class.
            AgentStartError: `on_start` raised; the next contact tries again.
        """
        definition = self.registry.definition(ref.class_name)
        stored = await self.storage.read_state(ref)
        number = 0 if stored is None else stored.agent_id
        instance = self._instances.get(ref)
        if instance is None or not instance.is_of(number):
            instance = self._make(definition, ref)
        instance.agent_id = instance.agent_id or number
        self._instances.move_to_end(ref)
        instance.users += 1
        try:
            is_newer = stored is not None and stored.version != instance.agent._stored_version
            if stored is not None and is_newer and stored.agent_id == instance.agent_id:
                is_sound = parse_stored(stored.state) is not UNSET
                instance.agent._show(stored.state if is_sound else None, stored.version)
            if not instance.is_started:
                await self._start(instance)
            yield instance.agent
        finally:
            instance.users -= 1
            self._evict_surplus()

    async def agent_id(self, ref: AgentRef) -> int:
        """Return the agent's number in the storage, making the agent if it is new."""
        return await agent_number(self.storage, ref)

    def _make(self, definition: AgentDefinition, ref: AgentRef) -> _Instance:
        try:
            agent = definition.agent_class()
        except BaseException as error:
            if is_stop(error):
                raise
            raise AgentStartError(
                f"{ref}: {definition.class_name}() raised {describe(error)}"
            ) from error
        agent._bind(ref, definition.schema, lambda: current_invocation(agent))
        instance = _Instance(agent, is_started=not definition.has_start)
        self._instances[ref] = instance
        return instance

    async def _start(self, instance: _Instance) -> None:
        # One run for all who wait; it goes on when the first of them gives up.
        if instance.start is None:
            instance.start = asyncio.create_task(self._run_start(instance))
        await asyncio.shield(instance.start)

    async def _run_start(self, instance: _Instance) -> None:
        agent = instance.agent
        instance.users += 1
        try:
            agent_id = instance.agent_id = await self.agent_id(agent._ref)
            invocation = Invocation(self, agent, agent_id, f"start/{uuid.uuid4()}")
            try:
                with cannot_wait("on_start"):
                    await run_within(invocation, agent.on_start)
            finally:
                await invocation.forget()
            await self.store_initial_state(agent, agent_id)
            instance.is_started = True
        except BaseException as error:
            is_passing = isinstance(error, StorageError) or repeats_handler(error)
            if is_passing or is_stop(error):
                raise
            raise AgentStartError(f"{agent._ref}: on_start raised {describe(error)}") from error
        finally:
            instance.users -= 1
            instance.start = None

    async def _submit(
        self,
        definition: AgentDefinition,
        ref: AgentRef,
        mutations: list[Mutation],
        rules: StateRules,
    ) -> list[Outcome]:
        return await self._committer.commit(
            CommitRequest(ref, mutations, rules, has_hook=definition.has_hook)
        )

    def _rules(self, definition: AgentDefinition, agent: Agent[Any]) -> StateRules:
        return InstanceRules(definition, agent) if definition.needs_object else definition

    def _committed(self, commits: list[Committed]) -> None:
        for commit in commits:
            instance = self._instances.get(commit.ref)
            head = commit.state
            if instance is not None and head is not None:
                instance.agent_id = instance.agent_id or head.agent_id
                if instance.agent_id == head.agent_id:
                    instance.agent._show(head.state, head.version)
            if commit.has_entries or commit.has_cancellations:
                runner = self.runners.get(commit.ref)
                if runner is None or not runner.notify(looks_back=commit.has_cancellations):
                    self._on_inbox(commit.ref)

    def _evict_surplus(self) -> None:
        surplus = len(self._instances) - MAX_INSTANCES
        if surplus > 0:
            idle = [ref for ref, instance in self._instances.items() if instance.users == 0]
            for ref in idle[:surplus]:
                del self._instances[ref]


def _is_destroy(mutation: Mutation) -> bool:
    return mutation.kind is MutationKind.DESTROY
