"""An agent's conversations: every write is an effect of the handler that makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeVar

from agent_runtime.handlers.effect_outcome import outcome_of
from agent_runtime.handlers.effects import Effects, EffectSlot
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.session.session_store import SessionStore, SessionUnit
from agent_runtime.storage.session_protocol import SessionReads

T = TypeVar("T")

_slot: ContextVar[EffectSlot | None] = ContextVar("agent_runtime_session_slot", default=None)


class SessionJournal(SessionStore):
    """The `SessionStore` of an agent, usable in its handlers.

    An operation takes one position in the handler's journal, and its first write is recorded there
    in the same transaction. A repeated handler gets the recorded result, or the error if there was
    one; what an operation derives from what is stored, such as a summary or a frozen prompt, takes
    no position, because whether it is needed may differ from run to run; nor does what observers
    and compaction functions do.
    """

    def __init__(self, agent: AgentRef, effects: Callable[[], Effects]) -> None:
        self._agent = agent
        self._effects = effects

    @property
    def agent(self) -> AgentRef:
        """See `SessionStore.agent`."""
        return self._agent

    @property
    def reads(self) -> SessionReads:
        """See `SessionStore.reads`."""
        return self._effects().sessions

    async def write(
        self, kind: str, payload: Json, unit: SessionUnit, *, is_derived: bool = False
    ) -> Json:
        """See `SessionStore.write`."""
        effects = self._effects()
        outer = _slot.get()
        if is_derived or outer is not None:
            return await effects.write_sessions(unit, None if is_derived else outer)
        slot = await effects.begin_effect(kind, payload)
        if slot.recorded is not None:
            return outcome_of(slot.recorded.result)
        try:
            result = await effects.write_sessions(unit, slot)
        except Exception as error:
            return await effects.fail_effect(slot, error)
        if not slot.is_taken:
            await effects.end_effect(slot, result)
        return result

    async def once(
        self,
        kind: str,
        payload: Json,
        run: Callable[[], Awaitable[T]],
        recall: Callable[[Json], Awaitable[T]],
    ) -> T:
        """See `SessionStore.once`."""
        if _slot.get() is not None:
            return await run()
        effects = self._effects()
        slot = await effects.begin_effect(kind, payload)
        if slot.recorded is not None:
            return await recall(outcome_of(slot.recorded.result))
        token = _slot.set(slot)
        try:
            result = await effects.run_apart(slot, run)
        except Exception as error:
            failure = error
        else:
            if not slot.is_taken:
                await effects.end_effect(slot)
            return result
        finally:
            _slot.reset(token)
        return await recall(await effects.fail_effect(slot, failure))
