"""What a handler can do that lasts, as an agent's methods see it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent_runtime.json_value import Json
from agent_runtime.mutation import MutationKind, Receipt
from agent_runtime.storage.protocol import ConnectionRow

if TYPE_CHECKING:
    from agent_runtime.remote import RemoteAgent

T = TypeVar("T")


class Journal(Protocol):
    """Runs effects once; a repeated handler gets their recorded results."""

    @property
    def key(self) -> str:
        """The invocation's key, unique within its agent."""

    @property
    def chain(self) -> tuple[str, ...]:
        """Keys of the handler invocations that wait for this one."""

    @property
    def hook_depth(self) -> int:
        """How many change hooks, one through the other, led here."""

    async def effect(self, kind: str, payload: Json, run: Callable[[str], Awaitable[Json]]) -> Json:
        """Run an effect unless it is recorded, record it, and return its result in JSON form.

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

    def agent(self, class_name: str, name: str) -> RemoteAgent:
        """Return another agent."""
