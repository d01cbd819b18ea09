"""What an agent can do with its live clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from agent_runtime.agent_connection import BROADCAST, Connection, Message, frame_payload
from agent_runtime.errors import InvalidRequestError
from agent_runtime.http_message import Request, Response
from agent_runtime.json_value import Json

if TYPE_CHECKING:
    from agent_runtime.handlers.effects import Effects


class ConnectedAgent:
    """Connections and their hooks; a part of `Agent` (state-and-sync 4, 8 to 10, 14)."""

    sends_identity_on_connect: bool = True
    """Tell each client the agent's name and class when it connects."""

    may_clients_write: bool = True
    """Take the states that clients send; if not, they can change it by calls alone."""

    _effects: Callable[[], Effects]

    async def broadcast(self, message: Message | Json, without: Sequence[str] = ()) -> None:
        """Send to every open connection, whatever its flags, but those with an id in `without`."""
        payload = {**frame_payload(message), "without": list(without)}
        await self._effects().emit(BROADCAST, payload)

    async def connections(self, tag: str | None = None) -> list[Connection]:
        """Return the open connections, oldest first; those with a tag if one is given."""
        rows = await self._effects().connections()
        found = [Connection(row, self._effects) for row in rows]
        return [connection for connection in found if tag is None or tag in connection.tags]

    async def get_connection(self, connection_id: str) -> Connection | None:
        """Return the open connection with an id, or None.

        Raises:
            InvalidRequestError: There are two, as happens while a client reconnects.
        """
        found = [one for one in await self.connections() if one.id == connection_id]
        if len(found) > 1:
            raise InvalidRequestError(
                f"More than one connection found for id {connection_id}. "
                "Did you mean to use connections(tag) instead?"
            )
        return found[0] if found else None

    async def on_request(self, request: Request) -> Response | Any:
        """Answer an HTTP request; a value that is no `Response` becomes its body."""
        return Response("Not implemented", 404)

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Be told of a new connection; what it raises closes it with 1011."""

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Be given a frame that is neither a state nor a call."""

    async def on_close(
        self, connection: Connection, code: int, reason: str, was_clean: bool
    ) -> None:
        """Be told that a connection has closed."""

    async def get_connection_tags(self, connection: Connection, request: Request) -> list[str]:
        """Return tags for a new connection: at most nine, 1 to 256 characters each."""
        return []

    def should_connection_be_readonly(self, connection: Connection, request: Request) -> bool:
        """Tell whether a new connection may not change the state."""
        return False

    def should_send_protocol_messages(self, connection: Connection, request: Request) -> bool:
        """Tell whether a new connection gets identity and state frames."""
        return True
