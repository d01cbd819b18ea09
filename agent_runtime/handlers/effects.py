"""What a handler can do that lasts, as an agent's methods see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.json_value import Json
from agent_runtime.mutation import MutationKind, Receipt
from agent_runtime.storage.protocol import ConnectionRow, EffectRow
from agent_runtime.storage.session_protocol import SessionReads, SessionWrites

if TYPE_CHECKING:
    from agent_runtime.handlers.remote import RemoteAgent

T = TypeVar("T")


@dataclass(slots=True)
class EffectSlot:
    """A position in a handler's journal.

    Args:
        effect: What is asked for there.
        recorded: What was recorded there before a crash, None if nothing was.
        is_taken: A write has carried it out, or had.
    """

    effect: EffectRow
    recorded: EffectRow | None
    is_taken: bool = False


class Journal(Protocol):
    """Runs effects once; a repeated handler gets their recorded results."""

    @property
    def key(self) -> str:
        """The key of the call that this is a part of, unique within its agent."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Keys of the handler invocations that wait for this one."""

    @property
    def hook_depth(self) -> int:
        """How many change hooks, one through the other, led here."""

    async def effect(self, kind: str, payload: Json, run: Callable[[str], Awaitable[Json]]) -> Json:
        """Run an effect unless it is recorded, record it, and return its result in JSON form.

        An error that is an answer (`effect_outcome.is_answer`) is recorded and raised anew, too.

        Args:
            kind: Names the effect in errors; with `payload` it tells effects apart.
            run: Given an idempotency key of the effect's own.
        """


class Effects(Protocol):
    """The lasting effects of the handler that is running."""

    async def mutate(
        self,
        kind: MutationKind,
        value: Json = None,
        expected_version: int | None = None,
        update: Callable[[Any], Any] | None = None,
    ) -> Receipt:
        """Change the agent's state."""

    async def destroy(self) -> None:
        """Destroy the agent."""

    async def sql(self, query: str, params: Sequence[Json]) -> list[dict[str, Json]]:
        """Run a statement on the agent's own database."""

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        attempts: int,
        timeout: timedelta | None,
        backoff: timedelta,
    ) -> T:
        """Run an outside effect once."""

    async def emit(
        self, kind: str, payload: Json, *, connection: ConnectionRow | None = None
    ) -> None:
        """Put an entry into the change feed, and note what changes of a connection with it."""

    async def connections(self) -> list[ConnectionRow]:
        """Return the agent's open connections."""

    async def announce(self, kind: str, payload: Json) -> None:
        """Put an entry into the change feed if anybody is connected; repeated with the handler."""

    @property
    def sessions(self) -> SessionReads:
        """What is stored of conversations."""

    async def start_compaction(self, run: CompactionRun) -> bool:
        """Begin a compaction job; False if one runs for the session and branch already."""

    async def run_compaction(self, run: CompactionRun) -> CompactionOutcome:
        """Run a compaction job, or join the one that runs, and wait for its end."""

    @property
    def next_id(self) -> str:
        """An id of the effect that comes next, the same in every run of the handler."""

    async def composite(self, kind: str, payload: Json, run: Callable[[], Awaitable[Json]]) -> Json:
        """Run code that may have effects of its own, once, and record its result.

        A repeat that finds the result does not run the code; one that does not finds those effects
        that were committed.
        """

    async def begin_effect(self, kind: str, payload: Json) -> EffectSlot:
        """Take the next position for an effect that a later write carries out."""

    async def end_effect(self, slot: EffectSlot, result: Json = None) -> None:
        """Record that an effect has ended without a write of its own."""

    async def fail_effect(self, slot: EffectSlot, error: Exception) -> Json:
        """Record the error that an effect has ended with, if it is an answer, and raise it.

        If another run of the handler was first, what that one recorded is the outcome.
        """

    async def write_sessions(
        self, unit: Callable[[SessionWrites], Awaitable[Json]], slot: EffectSlot | None
    ) -> Json:
        """Change conversations in one transaction, as the effect of a slot if one is given.

        A result of False says that nothing was done; the slot stays free then.
        """

    async def run_apart(self, slot: EffectSlot, run: Callable[[], Awaitable[T]]) -> T:
        """Run an operation whose effects, but for the slot's own, have a journal of their own.

        A repeat that finds the slot recorded does not run it, and needs the same positions.
        """

    def agent(self, class_name: str, name: str) -> RemoteAgent:
        """Return another agent."""
