"""The life of one client's connection: handshake, frames, end (state-and-sync 4, 5, 11)."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import MutableMapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from agent_runtime.agent_connection import Message, frame_payload
from agent_runtime.client.handle import AgentHandle
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import (
    FOR_CLIENTS,
    AgentDestroyedError,
    AgentRuntimeError,
    HandlerError,
    InternalError,
    InvalidRequestError,
    UnavailableError,
    public_text,
)
from agent_runtime.gateway import frames
from agent_runtime.gateway.access import is_readonly
from agent_runtime.gateway.admission import Admitted
from agent_runtime.gateway.client_socket import DROPPED, ClientSocket
from agent_runtime.gateway.limits import TOO_FAST
from agent_runtime.hosting.destruction import destroyed_error
from agent_runtime.identity import kebab_case
from agent_runtime.json_value import Json, pack
from agent_runtime.mutation import FROM_CODE, FROM_HTTP, Mutation, MutationKind
from agent_runtime.registry import AgentDefinition
from agent_runtime.state import UNSET
from agent_runtime.storage.protocol import ConnectionRow

if TYPE_CHECKING:
    from agent_runtime.gateway.gateway import Gateway

logger = logging.getLogger("agent_runtime")

SETUP_FAILED = 1011
MAX_UNDER_WAY = 5_000
"""Calls and other frames of one client that have no answer yet."""

_NO_CODE = 1005
_NO_CONNECTION_IDS = ("", FROM_CODE, FROM_HTTP)
"""With one of these as its id a client's changes would pass for those of others."""

_LAST_ANSWERS_SECONDS = 10.0
"""How long a client of a destroyed agent is kept for the answers to its calls."""


