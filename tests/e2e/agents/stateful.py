"""State: counters, the documentation's first example, validators, hooks, odd values."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from agent_runtime import Agent, callable
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.http_message import Request, Response
from tests.e2e.agents.calling import EPOCH
from tests.e2e.agents.pace import pause


class CounterAgent(Agent):
    """The agent of most recordings."""

    initial_state = {"count": 0}

    @callable()
    async def increment(self) -> int:
        """Count; calls at the same time lose nothing."""
        await self.update_state(lambda state: {"count": state["count"] + 1})
        return int(self.state["count"])

    @callable()
    async def setCount(self, count: int) -> None:
        """Set the count."""
        await self.set_state({"count": count})

    @callable()
    async def replace(self, state: Any) -> None:
        """Set any state."""
        await self.set_state(state)

    @callable()
    def getState(self) -> Any:
        """Return the state."""
        return self.state

    @callable()
    async def slowIncrement(self, ms: int) -> int:
        """Read, wait, write: what a careless method does."""
        count = self.state["count"]
        await pause(ms)
        await self.set_state({"count": count + 1})
        return int(self.state["count"])

    @callable()
    async def connectionIds(self) -> list[str]:
        """Return the ids of all open connections."""
        return [connection.id for connection in await self.connections()]

    @callable()
    async def lookup(self, connection_id: str) -> str | None:
        """Return the id of a connection if it is there, or why it cannot be told."""
        try:
            found = await self.get_connection(connection_id)
            return found.id if found else None
        except AgentRuntimeError as error:
            return error.message

    @callable()
    async def closeAll(self, code: int, reason: str) -> int:
        """Close all connections soon after this has answered."""
        found = await self.connections()

        async def close() -> None:
            await pause(100)
            for connection in found:
                await connection.close(code, reason)

        self._closing = asyncio.create_task(close())
        return len(found)

    async def on_request(self, request: Request) -> Response:
        """Show the state or the request, or fail."""
        end = request.path.rsplit("/", 1)[-1]
        if end == "state":
            return Response({"state": self.state})
        if end == "echo":
            query = request.url.partition("?")[2]
            return Response(
                {
                    "method": request.method,
                    "path": request.path,
                    "query": f"?{query}" if query else "",
                    "body": request.text(),
                }
            )
        if end == "throw":
            raise RuntimeError("boom from onRequest")
        return Response("Not found", 404)


class GameAgent(Agent):
    """The documentation's first example."""

    initial_state = {"players": [], "score": 0, "status": "waiting"}

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Start the game when a client brings the second player."""
        if source != "server" and len(state["players"]) >= 2:
            await self.set_state({**state, "status": "playing"})

    @callable()
    async def addPlayer(self, name: str) -> None:
        """Add a player."""
        await self.set_state({**self.state, "players": [*self.state["players"], name]})


class ValidatedAgent(Agent):
    """Refuses negative scores and dislikes 13."""

    initial_state = {"score": 0}

    def __init__(self) -> None:
        self.errors: list[str] = []

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Refuse negative scores."""
        if next_state["score"] < 0:
            raise ValueError("score cannot be negative")

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Dislike 13."""
        if state["score"] == 13:
            raise RuntimeError("hook dislikes 13")

    async def on_error(self, error: BaseException) -> None:
        """Remember the author's own error."""
        self.errors.append(str(error.__cause__ or error))

    @callable()
    async def setScore(self, score: int) -> int:
        """Set the score."""
        await self.set_state({"score": score})
        return int(self.state["score"])

    @callable()
    def getErrors(self) -> list[str]:
        """Return the errors of the hook."""
        return self.errors

    @callable()
    def getState(self) -> Any:
        """Return the state."""
        return self.state


class ValidatorReadsStateAgent(Agent):
    """The documentation's validator, which looks at the present state."""

    initial_state = {"status": "open"}

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Let no finished game go on."""
        if self.state["status"] == "finished" and next_state["status"] != "finished":
            raise ValueError("Cannot restart a finished game")

    @callable()
    def getState(self) -> Any:
        """Return the state."""
        return self.state


class NoStateAgent(Agent):
    """Without `initial_state`, and with values of every kind."""

    @callable()
    def read(self) -> Any:
        """Return the state with its kind; no value if there is none."""
        if not self.has_state:
            return {"type": "undefined"}
        return {"type": _kind(self.state), "value": self.state}

    @callable()
    async def write(self, kind: str) -> str:
        """Set a value of a kind and return what kind the state is then."""
        loop: dict[str, Any] = {"name": "loop"}
        loop["self"] = loop
        values: dict[str, Any] = {
            "null": None,
            "zero": 0,
            "false": False,
            "empty": "",
            "undefined": None,
            "date": {"at": EPOCH},
            "undefinedKey": {"a": 1},
            "nan": {"n": math.nan, "i": math.inf},
            "array": [1, 2, 3],
            "circular": loop,
        }
        await self.set_state(values[kind])
        return _kind(self.state)

    @callable()
    async def writeCircular(self) -> Any:
        """Set a value that contains itself."""
        try:
            await self.write("circular")
        except AgentRuntimeError as error:
            return {"threw": error.message, "hasState": self.has_state}
        return "no error"

    @callable()
    async def reset(self) -> None:
        """Put the initial state back."""
        await self.reset_state()

    @callable()
    async def merge(self, partial: Any) -> None:
        """Merge into the state."""
        await self.merge_state(partial)


class HookAgent(Agent):
    """Notes when its change hook runs."""

    initial_state = {"n": 0}

    def __init__(self) -> None:
        self.log: list[str] = []

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Take a moment."""
        who = "server" if source == "server" else "connection"
        self.log.append(f"hook-start n={state['n']} source={who}")
        await pause(50)
        self.log.append(f"hook-end n={state['n']}")

    @callable()
    async def run(self) -> str:
        """Change the state twice."""
        self.log.append("before setState 1")
        await self.set_state({"n": 1})
        self.log.append("after setState 1")
        await self.set_state({"n": 2})
        self.log.append("after setState 2")
        return "ran"

    @callable()
    def getLog(self) -> list[str]:
        """Return the log."""
        return self.log


class LoopAgent(Agent):
    """Its change hook answers itself."""

    initial_state = {"n": 0}

    def __init__(self) -> None:
        self.calls = 0
        self.errors: list[str] = []

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Set the state again."""
        self.calls += 1
        if state["n"] > 0:
            await self.set_state({"n": state["n"] + 1})

    async def on_error(self, error: BaseException) -> None:
        """Remember the kind of error."""
        self.errors.append(type(error.__cause__ or error).__name__)

    @callable()
    async def kick(self) -> int:
        """Begin."""
        await self.set_state({"n": 1})
        return int(self.state["n"])

    @callable()
    def report(self) -> Any:
        """Return what came of it."""
        return {
            "calls": self.calls,
            "n": self.state["n"],
            "errors": self.errors[:3],
            "errorCount": len(self.errors),
        }


def _kind(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "object")
