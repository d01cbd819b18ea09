"""The journal of a handler: which of its effects is which, and what a repeat finds of them.

Each effect takes the next position of its journal. What came of an effect before a crash is found
at its position when the handler is repeated: its recorded result is returned, or its error raised,
and nothing happens again. Another effect at that position means that the two runs differ, which is
refused.

A handler has a journal for itself and one for each task that it begins, so tasks that run at the
same time do not mix their positions: a task is found again by the position that was next when it
was begun, and by its number among those begun there, in the order of their first use of the agent.

What an effect itself sets off, such as a step's function, a model's tool or a session's observer,
has a journal too: a repeat that finds the effect recorded does not set it off again, and needs the
same positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar, Token
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar
from weakref import WeakSet

from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import HandlerDivergedError
from agent_runtime.handlers.effect_outcome import error_text, is_answer, outcome_of
from agent_runtime.handlers.effects import Journal
from agent_runtime.handlers.invocation_host import InvocationHost
from agent_runtime.handlers.recorded_effects import recorded_effects
from agent_runtime.json_value import Json, fingerprint, to_json
from agent_runtime.storage.effect_key import effect_key, inner_key, task_key
from agent_runtime.storage.protocol import EffectRow

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

T = TypeVar("T")

_STOP_SECONDS = 5.0


class Place(NamedTuple):
    """Whose effects running code has, and which position is next there.

    A task is begun with a copy of it, which tells ever after where it was begun.
    """

    journal: HandlerJournal
    position: int


current_place: ContextVar[Place | None] = ContextVar("agent_runtime_invocation", default=None)


class HandlerJournal(Journal):
    """The effects of one handler run, of a task of it, or of what an effect of it sets off.

    Args:
        agent: The agent whose handler runs.
        agent_id: Its number in the storage.
        key: Unique within the agent; the same for all repeats of the run.
        recorded: What earlier runs have recorded under the key; None to read it when it is needed.
        call: The key of the call that this is a part of; `key` unless told.
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
        recorded: Sequence[EffectRow] | None = (),
        *,
        call: str | None = None,
        hook_depth: int = 0,
        is_hook: bool = False,
        chain: tuple[str, ...] = (),
    ) -> None:
        self._host = host
        self.ref = agent._ref
        self._agent = agent
        self._key = key
        self._call = call or key
        self._hook_depth = hook_depth
        self._chain = chain
        self._is_hook = is_hook
        self.agent_id = agent_id
        self._recorded = None if recorded is None else _by_position(recorded)
        self._position = 0
        self._task: asyncio.Task[Any] | None = None
        self._tasks_begun: dict[int, int] = {}
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    @property
    def key(self) -> str:
        """See `Journal.key`."""
        return self._call

    @property
    def chain(self) -> tuple[str, ...]:
        """See `Journal.chain`."""
        return self._chain

    @property
    def hook_depth(self) -> int:
        """See `Journal.hook_depth`."""
        return self._hook_depth

    async def effect(self, kind: str, payload: Json, run: Callable[[str], Awaitable[Json]]) -> Json:
        """See `Journal.effect`."""
        asked = self._ask(kind, payload)
        recorded = await self._recall(asked)
        if recorded is not None:
            return outcome_of(recorded.result)
        key = f"effect-{fingerprint([*self.ref, effect_key(self._key, asked.position)])}"
        inner = self._nested(inner_key(self._key, asked.position))
        try:
            found = await run_within(inner, lambda: run(key))
            result = to_json(found, what=f"the result of {kind}").decode()
        except Exception as error:
            return await self._settle(asked, error)
        return outcome_of((await self._record(replace(asked, result=result))).result)

    def of_this_task(self, begun_at: int) -> Self:
        """Return the one for the running task: this, or one for a task that was begun within.

        Args:
            begun_at: The position that was next when that task was begun.
        """
        task = _running_task()
        if task is None or task is self._task:
            return self
        number = self._tasks_begun.get(begun_at, 0)
        self._tasks_begun[begun_at] = number + 1
        journal = self._nested(task_key(self._key, begun_at, number))
        journal._tasks = self._tasks
        journal._tasks.add(task)
        journal.enter()
        return journal

    async def stop_tasks(self) -> None:
        """Cancel the tasks that were begun within and still run, and wait a while for their end."""
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_STOP_SECONDS)

    async def forget(self) -> None:
        """Delete what was recorded, if anything was: nobody repeats this run."""
        if self._position or self._tasks_begun:
            storage, key = self._host.storage, self._key
            await storage.write(lambda tx: tx.delete_invocations([(self.agent_id, key)]))
            await storage.forget_sql_effects(self.ref, self.agent_id, key)

    def enter(self) -> Token[Place | None]:
        """Let the running task's effects be these."""
        self._task = _running_task()
        return current_place.set(Place(self, self._position))

    def _nested(self, key: str) -> Self:
        return type(self)(
            self._host,
            self._agent,
            self.agent_id,
            key,
            None,
            call=self._call,
            hook_depth=self._hook_depth,
            is_hook=self._is_hook,
            chain=self._chain,
        )

    def _take(self) -> int:
        position = self._position
        self._position += 1
        place = current_place.get()
        if place is not None and place.journal is self:
            current_place.set(Place(self, self._position))
        return position

    def _ask(self, kind: str, payload: Json) -> EffectRow:
        return self._row(self._take(), kind, fingerprint([kind, payload]))

    def _row(self, position: int, kind: str, digest: str) -> EffectRow:
        now = now_milliseconds()
        return EffectRow(self.agent_id, self._key, position, kind, digest, None, now)

    async def _recall(self, asked: EffectRow) -> EffectRow | None:
        if self._recorded is None:
            found = await recorded_effects(self._host.storage, self.ref, self.agent_id, self._key)
            self._recorded = _by_position(found)
        recorded = self._recorded.get(asked.position)
        if recorded is not None:
            self._check_same(recorded, asked)
        return recorded

    async def _record(self, done: EffectRow) -> EffectRow:
        """Record an effect and return what is recorded, by another run if that was first."""
        stored = await self._host.storage.write(lambda tx: tx.add_effect(done))
        self._check_same(stored, done)
        return stored

    async def _settle(self, asked: EffectRow, error: Exception) -> Json:
        """Raise an error, which is recorded before if it is an answer.

        If another run was first, what that one recorded is the outcome.
        """
        task = _running_task()
        # What a handler that is being stopped ends with says nothing of a repeat.
        if is_answer(error) and not (task is not None and task.cancelling()):
            done = replace(asked, result=error_text(error))
            stored = await self._record(done)
            if stored.result != done.result:
                return outcome_of(stored.result)
        raise error

    def _check_same(self, recorded: EffectRow, asked: EffectRow) -> None:
        kind = asked.kind
        if recorded.kind == kind and recorded.fingerprint == asked.fingerprint:
            return
        what = f"{recorded.kind} with another payload" if recorded.kind == kind else recorded.kind
        where = "" if self._key == self._call else " in a task or tool of it"
        raise HandlerDivergedError(
            f"{self.ref}: the repeated handler asks for {kind} as its effect number "
            f"{recorded.position + 1}{where}, but had committed {what} there before the crash; "
            "make its effects, and the order in which its tasks come to their first, depend only "
            "on its arguments and self.step results",
            position=recorded.position,
            asked=kind,
            committed=recorded.kind,
        )


async def run_within(journal: HandlerJournal, run: Callable[[], Awaitable[T]]) -> T:
    """Run code whose effects go to a journal; it stays so across awaits and in tasks it starts.

    Tasks that it has started are stopped if it fails: its repeat is to find none of them going on.
    """
    token = journal.enter()
    try:
        return await run()
    except BaseException:
        await journal.stop_tasks()
        raise
    finally:
        current_place.reset(token)


def _by_position(effects: Sequence[EffectRow]) -> dict[int, EffectRow]:
    return {effect.position: effect for effect in effects}


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None  # a plain method, in a thread
