"""One agent's connection to a gateway, which comes back by itself."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlencode

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from agent_runtime.errors import (
    AgentRuntimeError,
    ConfigurationError,
    InternalError,
    InvalidRequestError,
    UnavailableError,
    from_record,
)
from agent_runtime.gateway_client.gateway_subscription import GatewaySubscription
from agent_runtime.gateway_client.json_patch import apply_patch
from agent_runtime.json_value import Json, pack

logger = logging.getLogger("agent_runtime")

FIRST_PAUSE_SECONDS = 0.1
LAST_PAUSE_SECONDS = 10.0
_SETTLED_SECONDS = 5.0
_CLOSE_SECONDS = 2.0
_MAX_FRAME_BYTES = 64 * 1024 * 1024
_BURST_SECONDS = 1.0
_TOO_FAST, _TOO_BIG = 1008, 1009
_LATER = (408, 425, 429)


@dataclass(slots=True, eq=False)
class Asked:
    """A request that waits for its answer.

    Args:
        is_repeatable: It may be sent again on the next connection, as it has an idempotency key.
    """

    text: str
    answer: asyncio.Future[Json]
    is_repeatable: bool
    was_sent: bool = False


class GatewayLink:
    """Connects when something is asked or subscribed to, and again for as long as it is needed.

    Args:
        url: The agent's WebSocket, without a query.
        frames_per_second: What is asked at once is spread over time: gateways send away who is
            faster than they allow.
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str,
        token: str | None,
        is_local: bool,
        frames_per_second: float,
    ) -> None:
        self._url = url
        self._client_id = client_id
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._is_local = is_local
        self._gap_seconds = 1 / frames_per_second
        self._asked: dict[str, Asked] = {}
        self._unsent: deque[Asked] = deque()
        self._has_unsent = asyncio.Event()
        self._subscriptions: list[GatewaySubscription] = []
        self._known: tuple[int, Json] | None = None
        self._life: Json = None
        self._is_greeted = False
        self._is_closed = False
        self._running: asyncio.Task[None] | None = None

    def add(self, subscription: GatewaySubscription) -> None:
        """Tell a subscription of the present state and all that follow."""
        if self._is_closed:
            subscription.close()
            return
        self._subscriptions.append(subscription)
        if self._is_greeted:
            self._show([subscription])
        self._start()

    def remove(self, subscription: GatewaySubscription) -> None:
        """Tell a subscription no more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    async def ask(self, identity: str, text: str, *, is_repeatable: bool) -> Json:
        """Send a frame and return the frame that answers it.

        Raises:
            UnavailableError: The client is closed, or the connection was lost and the frame is not
                repeatable.
            AgentRuntimeError: The gateway does not let this client in.
        """
        if self._is_closed:
            raise UnavailableError("this client of a gateway is closed")
        answer = asyncio.get_running_loop().create_future()
        asked = self._asked[identity] = Asked(text, answer, is_repeatable)
        self._unsent.append(asked)
        self._has_unsent.set()
        self._start()
        try:
            return await answer
        finally:
            del self._asked[identity]

    async def close(self) -> None:
        """Leave; what waits is told so."""
        self._is_closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        self._lose(UnavailableError("this client of a gateway was closed"), all_asked=True)
        for subscription in list(self._subscriptions):
            subscription.close()

    def _start(self) -> None:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._stay_connected()
        except AgentRuntimeError as error:
            self._give_up(error)
        except Exception as error:
            logger.exception("the client of %s has failed", self._url)
            self._give_up(InternalError(f"the client of a gateway has failed: {error!r:.200}"))

    async def _stay_connected(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while self._asked or self._subscriptions:
            began = time.monotonic()
            try:
                async with self._connection() as socket:
                    await self._serve(socket)
            except InvalidStatus as error:
                if (refusal := _refusal(error)) is not None:
                    raise refusal from None
                reason: Exception = error
            except (OSError, TimeoutError, WebSocketException) as error:
                self._sort_out(error)
                reason = error
            if self._is_greeted or time.monotonic() - began > _SETTLED_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._is_greeted = False
            self._lose(UnavailableError("the connection was lost; the call may still run"))
            logger.warning("no connection to %s, again in %.1f s: %s", self._url, pause, reason)
            await asyncio.sleep(pause * random.uniform(0.75, 1.25))
            pause = min(pause * 2, LAST_PAUSE_SECONDS)

    def _connection(self) -> connect:
        query = {"agent_runtime": "1", "deltas": "1", "_pk": self._client_id}
        if self._known is not None:
            query |= {"resume_from": str(self._known[0]), "life": str(self._life)}
        return connect(
            f"{self._url}?{urlencode(query)}",
            additional_headers=self._headers,
            max_size=_MAX_FRAME_BYTES,
            close_timeout=_CLOSE_SECONDS,
            proxy=None if self._is_local else True,
        )

    async def _serve(self, socket: ClientConnection) -> NoReturn:
        # Whatever has no answer yet goes first, in the order in which it was asked.
        self._unsent = deque(self._asked.values())
        self._has_unsent.set()
        writing = asyncio.create_task(self._write(socket))
        try:
            while True:
                self._take(await socket.recv())
        finally:
            writing.cancel()
            await asyncio.wait([writing])

    async def _write(self, socket: ClientConnection) -> None:
        due = 0.0
        while True:
            while self._unsent:
                asked = self._unsent.popleft()
                if asked.answer.done():
                    continue
                asked.was_sent = True
                try:
                    await socket.send(asked.text)
                except ConnectionClosed:
                    return  # the reader sees it too
                now = time.monotonic()
                due = max(due, now - _BURST_SECONDS) + self._gap_seconds
                if due > now:
                    await asyncio.sleep(due - now)
            self._has_unsent.clear()
            await self._has_unsent.wait()

    def _take(self, message: str | bytes) -> None:
        try:
            frame = orjson.loads(message)
        except orjson.JSONDecodeError:
            return  # what an agent sends by itself may be anything
        if not isinstance(frame, dict):
            return
        match frame.get("type"):
            case "cf_agent_identity":
                self._learn_life(frame.get("life"))
            case "cf_agent_state":
                self._learn_whole(frame)
            case "agent_runtime_delta":
                self._learn_delta(frame)
            case "cf_agent_mcp_servers":  # the greeting ends with it
                self._is_greeted = True
                self._show(self._subscriptions)
            case "agent_runtime_receipt" | "agent_runtime_refused" | "rpc":
                self._answer(frame)

    def _learn_life(self, life: Json) -> None:
        if self._life is not None and life != self._life:
            # The agent was destroyed: what is known is of no use, and versions begin anew.
            self._known = None
            for subscription in self._subscriptions:
                subscription.restart()
        self._life = life

    def _learn_whole(self, frame: Json) -> None:
        version = frame.get("version")
        if isinstance(version, int):
            self._known = (version, frame.get("state"))
            self._show(self._subscriptions)
        elif not self._is_greeted:
            raise ConfigurationError(
                f"{self._url} is no gateway of this library, or an older one: it tells no versions"
            )

    def _learn_delta(self, frame: Json) -> None:
        known, self._known = self._known, None
        if known is None or known[0] != frame["from_version"]:
            raise ConnectionResetError("a delta does not follow the state that is known")
        try:
            self._known = (frame["version"], apply_patch(known[1], frame["patch"]))
        except InvalidRequestError as error:
            raise ConnectionResetError(error.message) from None
        self._show(self._subscriptions)

    def _show(self, subscriptions: list[GatewaySubscription]) -> None:
        if self._known is None or not subscriptions:
            return
        # As text: what a reader does to its copy must not show in the one that deltas build on.
        version, text = self._known[0], pack(self._known[1])
        for subscription in subscriptions:
            subscription.put(version, text)

    def _answer(self, frame: Json) -> None:
        asked = self._asked.get(str(frame.get("id")))
        if asked is not None and not asked.answer.done() and frame.get("done", True):
            asked.answer.set_result(frame)

    def _sort_out(self, error: Exception) -> None:
        if not isinstance(error, ConnectionClosed) or error.rcvd is None:
            return
        if error.rcvd.code == _TOO_FAST:
            text = f"the gateway has sent this client away: {error.rcvd.reason}"
            self._lose(UnavailableError(text), all_asked=True)
        elif error.rcvd.code == _TOO_BIG:
            text = "one of the requests under way is longer than the gateway takes"
            self._lose(InvalidRequestError(text), all_asked=True)

    def _lose(self, error: AgentRuntimeError, *, all_asked: bool = False) -> None:
        for asked in list(self._asked.values()):
            is_lost = all_asked or (asked.was_sent and not asked.is_repeatable)
            if is_lost and not asked.answer.done():
                asked.answer.set_exception(_copy_of(error))

    def _give_up(self, error: AgentRuntimeError) -> None:
        self._is_greeted = False
        self._lose(error, all_asked=True)
        for subscription in self._subscriptions:
            subscription.fail(_copy_of(error))
        self._subscriptions = []


def _copy_of(error: AgentRuntimeError) -> AgentRuntimeError:
    # Each gets its own: a traceback grows wherever an error is raised.
    return from_record(error.to_record())


def _refusal(error: InvalidStatus) -> AgentRuntimeError | None:
    """Return the error that no repetition would mend, None for others."""
    status, body = error.response.status_code, bytes(error.response.body or b"")
    if status >= 500 or status in _LATER:
        return None
    text = body.decode("utf-8", "replace").strip()
    try:
        text = orjson.loads(body)["detail"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = text[:200]
    message = f"the gateway refuses the connection ({status}): {text}"
    if status == 400:
        return InvalidRequestError(message, status=status)
    return ConfigurationError(message, status=status)
