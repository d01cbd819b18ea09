"""What a handler can do that lasts: each effect carried out, and recorded in its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.caller import current_caller
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    AgentRuntimeError,
    HookLoopError,
    InternalError,
    InvalidRequestError,
    ReadonlyConnectionError,
)
from agent_runtime.handlers.effect_outcome import outcome_of, raise_error
from agent_runtime.handlers.effects import Effects, EffectSlot
from agent_runtime.handlers.handler_journal import HandlerJournal, current_place, run_within
from agent_runtime.handlers.remote import RemoteAgent
from agent_runtime.handlers.sql_statement import check_params, is_writing
from agent_runtime.json_value import Json, fingerprint, to_json
from agent_runtime.mutation import Mutation, MutationKind, Receipt
from agent_runtime.storage.effect_key import effect_key, inner_key
from agent_runtime.storage.protocol import ConnectionRow, EffectRow, OutboxRow, Transaction
from agent_runtime.storage.session_protocol import SessionReads, SessionWrites

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

T = TypeVar("T")

MAX_HOOK_DEPTH = 16
_MAX_BACKOFF_SECONDS = 60.0


class _RecordedError(Exception):
    """An effect is recorded already; carries the row."""

    def __init__(self, recorded: EffectRow) -> None:
        super().__init__()
        self.recorded = recorded


class Invocation(HandlerJournal, Effects):
    """The effects of one handler run, of a task of it, or of what an effect of it sets off."""

    async def mutate(
        self,
        kind: MutationKind,
        value: Json = None,
        expected_version: int | None = None,
        update: Callable[[Any], Any] | None = None,
    ) -> Receipt:
        """See `Agent.set_state` and its siblings."""
        position = self._take()
        mutation = Mutation(effect_key(self._key, position), kind, value, expected_version)
        asked = self._row(position, str(kind), mutation.fingerprint())
        recorded = await self._recall(asked)
        if recorded is not None:
            version = outcome_of(recorded.result)
            return Receipt(version or 0, applied=False, duplicate=True)
        try:
            return await self._commit(mutation, update)
        except Exception as error:
            version = await self._settle(asked, error)
            return Receipt(version, applied=False, duplicate=True)

    async def _commit(self, mutation: Mutation, update: Callable[[Any], Any] | None) -> Receipt:
        _check_may_change()
        depth = self.hook_depth + 1 if self._is_hook else self.hook_depth
        if depth > MAX_HOOK_DEPTH:
            raise HookLoopError(
                f"{self.ref}: on_state_changed has set the state {MAX_HOOK_DEPTH} times in a row, "
                "each time because of the time before; set it only when something changes",
                depth=depth,
            )
        mutations = [mutation]
        agent = self._agent
        if agent._is_initial_read:
            mutations.insert(0, Mutation("-", MutationKind.INIT))
        outcome = (await self._host.commit(agent, mutations, update, depth, self.agent_id))[-1]
        agent._is_initial_read = False
        if isinstance(outcome, AgentRuntimeError):
            raise outcome
        return outcome

    async def destroy(self) -> None:
        """See `Agent.destroy`."""
        position = self._take()
        mutation = Mutation(effect_key(self._key, position), MutationKind.DESTROY)
        asked = self._row(position, str(mutation.kind), mutation.fingerprint())
        recorded = await self._recall(asked)
        if recorded is not None:
            raise_error(recorded.result)
        try:
            _check_may_change()
        except ReadonlyConnectionError as error:
            await self._settle(asked, error)
        await self._host.destroy(self.ref, mutation, self.agent_id, self._call)

    async def sql(self, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """See `Agent.sql`."""
        check_params(query, params)
        if not is_writing(query):
            found = await self._host.storage.sql_read(self.ref, self.agent_id, query, params)
            if found is not None:
                return found
        asked = self._ask("sql", [query, [repr(param) for param in params]])
        recorded = await self._recall(asked)
        if recorded is not None:
            raise_error(recorded.result)
        try:
            # What is recorded of a statement is with its rows in the agent's own database.
            stored, rows = await self._host.storage.sql_once(self.ref, query, params, effect=asked)
        except Exception as error:
            await self._settle(asked, error)
            raise
        self._check_same(stored, asked)
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
                except Exception as error:
                    if isinstance(error, AgentRuntimeError) and not error.is_retryable:
                        raise
                    await asyncio.sleep(max(wait, _asked_pause_seconds(error)))
                    wait = min(wait * 2, _MAX_BACKOFF_SECONDS)
            return await attempt(key)

        result: T = await self.effect(f"step {name!r}", name, all_attempts)
        return result

    async def emit(
        self, kind: str, payload: Json, *, connection: ConnectionRow | None = None
    ) -> None:
        """See `Effects.emit`."""
        effect = replace(self._ask(kind, payload), result="null")
        if await self._recall(effect) is not None:
            return
        text = to_json(payload, what="the message").decode()
        row = OutboxRow(self.agent_id, kind, 0, text, effect.created_at)

        async def unit(tx: Transaction) -> EffectRow:
            stored = await tx.add_effect(effect)
            if stored == effect:
                await tx.add_outbox([row])
                if connection is not None:
                    await tx.put_connection(connection)
            return stored

        self._check_same(await self._host.storage.write(unit), effect)

    async def connections(self) -> list[ConnectionRow]:
        """See `Effects.connections`."""
        return await self._host.storage.read_connections(self.ref)

    async def announce(self, kind: str, payload: Json) -> None:
        """See `Effects.announce`."""
        if not await self.connections():
            return
        text = to_json(payload, what="the message").decode()
        row = OutboxRow(self.agent_id, kind, 0, text, now_milliseconds())

        async def unit(tx: Transaction) -> None:
            await tx.hold_agent(self.agent_id)
            await tx.add_outbox([row])

        await self._host.storage.write(unit)

    @property
    def sessions(self) -> SessionReads:
        """See `Effects.sessions`."""
        return self._host.storage.sessions

    async def start_compaction(self, run: CompactionRun) -> bool:
        """See `Effects.start_compaction`."""
        return await self._host.start_compaction(run)

    async def run_compaction(self, run: CompactionRun) -> CompactionOutcome:
        """See `Effects.run_compaction`."""

        async def wait(key: str) -> Json:
            return asdict(await self._host.run_compaction(run, key))

        payload = [run.session_id, run.leaf_id]
        return CompactionOutcome(**await self.effect("compaction", payload, wait))

    @property
    def next_id(self) -> str:
        """See `Effects.next_id`."""
        return fingerprint([*self.ref, effect_key(self._key, self._position)])

    async def composite(self, kind: str, payload: Json, run: Callable[[], Awaitable[Json]]) -> Json:
        """See `Effects.composite`."""
        asked = self._ask(kind, payload)
        recorded = await self._recall(asked)
        if recorded is not None:
            return outcome_of(recorded.result)
        inner = self._nested(inner_key(self._key, asked.position))
        try:
            result = to_json(await run_within(inner, run), what=f"the result of {kind}").decode()
        except Exception as error:
            return await self._settle(asked, error)
        done = replace(asked, result=result)

        async def unit(tx: Transaction) -> EffectRow:
            await tx.delete_invocations([(self.agent_id, inner._key)])
            return await tx.add_effect(done)

        stored = await self._host.storage.write(unit)
        await self._host.storage.forget_sql_effects(self.ref, self.agent_id, inner._key)
        self._check_same(stored, asked)
        return outcome_of(stored.result)

    async def begin_effect(self, kind: str, payload: Json) -> EffectSlot:
        """See `Effects.begin_effect`."""
        asked = self._ask(kind, payload)
        recorded = await self._recall(asked)
        failed = await self._recall(replace(asked, position=_failure_of(asked.position)))
        return EffectSlot(asked, failed or recorded, is_taken=recorded is not None)

    async def end_effect(self, slot: EffectSlot, result: Json = None) -> None:
        """See `Effects.end_effect`."""
        text = to_json(result, what=f"the result of {slot.effect.kind}").decode()
        await self._record(replace(slot.effect, result=text))

    async def fail_effect(self, slot: EffectSlot, error: Exception) -> Json:
        """See `Effects.fail_effect`."""
        if not slot.is_taken:
            return await self._settle(slot.effect, error)
        # What was written stands; that it ended so is recorded beside it.
        beside = _failure_of(slot.effect.position)
        return await self._settle(replace(slot.effect, position=beside), error)

    async def write_sessions(
        self, unit: Callable[[SessionWrites], Awaitable[Json]], slot: EffectSlot | None
    ) -> Json:
        """See `Effects.write_sessions`."""

        async def held(tx: Transaction) -> Json:
            await tx.hold_agent(self.agent_id)
            return await unit(tx.sessions)

        if slot is None or slot.is_taken:
            return await self._host.storage.write(held)

        async def noted(tx: Transaction) -> Json:
            result = await held(tx)
            if result is False:
                return result
            text = to_json(result, what=f"the result of {slot.effect.kind}").decode()
            done = replace(slot.effect, result=text)
            stored = await tx.add_effect(done)
            if stored != done:
                # Another run of this invocation was first; what this unit wrote must not stay.
                raise _RecordedError(stored)
            return result

        try:
            result = await self._host.storage.write(noted)
        except _RecordedError as error:
            self._check_same(error.recorded, slot.effect)
            result = outcome_of(error.recorded.result)
        slot.is_taken = result is not False
        return result

    def agent(self, class_name: str, name: str) -> RemoteAgent:
        """See `Agent.agent`."""
        handle = self._host.agent(class_name, name)
        return RemoteAgent(lambda: current_invocation(self._agent), handle)

    async def run_apart(self, slot: EffectSlot, run: Callable[[], Awaitable[T]]) -> T:
        """See `Effects.run_apart`."""
        return await run_within(self._nested(inner_key(self._key, slot.effect.position)), run)


def current_invocation(agent: Agent[Any]) -> Invocation:
    """Return the invocation of the agent that the calling code runs in.

    Raises:
        InternalError: The code does not run in a handler of that agent.
    """
    place = current_place.get()
    if place is None or place.journal.ref != agent._ref:
        raise InternalError(
            f"{agent._ref}: only the agent's own handlers can do this; elsewhere use an AgentClient"
        )
    invocation = place.journal.of_this_task(place.position)
    assert isinstance(invocation, Invocation)
    return invocation


def _failure_of(position: int) -> int:
    """Return where it is recorded that an effect failed after its write."""
    return -1 - position


def _asked_pause_seconds(error: Exception) -> float:
    delay = error.next_retry_delay if isinstance(error, AgentRuntimeError) else None
    return 0.0 if delay is None else delay.total_seconds()


def _check_may_change() -> None:
    if current_caller().is_readonly:
        raise ReadonlyConnectionError("Connection is readonly")
