"""The newest state of an agent that has clients, as they are told it."""

from __future__ import annotations

from agent_runtime.client_view import ClientView
from agent_runtime.errors import ClientViewError
from agent_runtime.gateway.frames import state_frame, state_frame_of_text
from agent_runtime.hosting.state_reader import read_snapshot
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json
from agent_runtime.state import UNSET, Unset
from agent_runtime.storage.protocol import FeedRow, Storage


class ToldState:
    """Follows the feed's rows of one agent.

    Args:
        view: What clients see of the state; None for all of it.
    """

    def __init__(self, ref: AgentRef, view: ClientView | None) -> None:
        self.version = 0
        self.view = view
        self._ref = ref
        self._value: Json | Unset = UNSET
        self._told: str | None = None

    async def load(self, storage: Storage) -> Json | Unset:
        """Take the stored state and return what clients see of it; UNSET for nothing."""
        await self._read(storage)
        try:
            shown = self._value if self.view is None else self._view()
        except ClientViewError:
            return UNSET
        if self.view is not None:
            self._told = state_frame(shown)
        return shown

    async def advance(self, row: FeedRow, storage: Storage) -> str | None:
        """Take a newer version and return its frame; None if its view cannot be made."""
        follows = row.version == self.version + 1
        self.version = row.version
        if row.payload is not None and row.is_full:
            self._value = from_json(row.payload)
            if self.view is None:
                return state_frame_of_text(row.payload)
        elif row.payload is not None and follows and isinstance(self._value, dict):
            self._value = {**self._value, **from_json(row.payload)}
        else:
            await self._read(storage)
        return self.frame()

    def is_news(self, text: str) -> bool:
        """Note what is told now, and tell whether it is another view than the one before."""
        if self.view is None:
            return True
        told, self._told = self._told, text
        return text != told

    def frame(self) -> str | None:
        """Return the frame of the newest state; None if its view cannot be made."""
        if self.view is None:
            return state_frame(self._value)
        try:
            return state_frame(self._view())
        except ClientViewError:
            return None

    def _view(self) -> Json | Unset:
        assert self.view is not None
        return UNSET if self._value is UNSET else self.view.show(self._ref, self._value)

    async def _read(self, storage: Storage) -> None:
        snapshot = await read_snapshot(storage, self._ref)
        self.version = snapshot.version
        self._value = snapshot.value if snapshot.is_set else UNSET
