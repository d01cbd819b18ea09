"""Connections of clients of ours, which ask for more than the stock wire by `?agent_runtime=1`.

Stock clients never see any of it.
"""

from __future__ import annotations

import re
from functools import partial

from starlette.websockets import WebSocket

from agent_runtime.agent_connection import Message
from agent_runtime.errors import (
    AgentRuntimeError,
    ClientViewError,
    InvalidRequestError,
    ReadonlyConnectionError,
    StorageError,
)
from agent_runtime.gateway import frames
from agent_runtime.gateway.client_session import ClientSession
from agent_runtime.gateway.client_socket import ClientSocket
from agent_runtime.gateway.extended_socket import ExtendedSocket
from agent_runtime.gateway.problems import shown_record
from agent_runtime.hosting.state_reader import read_version
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.mutation import Mutation, MutationKind
from agent_runtime.state import UNSET

MUTATE = "agent_runtime_mutate"
RECEIPT = "agent_runtime_receipt"
REFUSED = "agent_runtime_refused"

MAX_MISSED = 100
"""A client that has missed more versions gets the newest state alone."""

_MAX_MISSED_BYTES = 4 * 1024 * 1024
_KINDS = {kind.value: kind for kind in (MutationKind.SET, MutationKind.MERGE, MutationKind.RESET)}
_FIELDS = {"type", "id", "kind", "value", "expected_version", "key"}
_VERSION = re.compile(r"[0-9]{1,18}")


def session_class(websocket: WebSocket) -> type[ClientSession]:
    """Return how a client is served: as it asks in its query."""
    is_extended = websocket.query_params.get("agent_runtime") == "1"
    return ExtendedSession if is_extended else ClientSession


class ExtendedSession(ClientSession):
    """Serves one WebSocket of a client of ours."""

    _hears_own = True

    def _new_socket(self) -> ClientSocket:
        wants_deltas = self._websocket.query_params.get("deltas") == "1"
        return ExtendedSocket(
            self._websocket, self._agent.ref, self._new_row(), wants_deltas=wants_deltas
        )

    async def _greet(self, state: Json) -> None:
        socket = self._socket
        assert isinstance(socket, ExtendedSocket)
        version = socket.version
        query = self._websocket.query_params
        resume_from = query.get("resume_from", "")
        # What a client knows of a former agent of the name is nothing to build on.
        knows_this_one = query.get("life") == str(socket.row.agent_id)
        missed: list[tuple[int, Json]] | None = None
        if _VERSION.fullmatch(resume_from) and knows_this_one and state is not UNSET:
            missed = await self._missed(int(resume_from), version)
        if missed is None:
            missed = [] if state is UNSET else [(version, state)]
        elif self._definition.view is not None:
            # Other code may have made the view that the client knows: it is no base for a delta.
            missed = self._views(missed[1:]) or [(version, state)]
        else:
            known, *missed = missed
            socket.know(frames.state_frame(known[1]), known[0])
        socket.begin(partial(self._send_greeting, missed))

    def _send_greeting(self, states: list[tuple[int, Json]]) -> None:
        life = self._socket.row.agent_id
        self._send_identity(state_follows=bool(states), life=life)
        for version, state in states:
            self._socket.send_state(frames.state_frame(state), version)
        self._socket.send(frames.servers_frame())

    async def _missed(self, known: int, present: int) -> list[tuple[int, Json]] | None:
        """Return the known version and all after it, with their states; None if some are gone."""
        count = present - known
        if known < 1 or not 0 <= count <= MAX_MISSED:
            return None
        storage, ref = self._gateway.storage, self._agent.ref
        try:
            value = (await read_version(storage, ref, known)).value
            rows = await storage.read_history(ref, newest=present, limit=count) if count else []
        except (InvalidRequestError, StorageError):
            return None
        if len(rows) != count:
            return None
        states, size = [(known, value)], 0
        for row in reversed(rows):
            if row.value is None:
                return None
            part = from_json(row.value)
            value = part if row.is_full or not isinstance(value, dict) else {**value, **part}
            states.append((row.version, value))
            size += len(pack(value))
        return states if size <= _MAX_MISSED_BYTES else None

    def _views(self, states: list[tuple[int, Json]]) -> list[tuple[int, Json]]:
        show, ref = self._definition.show, self._agent.ref
        try:
            return [(version, show(ref, state)) for version, state in states]
        except ClientViewError:
            return []

    def _take(self, data: Message) -> None:
        fields = _mutate_fields(data)
        if fields is None or self._socket.has_ended or self._has_too_much_under_way():
            super()._take(data)
        else:
            self._spawn(self._mutate(fields))

    async def _mutate(self, fields: dict[str, Json]) -> None:
        socket, channel = self._socket, self._gateway.client.channel
        try:
            mutation = _mutation(fields, socket.row.connection_id, channel.new_key())
            if not self._may_write:
                raise ReadonlyConnectionError(frames.READONLY)
            receipt = await channel.submit(socket.ref, mutation)
        except AgentRuntimeError as error:
            refusal = {"type": REFUSED, "id": fields["id"], "error": shown_record(error)}
            socket.send(_text(refusal))
            return
        await self._gateway.feed.catch_up()  # the state that it made comes first
        answer = {"version": receipt.version, "applied": receipt.applied}
        answer["duplicate"] = receipt.duplicate
        socket.send(_text({"type": RECEIPT, "id": fields["id"], **answer}))


def _mutate_fields(data: Message) -> dict[str, Json] | None:
    if not isinstance(data, str) or MUTATE not in data:
        return None
    fields = frames.parse_object(data)
    if fields is None or fields.get("type") != MUTATE:
        return None
    return fields if isinstance(fields.get("id"), str) else None


def _mutation(fields: dict[str, Json], source: str, new_key: str) -> Mutation:
    kind = _KINDS.get(fields["kind"]) if isinstance(fields.get("kind"), str) else None
    if kind is None:
        raise InvalidRequestError(f"kind must be one of {', '.join(_KINDS)}")
    if unknown := fields.keys() - _FIELDS:
        raise InvalidRequestError(f"there is no {', '.join(sorted(unknown))} in a mutation")
    if kind is not MutationKind.RESET and "value" not in fields:
        raise InvalidRequestError("a value is missing")
    value = None if kind is MutationKind.RESET else fields["value"]
    key = new_key if fields.get("key") is None else fields["key"]
    return Mutation(key, kind, value, fields.get("expected_version"), source)


def _text(frame: Json) -> str:
    return pack(frame).decode()
