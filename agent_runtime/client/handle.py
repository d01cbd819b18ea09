"""One agent, from outside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from agent_runtime.argument_check import check_count, check_timeout
from agent_runtime.client.agent_call import AgentCall
from agent_runtime.client.channel import Channel
from agent_runtime.client.subscription import StateSubscription
from agent_runtime.errors import InvalidRequestError
from agent_runtime.hosting.state_reader import (
    MAX_HISTORY,
    StateHistoryEntry,
    StateSnapshot,
    open_history,
    open_snapshot,
    read_history,
    read_snapshot,
    read_version,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.mutation import SESSION_EVENT, Mutation, MutationKind, Receipt, call_value

if TYPE_CHECKING:
    from agent_runtime.client.agent_sessions import AgentSessions
    from agent_runtime.client.session_handle import SessionHandle
    from agent_runtime.client.sessions_handle import SessionsHandle

MAX_ARGUMENT_BYTES = 2_000_000
"""The server takes 2 MiB, with what is around the arguments."""


class AgentHandle:
    """One agent, from outside: change and read its state, call its methods."""

    def __init__(self, channel: Channel, ref: AgentRef) -> None:
        self._channel = channel
        self.ref = ref

    async def set_state(
        self,
        state: Json,
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Receipt:
        """Replace the state; when this returns it is on disk.

        Args:
            idempotency_key: Give one to repeat safely after an error; a second use returns the
                first receipt.
            expected_version: Refuse unless the state has this version.

        Raises:
            StateRejectedError: The state type or validator refused.
            VersionConflictError: Another version is present.
            IdempotencyConflictError: The key was used with another payload.
            NotSerializableError: The value is not JSON.
            StateTooLargeError: More than 2,000,000 bytes of JSON.
            CallTimeoutError: No worker answered in time.
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

    async def destroy(
        self, *, idempotency_key: str | None = None, expected_version: int | None = None
    ) -> Receipt:
        """Destroy the agent with all that it has: state, history, SQL, calls, connections.

        Its handlers are stopped, and who waits for them gets `AgentDestroyedError`. The next
        contact meets a new agent that knows nothing of this one, its idempotency keys included; the
        key of the destroy itself is remembered, so that a repeat does not destroy the new agent.

        Returns:
            The version that the state had at the end.

        Raises:
            AgentRuntimeError: As `set_state`.
        """
        return await self._mutate(MutationKind.DESTROY, None, idempotency_key, expected_version)

    async def get_state(self, *, version: int | None = None) -> StateSnapshot:
        """Return the present state, at least as new as every mutation that has returned.

        Reading an agent whose state was never set stores its `initial_state`.

        Args:
            version: Return this earlier state instead.

        Raises:
            InvalidRequestError: That version does not exist or is kept no longer.
            CallTimeoutError: No worker answered in time.
        """
        if version is not None:
            return await self._read_version(version)
        snapshot = await self._read_snapshot()
        if snapshot is not None and snapshot.is_set:
            return snapshot
        await self._mutate(MutationKind.INIT, None, None, None)
        return await self._read_snapshot() or StateSnapshot(None, 0, is_set=False)

    async def peek(self) -> StateSnapshot | None:
        """Return the present state without storing anything; None while that cannot be told."""
        return await self._read_snapshot()

    def subscribe(self) -> StateSubscription:
        """Return the state as it changes: `async for snapshot in agent.subscribe()`.

        The present state comes first, then each newer one in order of version. A slow reader gets
        the newest in place of all that it missed. It ends when it is closed, by `close` or as a
        context manager, or its client is. With the storage changes arrive within milliseconds;
        without, the agent is asked each second.
        """
        return StateSubscription(self, self._channel)

    async def state_history(
        self, *, newest: int | None = None, limit: int = 100
    ) -> list[StateHistoryEntry]:
        """Return the state's versions, newest first; the newest 1,000 keep their values.

        Args:
            newest: Start at this version, to read on.
            limit: At most so many, 1 to 1,000.
        """
        check_count(limit, "limit", 1, MAX_HISTORY)
        if self._channel.storage is not None:
            return await read_history(self._channel.storage, self.ref, newest=newest, limit=limit)
        found: list[StateHistoryEntry] = []
        while len(found) < limit:
            asked = {"read": "history", "newest": newest, "limit": limit - len(found)}
            page = open_history(await self._ask_awake(asked) or [])
            found += page
            if not page or page[-1].version <= 1:
                break
            newest = page[-1].version - 1
        return found

    async def call(
        self,
        method: str,
        *args: Json,
        idempotency_key: str | None = None,
        timeout: timedelta | None = None,
    ) -> Json:
        """Call a `@callable` method and return its result.

        The call is durable: it runs to its end even if this process dies or the caller is
        cancelled. With the same key it is not run again; its recorded outcome is returned.

        Args:
            timeout: Give up waiting after this; None waits as long as the handler runs.

        Raises:
            HandlerError: The method raised; `details_map` has `error_type` and `error`.
            InvalidRequestError: No such class or method, not callable, or wrong arguments.
            IdempotencyConflictError: The key was used for another call.
            CallTimeoutError: `timeout` passed; the handler goes on.
        """
        check_timeout(timeout)
        call = await self.start_call(method, *args, idempotency_key=idempotency_key)
        return await call.result(timeout=timeout)

    def session(self, session_id: str = "") -> SessionHandle:
        """Return one of the agent's conversations, by default its default one."""
        return self._sessions().session(session_id)

    def sessions(self) -> SessionsHandle:
        """Return the registry of the agent's conversations."""
        return self._sessions().registry()

    def _sessions(self) -> AgentSessions:
        from agent_runtime.client.agent_sessions import AgentSessions

        return AgentSessions(self._channel, self.ref, self._call_session, self._ask_awake)

    async def start_call(
        self,
        method: str,
        *args: Json,
        idempotency_key: str | None = None,
        chain: Sequence[str] = (),
        hook_depth: int = 0,
        event: str = "",
        caller: dict[str, Json] | None = None,
    ) -> AgentCall:
        """Start a call as `call` does, and return without waiting for its result.

        Args:
            chain: Keys of exclusive handlers that wait for this call, to find deadlocks.
            hook_depth: How many change hooks, one through the other, led here.
            event, caller: What a connected client did, see `call_value`.
        """
        text = to_json(list(args), what="the arguments")
        if len(text) > MAX_ARGUMENT_BYTES:
            raise InvalidRequestError(
                f"the arguments of {method} have {len(text)} bytes of JSON, at most "
                f"{MAX_ARGUMENT_BYTES} are allowed; send where the data is instead",
                size=len(text),
                limit=MAX_ARGUMENT_BYTES,
            )
        plain = from_json(text)
        key = self._channel.new_key() if idempotency_key is None else idempotency_key
        value = call_value(method, plain, chain, hook_depth, event, caller)
        await self._channel.submit(self.ref, Mutation(key, MutationKind.CALL, value))
        return AgentCall(self._channel, self.ref, key)

    async def _call_session(
        self,
        method: str,
        session_id: str,
        args: Sequence[Json],
        idempotency_key: str | None,
        timeout: timedelta | None,
    ) -> Json:
        check_timeout(timeout)
        call = await self.start_call(
            method, session_id, *args, idempotency_key=idempotency_key, event=SESSION_EVENT
        )
        return await call.result(timeout=timeout)

    async def _mutate(
        self,
        kind: MutationKind,
        value: Json,
        idempotency_key: str | None,
        expected_version: int | None,
    ) -> Receipt:
        key = self._channel.new_key() if idempotency_key is None else idempotency_key
        return await self._channel.submit(self.ref, Mutation(key, kind, value, expected_version))

    async def _read_snapshot(self) -> StateSnapshot | None:
        if self._channel.storage is not None:
            return await read_snapshot(self._channel.storage, self.ref)
        answer = await self._channel.query(self.ref, {"read": "state"})
        return None if answer is None else open_snapshot(answer)

    async def _read_version(self, version: int) -> StateSnapshot:
        if self._channel.storage is not None:
            return await read_version(self._channel.storage, self.ref, version)
        answer = await self._ask_awake({"read": "version", "version": version})
        if answer is None:
            raise InvalidRequestError(f"{self.ref} has no state at version {version}")
        return open_snapshot(answer)

    async def _ask_awake(self, request: Json) -> Json:
        answer = await self._channel.query(self.ref, request)
        if answer is None:
            # Asleep for longer than Temporal remembers its entity, which says nothing of its state.
            await self._channel.wake(self.ref)
            answer = await self._channel.query(self.ref, request)
        return answer
