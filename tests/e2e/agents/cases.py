"""The agents of the contract's numbered cases."""

from __future__ import annotations

from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection, Message
from agent_runtime.http_message import Request, Response

COUNTER = {"count": 0, "items": [], "lastUpdated": None}


class GreetAgent(Agent):
    """Greets who connects and sends back what it is sent."""

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Say who it is."""
        await connection.send({"type": "text", "text": f"connected:{self.name}"})

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Send it back."""
        await connection.send({"type": "text", "text": f"echo:{message!s}"})


class StateAgent(Agent):
    """Has a validator, a change hook that remembers, and a request hook."""

    initial_state = COUNTER

    def __init__(self) -> None:
        self.changes: list[Any] = []
        self.errors: list[str] = []

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Refuse -1."""
        if next_state["count"] == -1:
            raise ValueError("count cannot be -1")

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Remember the change; fail for -2."""
        self.changes.append([state["count"], source])
        if state["count"] == -2:
            raise RuntimeError("onStateChanged failed")

    async def on_error(self, error: BaseException) -> None:
        """Remember the error."""
        self.errors.append(str(error))

    @callable()
    async def setState(self, state: Any) -> str:
        """Set the state by code, and say how it went."""
        await self.set_state(state)
        return "set"

    @callable()
    def getState(self) -> Any:
        """Return the state."""
        return self.state

    @callable()
    def noted(self) -> Any:
        """Return what the hooks remember."""
        return {"changes": self.changes, "errors": self.errors}

    @callable()
    def whoAmI(self) -> str:
        """Return the agent's name."""
        return self.name

    async def on_request(self, request: Request) -> Response:
        """Show the state or the request."""
        end = request.path.rsplit("/", 1)[-1]
        if end == "state":
            return Response({"state": self.state})
        if end == "echo":
            return Response({"method": request.method, "body": request.text(), "path": end})
        return Response("Not found", 404)


class HiddenAgent(Agent):
    """Hides a part of its state from clients, who may change the rest."""

    initial_state = {"count": 0, "hidden": "deck"}

    def client_view(self, state: Any) -> Any:
        """Show the count."""
        return {"count": state["count"]}

    def state_from_client(self, state: Any, sent: Any) -> Any:
        """Take over the count, up to ten."""
        return {**state, "count": min(sent["count"], 10)}

    @callable()
    async def shuffle(self) -> Any:
        """Change the hidden part, and return the whole state."""
        await self.merge_state({"hidden": "shuffled"})
        return self.state


class TagAgent(Agent):
    """Marks connections when they come, and answers with the mark."""

    initial_state = {"count": 0}

    def __init__(self) -> None:
        self.numbers: list[int] = []

    @callable()
    async def note(self, number: int) -> None:
        """Remember a number before it waits."""
        self.numbers.append(number)
        await self.set_state({"count": number})

    @callable()
    def notePlain(self, number: int) -> None:
        """Remember a number."""
        self.numbers.append(number)

    @callable()
    async def notes(self) -> list[int]:
        """Return the numbers."""
        return self.numbers

    async def get_connection_tags(self, connection: Connection, request: Request) -> list[str]:
        """Tag with what the query says."""
        return request.query.get("tag", [])

    async def on_connect(self, connection: Connection, request: Request) -> None:
        """Attach the mark."""
        await connection.set_state({"tagged": True})

    async def on_message(self, connection: Connection, message: Message) -> None:
        """Send back the mark."""
        await connection.send({"type": "echo", "text": message, "state": connection.state})

    @callable()
    async def tagged(self, tag: str) -> list[list[str]]:
        """Return the tags of the connections with a tag."""
        return [connection.tags for connection in await self.connections(tag)]

    @callable()
    async def shoutWithout(self, connection_id: str) -> None:
        """Send to all but one."""
        await self.broadcast({"type": "shout"}, without=[connection_id])
