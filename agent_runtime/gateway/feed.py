"""The change feed: what agents have committed, told to their clients in order."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict

from agent_runtime.agent_connection import BROADCAST, CLOSE, FLAGS, SEND, STREAM, open_payload
from agent_runtime.errors import StorageError
from agent_runtime.gateway.client_socket import ClientSocket
from agent_runtime.gateway.frames import text_of_frame
from agent_runtime.gateway.told_state import ToldState
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json
from agent_runtime.registry import AgentRegistry
from agent_runtime.state import Unset
from agent_runtime.storage.protocol import DESTROYED, FeedRow, Storage

logger = logging.getLogger("agent_runtime")

_POLL_SECONDS = 0.004
_IDLE_POLL_SECONDS = 0.05
_PAGE = 500
_MAX_OWN = 10_000
_MAX_KNOWN = 10_000
_ECHO_SECONDS = 0.2
# A client that comes back sends first what was written meanwhile; a new one has mostly nothing.
_REOPENED_SECONDS = 2.0
_OPENED_SECONDS = 0.05


class ChangeFeed:
    """Reads the outbox and queues frames at the sockets of this process."""

    def __init__(self, storage: Storage, registry: AgentRegistry) -> None:
        self._storage = storage
        self._registry = registry
        self._after = 0
        self._sockets: dict[AgentRef, dict[str, ClientSocket]] = defaultdict(dict)
        self._states: dict[AgentRef, ToldState] = {}
        self._own: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        self._known: OrderedDict[tuple[AgentRef, str], None] = OrderedDict()
        self._reading = asyncio.Lock()
        self._asked = 0
        self._answered = 0

    async def start(self) -> None:
        """Begin with what is committed from now on."""
        self._after = await self._storage.read_feed_end()

    async def run(self) -> None:
        """Follow the feed for ever."""
        mark = None
        while True:
            await asyncio.sleep(_POLL_SECONDS if self._sockets else _IDLE_POLL_SECONDS)
            try:
                newest = await self._storage.read_change_mark()
                if newest != mark:
                    mark = newest
                    await self.catch_up()
            except StorageError as error:
                logger.warning("the change feed waits: %s", error)

    async def add(self, socket: ClientSocket) -> Json | Unset:
        """Let a socket be told of all after the state that this returns, as clients see it."""
        definition = self._registry.definition(socket.ref.class_name)
        async with self._reading:
            await self._read_new()
            state = ToldState(socket.ref, definition.view)
            shown = await state.load(self._storage)
            socket.version = state.version
            self._sockets[socket.ref][socket.row.socket] = socket
            self._states[socket.ref] = state
            return shown

    def remove(self, socket: ClientSocket) -> None:
        """Tell a socket no more."""
        if socket.echo is not None:
            socket.echo.cancel()
        sockets = self._sockets.get(socket.ref, {})
        sockets.pop(socket.row.socket, None)
        if not sockets:
            self._sockets.pop(socket.ref, None)
            self._states.pop(socket.ref, None)

    def sockets(self) -> list[ClientSocket]:
        """Return all sockets that are told."""
        return [socket for sockets in self._sockets.values() for socket in sockets.values()]

    def opened(self, socket: ClientSocket) -> None:
        """Note that a client is let in, which may write before it reads what it was greeted with.

        Writes of the time before come first, and only an echo brings the two together then
        (state-and-sync 19.1.5).
        """
        key = (socket.ref, socket.row.connection_id)
        socket.expect_crossing(_REOPENED_SECONDS if key in self._known else _OPENED_SECONDS)
        self._known[key] = None
        self._known.move_to_end(key)
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    def expect(self, key: str, socket: ClientSocket) -> None:
        """Remember that a mutation is a client's own, which is not echoed to it.

        Unless a change of others was on its way to the client when it wrote: only the echo then
        brings the two together (state-and-sync 19.1.4).
        """
        self._own[key] = (socket.row.socket, socket.may_have_crossed())
        while len(self._own) > _MAX_OWN:
            self._own.popitem(last=False)

    async def catch_up(self) -> None:
        """Queue everything that is committed by now; who asks at the same time shares a read."""
        self._asked += 1
        mine = self._asked
        async with self._reading:
            if mine > self._answered:
                asked_before_it_began = self._asked
                await self._read_new()
                self._answered = asked_before_it_began

    async def _read_new(self) -> None:
        while True:
            rows = await self._storage.read_feed(self._after, _PAGE)
            for row in rows:
                self._after = row.seq
                if row.ref in self._sockets:
                    await self._tell(row)
            if len(rows) < _PAGE:
                return

    async def _tell(self, row: FeedRow) -> None:
        sockets = self._sockets[row.ref]
        if row.kind == DESTROYED:
            for socket in list(sockets.values()):
                self.remove(socket)
                socket.end()
            return
        if row.kind == "state":
            await self._tell_state(row, list(sockets.values()))
            return
        payload = from_json(row.payload or "null")
        if row.kind == BROADCAST:
            message = open_payload(payload)
            for socket in list(sockets.values()):
                if socket.row.connection_id not in payload["without"]:
                    socket.send(message)
            return
        target = sockets.get(payload["socket"])
        if target is None:
            return
        if row.kind == SEND:
            target.send(open_payload(payload))
        elif row.kind == STREAM:
            frame = payload["frame"]
            if frame.get("done", True):
                target.open_streams.discard(frame["id"])
            target.send(text_of_frame(frame))
        elif row.kind == CLOSE:
            target.close(payload["code"], payload["reason"])
        elif row.kind == FLAGS:
            await self._renew(target)

    async def _tell_state(self, row: FeedRow, sockets: list[ClientSocket]) -> None:
        state = self._states[row.ref]
        own, has_crossed = self._own.pop(row.key or "", ("", False))
        if row.version <= state.version:
            return
        text = await state.advance(row, self._storage)
        is_news = text is not None and state.is_news(text)
        for socket in sockets:
            if socket.version >= row.version:
                continue
            socket.version = row.version
            if not socket.row.has_protocol:
                continue
            if socket.row.socket == own:
                # What it sent need not be what it sees of it, where there is a view.
                if has_crossed or socket.echo is not None or state.view is not None:
                    self._echo_soon(socket)
            elif text is not None and (is_news or socket.hears_every_version):
                socket.send_state(text, row.version)

    def _echo_soon(self, socket: ClientSocket) -> None:
        # Not at once: while its user types, each echo would show what was typed a moment before.
        if socket.echo is not None:
            socket.echo.cancel()
        loop = asyncio.get_running_loop()
        socket.echo = loop.call_later(_ECHO_SECONDS, self._echo, socket)

    def _echo(self, socket: ClientSocket) -> None:
        socket.echo = None
        state = self._states.get(socket.ref)
        if state is None or socket.sent_version >= socket.version:
            return
        text = state.frame()
        if text is not None:
            socket.send_state(text, state.version)

    async def _renew(self, socket: ClientSocket) -> None:
        for row in await self._storage.read_connections(socket.ref):
            if row.socket == socket.row.socket:
                socket.row = row
