"""What clients are shown of an agent's states, where its class defines `client_view`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from agent_runtime.errors import ClientViewError, InternalError, describe, is_stop
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json, from_json, to_json
from agent_runtime.state import StateSchema

if TYPE_CHECKING:
    from agent_runtime.agent import Agent

logger = logging.getLogger("agent_runtime")


class ClientView:
    """The view that a class defines; it needs a state and no running agent.

    A gateway has no agents' objects. `client_view` is given a new one that has a name, shows the
    state as `self.state` and can do nothing: its `__init__` has not run.
    """

    def __init__(self, agent_class: type[Agent[Any]], schema: StateSchema[Any]) -> None:
        self._agent_class = agent_class
        self._schema = schema

    def show(self, ref: AgentRef, state: Json) -> Json:
        """Return what clients see of a state; `state` is not changed.

        Raises:
            ClientViewError: There is none to show; the log says why, the error does not.
        """
        try:
            agent = self._agent_class.__new__(self._agent_class)
            agent._bind(ref, self._schema, _refuse_effects)
            # Typed to return JSON, but an author may have written `async def` in a base class.
            make_view: Callable[[Any], object] = agent.client_view
            with agent._deciding_over(state):
                view = make_view(self._schema.load(orjson.dumps(state)))
            if inspect.iscoroutine(view):
                view.close()
            return from_json(to_json(view, what="the view"))
        except BaseException as error:
            if is_stop(error):
                raise
            logger.error("%s.client_view: %s", ref, describe(error), exc_info=error)
            raise ClientViewError(f"{ref}: client_view failed") from None


def _refuse_effects() -> NoReturn:
    raise InternalError("client_view can only look at the state")