class ClientSession:
    """Serves one WebSocket of one agent."""

    _hears_own = False
    """Whether the client is told the states that it sends itself."""

    def __init__(self, gateway: Gateway, websocket: WebSocket, admitted: Admitted) -> None:
        self._gateway = gateway
        self._websocket = websocket
        self._definition: AgentDefinition = admitted.definition
        self._agent: AgentHandle = gateway.client.agent(*admitted.ref)
        self._request = admitted.request
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = self._new_socket()

    async def serve(self) -> None:
        """Serve the client until it leaves, or is sent away."""
        writing: asyncio.Task[None] | None = None
        end = DROPPED
        try:
            is_set_up = await self._set_up()
            await self._websocket.accept()
            self._gateway.feed.opened(self._socket)
            writing = asyncio.create_task(self._socket.write())
            if is_set_up:
                end = await self._read_while_agent_lives()
        finally:
            self._gateway.feed.remove(self._socket)
            await self._gateway.storage.write(
                lambda tx: tx.delete_connections([self._socket.row.socket])
            )
            if writing is not None:
                if not writing.done() and self._websocket.client_state.name == "CONNECTED":
                    await writing
                writing.cancel()
        if self._socket.row.agent_id and not self._socket.has_ended:
            await self._gateway.tell_close(self._socket.ref, self._socket.row, *end)

    def _new_socket(self) -> ClientSocket:
        return ClientSocket(self._websocket, self._agent.ref, self._new_row())

    def _new_row(self) -> ConnectionRow:
        connection_id = self._websocket.query_params.get("_pk", "")
        if connection_id in _NO_CONNECTION_IDS:
            connection_id = str(uuid.uuid4())
        return ConnectionRow(
            uuid.uuid4().hex,
            0,
            connection_id,
            self._gateway.id,
            self._request.url,
            pack([connection_id]).decode(),
            is_readonly(self._websocket.scope),
            True,
            now_milliseconds(),
            has_readonly_token=is_readonly(self._websocket.scope),
        )

    async def _set_up(self) -> bool:
        socket, ref = self._socket, self._socket.ref
        try:
            socket.row = replace(socket.row, agent_id=await self._gateway.agent_id(ref))
            if self._definition.handles("admit"):
                await self._admit()
            row = socket.row
            await self._gateway.storage.write(lambda tx: tx.put_connection(row))
            if row.has_protocol:
                await self._agent.get_state()  # reading is what stores `initial_state`
            state = await self._gateway.feed.add(socket)
            stored = await self._gateway.storage.read_state(ref)
            if stored is None or stored.agent_id != row.agent_id:
                raise destroyed_error(ref)
            if row.has_protocol:
                await self._greet(state)
            if self._definition.handles("connect"):
                await self._event("connect", "on_connect", [self._request.to_value()])
                await self._gateway.feed.catch_up()
            return True
        except AgentRuntimeError as error:
            logger.error("%s: connection %s not set up: %s", ref, socket.row.connection_id, error)
            self._gateway.feed.remove(socket)
            # Nobody is left to hear of the end of a destroyed agent's connection.
            is_gone = isinstance(error, AgentDestroyedError)
            row = replace(socket.row, agent_id=0) if is_gone else socket.row
            self._socket = ClientSocket(self._websocket, ref, row)
            self._socket.send(frames.setup_error_frame())
            self._socket.close(SETUP_FAILED, "Uncaught exception during session setup")
            return False

    async def _admit(self) -> None:
        row = self._socket.row
        args: list[Json] = [asdict(row), self._request.to_value()]
        answer = await self._event("admit", "get_connection_tags", args)
        self._socket.row = replace(
            row,
            tags=pack(answer["tags"]).decode(),
            is_readonly=row.is_readonly or answer["is_readonly"],
            has_protocol=answer["has_protocol"],
        )

    async def _greet(self, state: Json) -> None:
        is_set = state is not UNSET
        self._send_identity(state_follows=is_set)
        if is_set:
            self._socket.send(frames.state_frame(state))
        self._socket.send(frames.servers_frame())

    def _send_identity(self, *, state_follows: bool, life: int | None = None) -> None:
        ref = self._socket.ref
        if self._definition.agent_class.sends_identity_on_connect:
            agent = kebab_case(ref.class_name)
            frame = frames.identity_frame(ref.name, agent, state_follows=state_follows, life=life)
            self._socket.send(frame)

    async def _read_while_agent_lives(self) -> tuple[int, str]:
        reading = asyncio.create_task(self._read())

        async def leave() -> None:
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=_LAST_ANSWERS_SECONDS)
            self._socket.drop()
            reading.cancel()

        leaving: list[asyncio.Task[None]] = []
        self._socket.on_end = lambda: leaving.append(asyncio.create_task(leave()))
        if self._socket.has_ended:
            self._socket.on_end()
        try:
            return await reading
        except asyncio.CancelledError:
            if not (leaving and leaving[0].done()):
                raise
            return DROPPED

    async def _read(self) -> tuple[int, str]:
        while True:
            try:
                message = await self._websocket.receive()
            except (WebSocketDisconnect, RuntimeError):
                return DROPPED
            if message["type"] == "websocket.disconnect":
                return _end_of(message)
            data: Message | None = message.get("text")
            if data is None:
                data = message.get("bytes") or b""
            self._take(data)

    def _take(self, data: Message) -> None:
        if self._socket.has_ended:
            return
        if self._has_too_much_under_way():
            self._socket.close(TOO_FAST, "too much under way")
            return
        frame = frames.parse_frame(data) if isinstance(data, str) else None
        if isinstance(frame, frames.StateFrame):
            self._spawn(self._set_state(frame.state))
        elif isinstance(frame, frames.CallFrame):
            self._spawn(self._call(frame))
        elif self._definition.handles("message"):
            self._spawn(self._tell("message", "on_message", [frame_payload(data)]))

    def _has_too_much_under_way(self) -> bool:
        return len(self._tasks) >= MAX_UNDER_WAY

    def _spawn(self, work: Any) -> None:
        # Tasks begin in the order in which they are made, and each submits before it waits.
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def _may_write(self) -> bool:
        return not self._socket.row.is_readonly and self._definition.agent_class.may_clients_write

    async def _set_state(self, state: Json) -> None:
        socket = self._socket
        if not self._may_write:
            socket.send(frames.state_error_frame(frames.READONLY))
            return
        channel = self._gateway.client.channel
        key = channel.new_key()
        if not self._hears_own:
            self._gateway.feed.expect(key, socket)
        mutation = Mutation(key, MutationKind.SET, state, source=socket.row.connection_id)
        try:
            await channel.submit(socket.ref, mutation)
        except AgentRuntimeError as error:
            logger.warning(
                "%s: state of %s refused: %s", socket.ref, socket.row.connection_id, error
            )
            socket.send(frames.state_error_frame(frames.REJECTED))

    async def _call(self, frame: frames.CallFrame) -> None:
        socket = self._socket
        try:
            options = self._definition.callable(frame.method)
            args = self._definition.fit_args(frame.method, frame.args)
            caller = self._caller()
            if options.streaming:
                caller["call_id"] = frame.id
                socket.open_streams.add(frame.id)
            call = await self._agent.start_call(frame.method, *args, caller=caller)
            result = await call.result()
        except AgentRuntimeError as error:
            await self._gateway.feed.catch_up()
            if not options_streams(self._definition, frame.method) or (
                frame.id in socket.open_streams
            ):
                socket.open_streams.discard(frame.id)
                if not isinstance(error, FOR_CLIENTS):
                    logger.error("%s.%s: %s", socket.ref, frame.method, error)
                socket.send(frames.error_frame(frame.id, _reason(error)))
            return
        await self._gateway.feed.catch_up()
        if not options.streaming:
            answer = UNSET if self._definition.returns_nothing(frame.method) else result
            socket.send(frames.result_frame(frame.id, answer))

    async def _tell(self, event: str, hook: str, args: list[Json]) -> None:
        try:
            await self._event(event, hook, args)
        except AgentRuntimeError as error:
            logger.error("%s.%s: %s", self._socket.ref, hook, error)

    async def _event(self, event: str, hook: str, args: list[Json]) -> Json:
        call = await self._agent.start_call(hook, *args, event=event, caller=self._caller())
        return await call.result()

    def _caller(self) -> dict[str, Json]:
        row = self._socket.row
        # Said with the call: when its handler runs the client may have gone, and its row with it.
        return {"socket": row.socket, **({"is_readonly": True} if row.is_readonly else {})}


def options_streams(definition: AgentDefinition, method: str) -> bool:
    """Tell whether a method that may not exist answers by a stream."""
    try:
        return definition.callable(method).streaming
    except InvalidRequestError:
        return False


def _end_of(message: MutableMapping[str, Any]) -> tuple[int, str]:
    code = message.get("code") or _NO_CODE
    # The server tells a socket that was dropped from one that was closed by the reason alone.
    if code in (_NO_CODE, DROPPED[0]) and message.get("reason") is None:
        return DROPPED
    return (code, message.get("reason") or "")


def _reason(error: AgentRuntimeError) -> str:
    """Return what a client may read of an error: the author's own text, never internals."""
    if isinstance(error, InternalError | UnavailableError):
        return "The call could not be run"
    if isinstance(error, HandlerError) and "error" in error.details_map:
        return str(error.details_map["error"] or error.details_map["error_type"])
    return public_text(error)
