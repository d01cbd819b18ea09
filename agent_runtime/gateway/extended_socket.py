"""A socket of a client of ours: versions on state frames, and deltas if it asked for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import ClassVar

from agent_runtime.agent_connection import Message
from agent_runtime.gateway.client_socket import COALESCE_FROM, ClientSocket
from agent_runtime.gateway.json_delta import json_delta
from agent_runtime.json_value import from_json, pack


@dataclass(slots=True)
class ExtendedSocket(ClientSocket):
    """As `ClientSocket`; what comes before the greeting, if there is one, waits for it.

    Args:
        wants_deltas: A state is sent as what has changed since the last one, if that is shorter.
    """

    hears_every_version: ClassVar[bool] = True

    wants_deltas: bool = False
    _known_text: str | None = None
    _early: list[Callable[[], None]] | None = field(default_factory=list)

    def begin(self, greeting: Callable[[], None]) -> None:
        """Send the greeting, and after it what has come meanwhile."""
        early, self._early = self._early or [], None
        greeting()
        for each in early:
            each()

    def know(self, text: str, version: int) -> None:
        """Note a state that the client has from an earlier connection; `text` is a state frame."""
        self._known_text, self.sent_version = text, version

    def send(self, message: Message, *, is_state: bool = False) -> None:
        """Queue a frame."""
        if self._early is not None and self.row.has_protocol:
            self._early.append(partial(self.send, message, is_state=is_state))
            return
        ClientSocket.send(self, message, is_state=is_state)

    def send_state(self, text: str, version: int) -> None:
        """Queue a state frame with its version, or a delta to it."""
        if self._early is not None:
            self._early.append(partial(self.send_state, text, version))
            return
        whole = f'{{"version":{version},{text[1:]}'
        if self.wants_deltas and self._known_text is not None and self._keeps_all():
            delta = _delta_frame(self._known_text, text, self.sent_version, version)
            whole = min(whole, delta, key=len)
        self._known_text = text if self.wants_deltas else None
        self.sent_version = version
        self.send(whole, is_state=True)

    def _keeps_all(self) -> bool:
        # Else the frame that is queued now takes the place of those that a delta would build on.
        return len(self._waiting) < COALESCE_FROM


# Clients of one agent mostly are at the same version: the delta is made once for all of them.
@lru_cache(maxsize=8)
def _delta_frame(before: str, after: str, from_version: int, version: int) -> str:
    patch = json_delta(from_json(before)["state"], from_json(after)["state"])
    fields = {"from_version": from_version, "version": version, "patch": patch}
    return pack({"type": "agent_runtime_delta", **fields}).decode()
