"""The class that agent authors derive from."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson

from agent_runtime.agent_connection import BROADCAST, frame_payload
from agent_runtime.argument_check import as_list
from agent_runtime.durable_compaction.session_jobs import AgentCompactionJobs
from agent_runtime.errors import InternalError
from agent_runtime.generation.generation import Generation
from agent_runtime.generation.session_turns import SessionTurns
from agent_runtime.generation.turn_run import (
    DEFAULT_ANSWER_TIMEOUT,
    DEFAULT_MAX_STEPS,
    TurnOptions,
    run_turn,
)
from agent_runtime.handlers.connected import ConnectedAgent
from agent_runtime.handlers.session_journal import SessionJournal
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.llm.open_models import ModelChoice
from agent_runtime.mutation import MutationKind, Receipt
from agent_runtime.session.message import Message
from agent_runtime.session.registered_session import RegisteredSession
from agent_runtime.session.session import Session
from agent_runtime.session.session_manager import SessionManager
from agent_runtime.session.session_store import SessionStore
from agent_runtime.session.tool import Tool
from agent_runtime.state import UNSET, StateSchema, StateT, Unset

if TYPE_CHECKING:
    from agent_runtime.handlers.effects import Effects
    from agent_runtime.handlers.remote import RemoteAgent

T = TypeVar("T")

logger = logging.getLogger("agent_runtime")


class _Undecided(NamedTuple):
    """The state that a commit decides over, and whose it is."""

    agent: object
    state: Json | Unset


# Not an attribute of the agent: a handler in another thread must not see what is undecided.
_undecided: ContextVar[_Undecided | None] = ContextVar("agent_runtime_undecided", default=None)


class Agent(ConnectedAgent, Generic[StateT]):
    """A durable, addressable agent: `class GameAgent(Agent[Game])`.

    The type in brackets is a pydantic model, a TypedDict, `dict` or another annotated type; without
    one any JSON value may be the state. One object serves one instance in one process: attributes
    set on `self` are a cache that is gone when the agent leaves memory; `state` and `sql` stay.

    Methods marked `@callable()` and the hooks run as durable handlers: a crash repeats them, and
    what they had committed is not applied again.
    """

    initial_state: Any = UNSET
    """The state of a new agent, stored when it is first read (state-and-sync 7.2)."""

    model: ModelChoice | None = None
    """The language model of `generate`: how to reach it, or one that is open; None for the
    process's, which is configured by `AGENT_RUNTIME_MODEL` and its siblings."""

    _ref: AgentRef
    _effects: Callable[[], Effects]
    _schema: StateSchema[StateT]
    _stored_text: str | None = None
    _stored_version: int = 0
    _is_initial_read: bool = False
    _manager: SessionManager | None = None
    _default_session: Session | None = None
    _session_turns: SessionTurns

    @property
    def name(self) -> str:
        """The instance name."""
        return self._ref.name

    @property
    def has_state(self) -> bool:
        """The state was set, or read with an `initial_state`; a state of None counts."""
        return self._current_text() is not None

    @property
    def state(self) -> StateT:
        """A fresh copy of the latest committed state that this process knows.

        After an awaited mutation it is at least that mutation's result. An agent whose state was
        never set shows `initial_state`, which is thereby stored when the handler goes on, or None
        if the class has none.

        Raises:
            StateRejectedError: The stored state does not fit a changed state type.
        """
        text = self._current_text()
        if text is not None:
            return self._schema.load(text)
        initial = self._schema.initial()
        if initial is UNSET:
            return None  # type: ignore[return-value]
        if self._undecided() is None:
            self._is_initial_read = True
        return self._schema.load(orjson.dumps(initial))

    @property
    def state_version(self) -> int:
        """The version of `state`: the number of mutations ever applied, 0 for none."""
        return self._stored_version

    async def set_state(self, state: StateT, *, expected_version: int | None = None) -> Receipt:
        """Replace the state; when this returns it is on disk and announced (state-and-sync 7.3).

        Setting an equal value is an update like any other.

        Args:
            expected_version: Refuse unless the state has this version.

        Raises:
            StateRejectedError: The type or `validate_state_change` refused; nothing was stored.
            NotSerializableError: The value is not JSON.
            StateTooLargeError: More than 2,000,000 bytes of JSON.
            VersionConflictError: Another version is present.
        """
        value = from_json(self._schema.dump(state))
        return await self._effects().mutate(MutationKind.SET, value, expected_version)

    async def merge_state(
        self, partial: dict[str, Json], *, expected_version: int | None = None
    ) -> Receipt:
        """Replace the named top-level keys; None is a value, nothing is removed.

        Raises:
            StateRejectedError: As `set_state`; also if the present state is not an object.
        """
        value = from_json(to_json(partial, what="the partial state"))
        return await self._effects().mutate(MutationKind.MERGE, value, expected_version)

    async def reset_state(self) -> Receipt:
        """Put `initial_state` back, as the class has it now; `{}` where it has none."""
        return await self._effects().mutate(MutationKind.RESET)

    async def update_state(self, change: Callable[[StateT], StateT]) -> Receipt:
        """Replace the state by `change(present state)`, computed inside the transaction.

        Concurrent callers lose nothing. `change` is given a copy that it may alter and return; it
        must not be async, and may run again when its transaction is repeated. What it raises
        reaches the caller and changes nothing.
        """
        return await self._effects().mutate(MutationKind.UPDATE, update=change)

    async def destroy(self) -> None:
        """Destroy this agent: state, history, SQL, calls, connections (state-and-sync 13.3).

        All of it is gone when this returns, and its other handlers are stopped. The handler that
        asked may go on for five seconds, to return what its caller is to get; whatever it does with
        the agent raises. Then the clients are disconnected, and who comes next meets a new agent.

        Raises:
            AgentDestroyedError: Somebody else has destroyed it already.
            ReadonlyConnectionError: It is asked for a connection that may only read.
        """
        await self._effects().destroy()

    async def sql(self, query: str, *params: Json) -> list[dict[str, Json]]:
        """Run one statement on the agent's own database and return its rows (state-and-sync 15).

        Each statement commits by itself. In a repeated handler a statement that writes is not run
        again; its recorded rows are returned.

        Args:
            query: One statement with `?` for each value.
            params: None, bool (bound as 0 or 1), int, float, str or bytes.

        Raises:
            SqlError: The statement failed, or a value cannot be bound.
        """
        return await self._effects().sql(query, params)

    async def step(
        self,
        name: str,
        run: Callable[[], Awaitable[T]],
        *,
        attempts: int = 1,
        timeout: timedelta | None = None,
        backoff: timedelta = timedelta(seconds=1),
    ) -> T:
        """Run an outside effect at most once to completion and return its recorded result.

        Use it around model calls and everything else that costs or must not happen twice. A crash
        between the effect and its record can still repeat it. The error of the last attempt is
        recorded too: a repeated handler gets it again, of the same class, with its arguments.

        Args:
            name: Shown in errors; tells a repeated handler that it asks for the same thing.
            run: An async function without arguments whose result is JSON; the result is returned
                in its JSON form, the first time too.
            attempts: How often to try before its error reaches the handler.
            timeout: Limit of one attempt.
            backoff: Wait after the first failure; doubles each time, up to a minute.

        Raises:
            HandlerDivergedError: The handler asked for another effect here before the crash.
            NotSerializableError: The result is not JSON.
        """
        return await self._effects().step(name, run, attempts, timeout, backoff)

    @property
    def session_store(self) -> SessionStore:
        """Where the agent's conversations are; `Session.create(self)` makes one there."""
        return SessionJournal(self._ref, self._effects)

    @property
    def session_compaction_jobs(self) -> AgentCompactionJobs:
        """How conversations are summarized: by durable jobs, one at a time for each."""
        return AgentCompactionJobs(self._ref, self._effects)

    @property
    def sessions(self) -> SessionManager:
        """The agent's named conversations, set up by `configure_sessions`."""
        if self._manager is None:
            self._manager = self.configure_sessions(SessionManager(self, make=self._make_session))
        return self._manager

    @property
    def session(self) -> Session:
        """The agent's default conversation, set up by `configure_session`."""
        return self.get_session("")

    def get_session(self, session_id: str) -> Session:
        """Return one of the agent's conversations, registered or not, `""` for the default one."""
        session = self.sessions.get_session(session_id)
        if session_id == "":
            # The manager forgets what nobody holds.
            self._default_session = session
        return session

    def configure_session(self, session: Session) -> Session:
        """Set up a conversation, by chaining; called before its first use.

        Without `configure_sessions` it is called for every conversation of the agent, with it for
        the default one only.
        """
        return session

    def configure_sessions(self, manager: SessionManager) -> SessionManager:
        """Set up all conversations but the default one, by chaining; called once, before them.

        Without it they are set up as `configure_session` says.
        """
        return manager

    async def generate(
        self,
        message: str | Message | None = None,
        *,
        session_id: str = "",
        tools: Sequence[Tool] = (),
        max_steps: int = DEFAULT_MAX_STEPS,
        timeout: timedelta = DEFAULT_ANSWER_TIMEOUT,
    ) -> Generation:
        """Let the model answer in a conversation, running the tools that it asks for.

        It is sent the session's frozen prompt, visible history and tools. Each answer is stored as
        an assistant's message, with the results of its tools in it; the model is asked again until
        it asks for no tool. Turns of one session queue.

        In a repeated handler nothing is asked, run or stored again that was recorded. A tool runs
        within the handler: what it does to the agent is done once. A crash between a tool's own
        outside effect and its record can still repeat it.

        Errors that can pass are waited for, a few times. A conversation that is too long for the
        model is compacted once. Text is shown to connected clients while it arrives, in frames
        `agent_runtime_text`. Cancelling the handler ends the request to the model.

        Args:
            message: The user's, stored first; a text or a whole message, whose id makes it the
                same message when it comes again. None to answer what is there.
            session_id: Which conversation, `""` for the default one.
            tools: Beside those of the session and the agent's methods marked `@tool()`.
            max_steps: How often the model is asked at the most.
            timeout: For each answer, waiting for errors to pass included.

        Raises:
            ConfigurationError: No model is configured.
            ModelError: The model gave no usable answer; what was stored stays.
            InvalidRequestError: An argument is of a wrong type, two tools have one name, there is
                nothing to answer, or a tool asked for a turn of the session whose turn it runs in.
        """
        options = TurnOptions(tuple(as_list(tools, "tools")), max_steps, timeout)
        return await run_turn(self, message, session_id, options)

    async def broadcast_session_frame(self, text: str) -> None:
        """Tell connected clients of a conversation's status; a repeated handler may do so again."""
        await self._effects().announce(BROADCAST, {**frame_payload(text), "without": []})

    def agent(self, class_name: str, name: str) -> RemoteAgent:
        """Return another agent, to call it or change its state as a journalled effect.

        Raises:
            InvalidAgentError: One of the names cannot be an address.
        """
        return self._effects().agent(class_name, name)

    async def on_start(self) -> None:
        """Run once when the agent comes into this process's memory, before anything else."""

    def validate_state_change(self, next_state: StateT, source: str) -> None:
        """Raise to refuse a state; `self.state` shows the present one. Must not be async.

        Args:
            source: "server", or the id of the client connection that sent the state; "http" for a
                client's request where the class defines `client_view` or `state_from_client`.
        """

    def client_view(self, state: StateT) -> Json:
        """Return what clients are shown in place of the state; the whole of it if not defined.

        Must not be async, and depend on nothing but the state and `self.name`: the gateway calls it
        on an object whose `__init__` has not run, and again for what it has shown before. It may be
        a static method. If it raises, clients are shown nothing and the log says why. Clients'
        states are refused, unless the class defines `state_from_client` too.
        """
        return state

    def state_from_client(self, state: StateT, sent: Json) -> StateT:
        """Return the next state for what a client sent; `self.state` shows the present one.

        Runs inside the transaction, on a copy that it may change, and may run again; must not be
        async. The result is validated like any state. Raise `StateRejectedError` to refuse in words
        that the client may read; what else it raises refuses too, and is logged.

        Args:
            state: The present one, None if there is none.
            sent: JSON: the view as the client wants it. A merge has been made in the client's view.
        """
        next_state: StateT = sent
        return next_state

    async def on_state_changed(self, state: StateT, source: str) -> None:
        """Be told of a committed change, in order of versions; must not be waited for."""

    async def on_error(self, error: BaseException) -> None:
        """Be told of an error that no caller gets, such as one raised by `on_state_changed`."""
        logger.error("%s: %s", self._ref, error, exc_info=error)

    def _make_session(self, session_id: str) -> Session | None:
        is_managed = type(self).configure_sessions is not Agent.configure_sessions
        if is_managed and session_id != "":
            return None
        session = Session.create(RegisteredSession(self, session_id)).for_session(session_id)
        return self.configure_session(session)

    def _current_text(self) -> str | bytes | None:
        undecided = self._undecided()
        if undecided is None:
            return self._stored_text
        return None if undecided.state is UNSET else orjson.dumps(undecided.state)

    def _undecided(self) -> _Undecided | None:
        undecided = _undecided.get()
        return undecided if undecided is not None and undecided.agent is self else None

    @contextmanager
    def _deciding_over(self, state: Json | Unset) -> Iterator[None]:
        """Let `state` show what a commit decides over, in the code that runs within only."""
        token = _undecided.set(_Undecided(self, state))
        try:
            yield
        finally:
            _undecided.reset(token)

    def _bind(
        self, ref: AgentRef, schema: StateSchema[StateT], effects: Callable[[], Effects]
    ) -> None:
        if "_ref" in self.__dict__:
            raise InternalError(f"{ref}: the agent object is in use already")
        self._ref, self._schema, self._effects = ref, schema, effects
        self._session_turns = SessionTurns()

    def _show(self, text: str | None, version: int) -> None:
        """Let `state` show a committed state, unless a newer one is shown already."""
        if version >= self._stored_version:
            self._stored_text, self._stored_version = text, version
