"""The agents that live in this process: their objects, their start, their commits."""

from __future__ import annotations

import asyncio
import inspect
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from agent_runtime.agent import Agent
from agent_runtime.commit import Committed, Committer
from agent_runtime.decision import CommitRequest
from agent_runtime.direct_channel import DirectChannel
from agent_runtime.errors import (
    AUTHOR_ERRORS,
    AgentRuntimeError,
    AgentStartError,
    InternalError,
    StateRejectedError,
    describe,
    text_of,
)
from agent_runtime.handle import AgentHandle
from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.invocation import Invocation, current_invocation, run_within
from agent_runtime.json_value import Json
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Outcome
from agent_runtime.outcomes import Outcomes
from agent_runtime.registry import AgentDefinition, AgentRegistry
from agent_runtime.state import UNSET, StateSchema, Unset, parse_stored
from agent_runtime.state_change import StateRules
from agent_runtime.storage.agent_number import agent_number
from agent_runtime.storage.protocol import Retention, Storage

if TYPE_CHECKING:
    from agent_runtime.client import AgentClient

MAX_INSTANCES = 10_000


class Runner(Protocol):
    """What runs an agent's handlers in this process."""

    def notify(self, *, looks_back: bool) -> bool:
        """Look at the inbox, at all of it or at what is new; False if another runner must."""


class _Instance:
    """An agent's object; `users` keeps it in memory while its code runs."""

    def __init__(self, agent: Agent[Any], *, is_started: bool) -> None:
        self.agent = agent
        self.users = 0
        self.is_started = is_started
        self.start: asyncio.Task[None] | None = None


class _InstanceRules:
    """The rules of a class whose validator is a method of the agent's object."""

    has_validator = True

    def __init__(self, definition: AgentDefinition, agent: Agent[Any]) -> None:
        self._definition = definition
        self._agent = agent

    @property
    def schema(self) -> StateSchema[Any]:
        return self._definition.schema

    def check_call(self, method: str, args: list[Json], event: str = "") -> None:
        self._definition.check_call(method, args, event)

    def validate(self, current: Json | Unset, next_state: Json, source: str) -> None:
        agent = self._agent
        # Typed to return nothing, but an author may have written `async def` in a base class.
        validate: Callable[[Any, str], object] = agent.validate_state_change
        try:
            with agent._deciding_over(current):
                refusal = validate(self.schema.load(orjson.dumps(next_state)), source)
        except StateRejectedError:
            raise
        except AUTHOR_ERRORS as error:
            raise StateRejectedError(text_of(error) or type(error).__name__) from error
        if inspect.isawaitable(refusal):
            if inspect.iscoroutine(refusal):
                refusal.close()
            raise StateRejectedError("validate_state_change must not be async")


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
        self._channel: DirectChannel | None = None
        self._committer = Committer(storage, on_commit=self._committed, retention=retention)
        self._instances: OrderedDict[AgentRef, _Instance] = OrderedDict()

    def connect(self, client: AgentClient) -> None:
        """Let handlers reach other agents through `client`, and tell it of calls that end here."""
        self._channel = DirectChannel(client.channel, self.commit_batch)
        self.outcomes = client.channel.outcomes

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return another agent, as handlers reach it."""
        if self._channel is None:
            raise InternalError("this process has no connection to other agents")
        return AgentHandle(self._channel, agent_ref(class_name, name))

    async def commit_batch(self, batch: AgentBatch) -> list[Outcome]:
        """Commit mutations that came from outside; one outcome each.

        What refuses all of them, such as an unknown class, is the outcome of each.

        Raises:
            StorageUnavailableError: Nothing was stored; repeat it.
        """
        ref = batch.ref
        try:
            definition = self.registry.definition(ref.class_name)
            if not (definition.has_validator or definition.has_start):
                return await self._submit(definition, ref, batch.mutations, definition)
            async with self.using(ref) as agent:
                rules = self._rules(definition, agent)
                return await self._submit(definition, ref, batch.mutations, rules)
        except AgentRuntimeError as error:
            if error.is_retryable:
                raise
            return [error] * len(batch.mutations)

    async def commit(
        self,
        agent: Agent[Any],
        mutations: list[Mutation],
        update: Callable[[Any], Any] | None,
        hook_depth: int,
    ) -> list[Outcome]:
        """Commit mutations made by the agent's own code."""
        definition = self.registry.definition(agent._ref.class_name)
        rules = self._rules(definition, agent)
        return await self._submit(
            definition, agent._ref, mutations, rules, update=update, hook_depth=hook_depth
        )

    async def store_initial_state(self, agent: Agent[Any]) -> None:
        """Store `initial_state` if a handler has read it (state-and-sync 7.2)."""
        if agent._is_initial_read:
            agent._is_initial_read = False
            [outcome] = await self.commit(agent, [Mutation("-", MutationKind.INIT)], None, 0)
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
        instance = self._instances.get(ref)
        if instance is None:
            instance = self._make(definition, ref)
        self._instances.move_to_end(ref)
        instance.users += 1
        try:
            stored = await self.storage.read_state(ref)
            if stored is not None and stored.version != instance.agent._stored_version:
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
        except AUTHOR_ERRORS as error:
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
            agent_id = await self.agent_id(agent._ref)
            invocation = Invocation(self, agent, agent_id, f"start/{uuid.uuid4()}")
            await run_within(invocation, agent.on_start)
            await self.store_initial_state(agent)
            instance.is_started = True
        except AUTHOR_ERRORS as error:
            if isinstance(error, AgentRuntimeError) and error.is_retryable:
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
        *,
        update: Callable[[Any], Any] | None = None,
        hook_depth: int = 0,
    ) -> list[Outcome]:
        return await self._committer.commit(
            CommitRequest(ref, mutations, rules, update, definition.has_hook, hook_depth)
        )

    def _rules(self, definition: AgentDefinition, agent: Agent[Any]) -> StateRules:
        return _InstanceRules(definition, agent) if definition.has_validator else definition

    def _committed(self, commits: list[Committed]) -> None:
        for commit in commits:
            instance = self._instances.get(commit.ref)
            if instance is not None and commit.state is not None:
                instance.agent._show(commit.state.state, commit.state.version)
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
