"""The rules of a class for its states that are methods of an agent's object."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import orjson

from agent_runtime.agent import Agent
from agent_runtime.errors import (
    NotSerializableError,
    StateRejectedError,
    describe,
    is_stop,
    text_of,
)
from agent_runtime.json_value import Json
from agent_runtime.mutation import Mutation, MutationKind
from agent_runtime.registry import AgentDefinition
from agent_runtime.state import UNSET, StateSchema, Unset

logger = logging.getLogger("agent_runtime")


class InstanceRules:
    """`StateRules` of a class that defines `validate_state_change` or `state_from_client`."""

    def __init__(self, definition: AgentDefinition, agent: Agent[Any]) -> None:
        self._definition = definition
        self._agent = agent
        self.has_validator = definition.has_validator
        self.guards_state = definition.guards_state

    @property
    def schema(self) -> StateSchema[Any]:
        """The shape of its state."""
        return self._definition.schema

    def check_call(self, method: str, args: list[Json], event: str = "") -> None:
        """Refuse a call that can never succeed."""
        self._definition.check_call(method, args, event)

    def validate(self, current: Json | Unset, next_state: Json, source: str) -> None:
        """Run `validate_state_change`.

        Raises:
            StateRejectedError: It refused.
        """
        agent = self._agent
        # Typed to return nothing, but an author may have written `async def` in a base class.
        validate: Callable[[Any, str], object] = agent.validate_state_change
        try:
            with agent._deciding_over(current):
                refusal = validate(self.schema.load(orjson.dumps(next_state)), source)
        except StateRejectedError:
            raise
        except BaseException as error:
            if is_stop(error):
                raise
            raise StateRejectedError(text_of(error) or type(error).__name__) from error
        _refuse_awaitable(refusal, "validate_state_change")

    def from_client(self, current: Json | Unset, mutation: Mutation) -> Json:
        """Run `state_from_client`; a merge is shown to it as the whole view that it makes.

        Raises:
            StateRejectedError: It refused, is not defined, or the state is to be reset.
            ClientViewError: There is no view that could be merged into.
        """
        agent, definition = self._agent, self._definition
        if not definition.has_client_states or mutation.kind is MutationKind.RESET:
            return definition.from_client(current, mutation)
        sent = self._sent(current, mutation)
        present = None if current is UNSET else self.schema.load(orjson.dumps(current))
        try:
            with agent._deciding_over(current):
                next_state = agent.state_from_client(present, sent)
        except StateRejectedError:
            raise
        except BaseException as error:
            if is_stop(error):
                raise
            raise self._unusable(error) from error
        _refuse_awaitable(next_state, "state_from_client")
        try:
            text = self.schema.dump(next_state)
        except NotSerializableError as error:
            raise self._unusable(error) from error
        return self.schema.check(orjson.loads(text))

    def _unusable(self, error: BaseException) -> StateRejectedError:
        # What it says may quote what the client is not to see.
        ref = self._agent._ref
        logger.error("%s.state_from_client: %s", ref, describe(error), exc_info=error)
        return StateRejectedError("state_from_client failed; the log says why")

    def _sent(self, current: Json | Unset, mutation: Mutation) -> Json:
        # A copy: the author may change it, and the transaction may run again.
        sent = orjson.loads(orjson.dumps(mutation.value))
        if mutation.kind is not MutationKind.MERGE:
            return sent
        view = None if current is UNSET else self._definition.show(self._agent._ref, current)
        if not isinstance(sent, dict) or not isinstance(view, dict | None):
            raise StateRejectedError("only an object can be merged into another; use set_state")
        return {**(view or {}), **sent}


def _refuse_awaitable(result: object, hook: str) -> None:
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise StateRejectedError(f"{hook} must not be async")
