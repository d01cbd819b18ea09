"""One run of a handler: where its durable effects go, and what a repeat finds of them.

Each effect takes the next position of its invocation. An effect that was committed before a crash
is found at its position when the handler is repeated: its recorded result is returned and nothing
happens again. Another effect at that position means that the two runs differ, which is refused.
"""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent_runtime.caller import current_caller
from agent_runtime.effects import Effects, Journal
from agent_runtime.errors import (
    AgentRuntimeError,
    HandlerDivergedError,
    HookLoopError,
    InternalError,
    InvalidRequestError,
    ReadonlyConnectionError,
    SqlError,
)
from agent_runtime.json_value import Json, fingerprint, from_json, to_json
from agent_runtime.mutation import Mutation, MutationKind, Receipt
from agent_runtime.remote import RemoteAgent
from agent_runtime.storage.effect_key import effect_key
from agent_runtime.storage.protocol import (
    ConnectionRow,
    EffectRow,
    OutboxRow,
    Storage,
    Transaction,
)

if TYPE_CHECKING:
    from agent_runtime.agent import Agent
    from agent_runtime.handle import AgentHandle
    from agent_runtime.mutation import Outcome

T = TypeVar("T")

MAX_HOOK_DEPTH = 16
_MAX_BACKOFF_SECONDS = 60.0
_READING = re.compile(r"\s*(select|values|explain|pragma)\b", re.IGNORECASE)
_FORBIDDEN = re.compile(
    r"\s*(attach|detach|begin|commit|end|rollback|savepoint|release)\b", re.IGNORECASE
)
_WITH = re.compile(r"\s*with\b", re.IGNORECASE)
_WRITING_WORD = re.compile(r"\b(insert|update|delete|replace)\b", re.IGNORECASE)
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)

_current: ContextVar[Invocation | None] = ContextVar("agent_runtime_invocation", default=None)


class InvocationHost(Protocol):
    """What an invocation needs of the process it runs in."""

    @property
    def storage(self) -> Storage:
        """Where effects are noted."""

    def agent(self, class_name: str, name: str) -> AgentHandle:
        """Return another agent, as handlers reach it."""

    async def commit(
        self,
        agent: Agent[Any],
        mutations: list[Mutation],
        update: Callable[[Any], Any] | None,
        hook_depth: int,
    ) -> list[Outcome]:
        """Commit mutations of an agent that lives in this process."""


