"""One agent, through a gateway."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.errors import (
    CallTimeoutError,
    HandlerError,
    InvalidRequestError,
    from_record,
)
from agent_runtime.gateway_client.gateway_http import GatewayHttp
from agent_runtime.gateway_client.gateway_session import GatewaySession
from agent_runtime.gateway_client.gateway_sessions import GatewaySessions, GatewaySessionsHandle
from agent_runtime.gateway_client.gateway_subscription import GatewaySubscription
from agent_runtime.idempotency_key import KeyMaker
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, pack, to_json
from agent_runtime.mutation import MutationKind, Receipt, check_key
from agent_runtime.state import MAX_STATE_BYTES, check_size

if TYPE_CHECKING:
    from agent_runtime.gateway_client.gateway_link import GatewayLink

_KEYS = KeyMaker()


class GatewayAgent:
    """One agent, through a gateway: follow and change its state, call its methods."""

    def __init__(
        self, link: GatewayLink, http: GatewayHttp, ref: AgentRef, timeout: timedelta
    ) -> None:
        self._link = link
        self._http = http
        self._timeout = timeout
        self.ref = ref

    def session(self, session_id: str = "") -> SessionHandle:
        """Return one of the agent's conversations, by default its default one.

        It goes over the gateway's HTTP API. What is lost on the way is sent again under its key,
        for as long as the client's timeout, or that of the call. Reading makes no agent: blocks,
        tools and estimates of one that is not there yet raise InvalidRequestError.
        """
        session = GatewaySession(self._http, self.ref, session_id)
        return SessionHandle(session.call, session, session_id, session.compaction)

    def sessions(self) -> GatewaySessionsHandle:
        """Return the registry of the agent's conversations, with exports and imports.

        It goes over the gateway's HTTP API, as `session` does.
        """
        return GatewaySessionsHandle(GatewaySessions(self._http, self.ref))

    def subscribe(self) -> GatewaySubscription:
        """Return the state as it changes: `async for snapshot in agent.subscribe()`.

        The present state comes first, then each newer one in order of version. A lost connection
        is made again, with growing pauses, and goes on after the last version that was seen. A
        slow reader misses the oldest of what waits, never the newest. It ends when it is closed,
        by `close` or as a context manager, or its client is. Nothing comes from an agent without a
        state, until one is set, or from one that sends this client no protocol messages.
        """
        return GatewaySubscription(self._link)

    async def set_state(
        self,
        state: Json,
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Receipt:
        """Replace the state; when this returns it is on disk.

        If the connection is lost meanwhile it is sent again with the same key; its receipt may
        then be a duplicate.

        Args:
            idempotency_key: Give one to repeat safely after an error; a second use returns the
                first receipt.
            expected_version: Refuse unless the state has this version.

        Raises:
            StateRejectedError: The state type or validator refused.
            ReadonlyConnectionError: The token or the agent lets this client only read.
            VersionConflictError: Another version is present.
            IdempotencyConflictError: The key was used with another payload.
            NotSerializableError: The value is not JSON.
            StateTooLargeError: More than 2,000,000 bytes of JSON.
            CallTimeoutError: No receipt came in time.
            ConfigurationError: The gateway does not let this client in.
        """
        return await self._mutate(MutationKind.SET, state, idempotency_key, expected_version)

    async def merge_state(
        self,
        partial: dict[str, Json],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Receipt:
        """Replace the named top-level keys; None is a value, nothing is removed.

        Raises:
            AgentRuntimeError: As `set_state`.
        """
        return await self._mutate(MutationKind.MERGE, partial, idempotency_key, expected_version)

    async def reset_state(
        self, *, idempotency_key: str | None = None, expected_version: int | None = None
    ) -> Receipt:
        """Put the class's `initial_state` back; `{}` where it has none.

        Raises:
            AgentRuntimeError: As `set_state`.
        """
        return await self._mutate(MutationKind.RESET, None, idempotency_key, expected_version)

    async def call(self, method: str, *args: Json, timeout: timedelta | None = None) -> Json:
        """Call a `@callable` method and return its result; None for one that streams.

        Calls of the wire have no idempotency key, so one is never sent twice.

        Args:
            timeout: Give up waiting after this; None waits as long as the handler runs.

        Raises:
            HandlerError: It failed; the wire says why in words only, also `details_map["error"]`.
            UnavailableError: The connection was lost after it was sent; it may still run.
            CallTimeoutError: `timeout` passed; the handler goes on.
        """
        text = to_json(list(args), what="the arguments")
        if len(text) > MAX_STATE_BYTES:
            raise InvalidRequestError(
                f"the arguments of {method} have {len(text)} bytes of JSON, at most "
                f"{MAX_STATE_BYTES} are allowed; send where the data is instead",
                size=len(text),
                limit=MAX_STATE_BYTES,
            )
        head = {"type": "rpc", "method": method}
        answer = await self._ask(head, "args", text, timeout, is_repeatable=False)
        if answer.get("success") is not True:
            reason = str(answer.get("error"))
            raise HandlerError(f"{self.ref}.{method}: {reason}", error=reason)
        return answer.get("result")

    async def _mutate(
        self,
        kind: MutationKind,
        value: Json,
        idempotency_key: str | None,
        expected_version: int | None,
    ) -> Receipt:
        key = _KEYS.next() if idempotency_key is None else idempotency_key
        check_key(key)
        text = to_json(value, what="the state")
        check_size(len(text))
        head: dict[str, Json] = {"type": "agent_runtime_mutate", "kind": kind.value, "key": key}
        if expected_version is not None:
            head["expected_version"] = expected_version
        answer = await self._ask(head, "value", text, self._timeout, is_repeatable=True)
        if answer["type"] == "agent_runtime_refused":
            raise from_record(answer["error"])
        return Receipt(answer["version"], answer["applied"], answer["duplicate"])

    async def _ask(
        self,
        head: dict[str, Json],
        field: str,
        text: bytes,
        timeout: timedelta | None,
        *,
        is_repeatable: bool,
    ) -> Json:
        identity = _KEYS.next()
        start = pack({**head, "id": identity})[:-1].decode()
        frame = f'{start},"{field}":{text.decode()}}}'
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            async with asyncio.timeout(seconds):
                return await self._link.ask(identity, frame, is_repeatable=is_repeatable)
        except TimeoutError:
            raise CallTimeoutError(
                f"{self.ref}: no answer from the gateway within {seconds} seconds; it may still "
                "happen, so repeat with the same key"
            ) from None