class Invocation(Effects, Journal):
    """The effects of one handler run.

    Args:
        agent: The agent whose handler runs.
        agent_id: Its number in the storage.
        key: Unique within the agent; the same for all repeats of the run.
        recorded: The effects that an earlier run of the same invocation committed.
        hook_depth: How many change hooks, one through the other, led here.
        is_hook: This run is a change hook itself.
        chain: Keys of the exclusive invocations that wait for this one.
    """

    def __init__(
        self,
        host: InvocationHost,
        agent: Agent[Any],
        agent_id: int,
        key: str,
        recorded: Sequence[EffectRow] = (),
        *,
        hook_depth: int = 0,
        is_hook: bool = False,
        chain: tuple[str, ...] = (),
    ) -> None:
        self._host = host
        self.ref = agent._ref
        self._agent = agent
        self._key = key
        self._hook_depth = hook_depth
        self._chain = chain
        self._is_hook = is_hook
        self._agent_id = agent_id
        self._recorded = {effect.position: effect for effect in recorded}
        self._position = 0

    @property
    def key(self) -> str:
        """See `Journal.key`."""
        return self._key

    @property
    def chain(self) -> tuple[str, ...]:
        """See `Journal.chain`."""
        return self._chain

    @property
    def hook_depth(self) -> int:
        """See `Journal.hook_depth`."""
        return self._hook_depth

    async def mutate(
        self,
        kind: MutationKind,
        value: Json = None,
        expected_version: int | None = None,
        update: Callable[[Any], Any] | None = None,
    ) -> Receipt:
        """See `Agent.set_state` and its siblings."""
        caller = current_caller().connection
        if caller is not None and caller.is_readonly:
            raise ReadonlyConnectionError("Connection is readonly")
        depth = self.hook_depth + 1 if self._is_hook else self.hook_depth
        if depth > MAX_HOOK_DEPTH:
            raise HookLoopError(
                f"{self.ref}: on_state_changed has set the state {MAX_HOOK_DEPTH} times in a row, "
                "each time because of the time before; set it only when something changes",
                depth=depth,
            )
        position = self._take()
        mutation = Mutation(effect_key(self.key, position), kind, value, expected_version)
        recorded = self._recall(position, kind, mutation.fingerprint())
        if recorded is not None:
            return Receipt(int(recorded.result or 0), applied=False, duplicate=True)
        mutations = [mutation]
        agent = self._agent
        if agent._is_initial_read:
            mutations.insert(0, Mutation("-", MutationKind.INIT))
        outcome = (await self._host.commit(agent, mutations, update, depth))[-1]
        agent._is_initial_read = False
        if isinstance(outcome, AgentRuntimeError):
            raise outcome
        return outcome

    async def sql(self, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """See `Agent.sql`."""
        _check_params(query, params)
        if not _is_writing(query):
            return await self._host.storage.sql(self.ref, query, params)
        position = self._take()
        effect = self._effect(position, "sql", [query, [repr(param) for param in params]], None)
        self._recall(position, effect.kind, effect.fingerprint)
        stored, rows = await self._host.storage.sql_once(self.ref, query, params, effect=effect)
        self._check_same(stored, effect.kind, effect.fingerprint)
        return rows

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        attempts: int = 1,
        timeout: timedelta | None = None,
        backoff: timedelta = timedelta(seconds=1),
    ) -> T:
        """See `Agent.step`."""
        if attempts < 1:
            raise InvalidRequestError(f"step {name!r}: attempts must be at least 1")

        async def attempt(_: str) -> Json:
            limit = None if timeout is None else timeout.total_seconds()
            async with asyncio.timeout(limit):
                return await run()

        async def all_attempts(key: str) -> Json:
            wait = backoff.total_seconds()
            for _ in range(attempts - 1):
                try:
                    return await attempt(key)
                except Exception:
                    await asyncio.sleep(wait)
                    wait = min(wait * 2, _MAX_BACKOFF_SECONDS)
            return await attempt(key)

        result: T = await self.effect(f"step {name!r}", name, all_attempts)
        return result

    async def effect(self, kind: str, payload: Json, run: Callable[[str], Awaitable[Json]]) -> Json:
        """See `Journal.effect`."""
        position = self._take()
        asked = self._effect(position, kind, payload, None)
        recorded = self._recall(position, kind, asked.fingerprint)
        if recorded is not None:
            return from_json(recorded.result or "null")
        key = f"effect-{fingerprint([*self.ref, effect_key(self.key, position)])}"
        result = to_json(await run(key), what=f"the result of {kind}").decode()
        done = self._effect(position, kind, payload, result)
        stored = await self._host.storage.write(lambda tx: tx.add_effect(done))
        self._check_same(stored, kind, asked.fingerprint)
        return from_json(stored.result or "null")

    async def emit(
        self, kind: str, payload: Json, *, connection: ConnectionRow | None = None
    ) -> None:
        """See `Effects.emit`."""
        position = self._take()
        effect = self._effect(position, kind, payload, "null")
        if self._recall(position, kind, effect.fingerprint) is not None:
            return
        text = to_json(payload, what="the message").decode()
        row = OutboxRow(self._agent_id, kind, 0, text, effect.created_at)

        async def unit(tx: Transaction) -> EffectRow:
            stored = await tx.add_effect(effect)
            if stored == effect:
                await tx.add_outbox([row])
                if connection is not None:
                    await tx.put_connection(connection)
            return stored

        self._check_same(await self._host.storage.write(unit), kind, effect.fingerprint)

    async def connections(self) -> list[ConnectionRow]:
        """See `Effects.connections`."""
        return await self._host.storage.read_connections(self.ref)

    def agent(self, class_name: str, name: str) -> RemoteAgent:
        """See `Agent.agent`."""
        return RemoteAgent(self, self._host.agent(class_name, name))

    def _take(self) -> int:
        position = self._position
        self._position += 1
        return position

    def _effect(self, position: int, kind: str, payload: Json, result: str | None) -> EffectRow:
        now = time.time_ns() // 1_000_000
        digest = fingerprint([kind, payload])
        return EffectRow(self._agent_id, self.key, position, kind, digest, result, now)

    def _recall(self, position: int, kind: str, digest: str) -> EffectRow | None:
        recorded = self._recorded.get(position)
        if recorded is not None:
            self._check_same(recorded, kind, digest)
        return recorded

    def _check_same(self, recorded: EffectRow, kind: str, digest: str) -> None:
        if recorded.kind == kind and recorded.fingerprint == digest:
            return
        what = f"{recorded.kind} with another payload" if recorded.kind == kind else recorded.kind
        raise HandlerDivergedError(
            f"{self.ref}: the repeated handler asks for {kind} as its effect number "
            f"{recorded.position + 1}, but had committed {what} there before the crash; make its "
            "effects depend only on its arguments and self.step results",
            position=recorded.position,
            asked=kind,
            committed=recorded.kind,
        )


def current_invocation(agent: Agent[Any]) -> Invocation:
    """Return the invocation of the agent that the calling code runs in.

    Raises:
        InternalError: The code does not run in a handler of that agent.
    """
    invocation = _current.get()
    if invocation is None or invocation.ref != agent._ref:
        raise InternalError(
            f"{agent._ref}: only the agent's own handlers can do this; elsewhere use an AgentClient"
        )
    return invocation


async def run_within(invocation: Invocation, run: Callable[[], Awaitable[T]]) -> T:
    """Run code as part of an invocation; it stays so across awaits and in tasks it starts."""
    token = _current.set(invocation)
    try:
        return await run()
    finally:
        _current.reset(token)


def _is_writing(query: str) -> bool:
    text = query
    while comment := _COMMENT.match(text):
        text = text[comment.end() :]
    if _FORBIDDEN.match(text):
        raise SqlError(
            "SQL query failed: each statement commits by itself, in the agent's own database; "
            "transactions and ATTACH are not available",
            query=query,
        )
    if _READING.match(text):
        return False
    return not _WITH.match(text) or _WRITING_WORD.search(text) is not None


def _check_params(query: str, params: Sequence[Json]) -> None:
    for index, param in enumerate(params):
        is_number = isinstance(param, int) or (isinstance(param, float) and math.isfinite(param))
        if param is not None and not is_number and not isinstance(param, (str, bytes)):
            raise SqlError(
                f"SQL query failed: value {index + 1} is {param!r:.60}; bind None, bool, int, "
                "float, str or bytes, and write objects as JSON text",
                query=query,
            )
