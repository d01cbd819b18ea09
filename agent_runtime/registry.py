"""The agent classes that a worker serves, and what is known of each."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args, get_origin

from pydantic import PydanticUserError

from agent_runtime.agent import Agent
from agent_runtime.client_view import ClientView
from agent_runtime.durable_compaction.compaction_job import COMPACTION_EVENT, COMPACTION_STEPS
from agent_runtime.errors import (
    AgentRuntimeError,
    ConfigurationError,
    InvalidRequestError,
    MethodNotCallableError,
    StateRejectedError,
    UnknownAgentClassError,
    UnknownMethodError,
    is_stop,
)
from agent_runtime.handler import CallableOptions, callable_options
from agent_runtime.handlers.manager_call import MANAGER_METHODS
from agent_runtime.handlers.session_call import SESSION_METHODS
from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.json_value import Json
from agent_runtime.mutation import SESSION_EVENT, Mutation, MutationKind
from agent_runtime.state import StateSchema, Unset

AgentClass = type[Agent[Any]]

EVENT_HOOKS = {
    "admit": (
        "get_connection_tags",
        "should_connection_be_readonly",
        "should_send_protocol_messages",
    ),
    "connect": ("on_connect",),
    "message": ("on_message",),
    "close": ("on_close",),
    "request": ("on_request",),
    SESSION_EVENT: (*SESSION_METHODS, *MANAGER_METHODS),
    COMPACTION_EVENT: tuple(COMPACTION_STEPS),
}
"""The hooks for each thing that a client does."""

_SYNC_HOOKS = {
    "validate_state_change": "a refusal that comes later cannot refuse",
    "client_view": "it is asked for wherever the state is shown",
    "state_from_client": "it runs inside the transaction",
}


class AgentDefinition:
    """An agent class, looked at once; serves as `StateRules` where no hook decides.

    Raises:
        ConfigurationError: The class cannot be served; says why.
    """

    def __init__(self, agent_class: AgentClass) -> None:
        self.agent_class = agent_class
        self.class_name = agent_ref(agent_class.__name__, "x").class_name
        try:
            self.schema: StateSchema[Any] = StateSchema(
                state_type_of(agent_class), agent_class.initial_state
            )
        except PydanticUserError as error:
            raise ConfigurationError(
                f"{self.class_name}: its state type cannot be used: {error}"
            ) from error
        self._signatures: dict[str, inspect.Signature] = {}
        self.has_validator = self._overrides("validate_state_change")
        self.has_start = self._overrides("on_start")
        self.has_hook = self._overrides("on_state_changed")
        self.has_client_states = self._overrides("state_from_client")
        self.needs_object = self.has_validator or self.has_client_states
        self.view = ClientView(agent_class, self.schema) if self._overrides("client_view") else None
        self.guards_state = self.has_client_states or self.view is not None
        for hook, reason in _SYNC_HOOKS.items():
            if inspect.iscoroutinefunction(getattr(agent_class, hook)):
                raise ConfigurationError(f"{self.class_name}.{hook} must not be async: {reason}")
        try:
            self.schema.initial()
        except AgentRuntimeError as error:
            raise ConfigurationError(f"{self.class_name}.initial_state: {error.message}") from error

    def callable(self, method: str) -> CallableOptions:
        """Return how a method may be called.

        Raises:
            UnknownMethodError: There is no such method.
            MethodNotCallableError: It is not marked.
        """
        found = getattr(self.agent_class, method, None)
        if not inspect.isfunction(found):
            raise UnknownMethodError(f"Method {method} does not exist", method=method)
        options = callable_options(found)
        if options is None:
            raise MethodNotCallableError(f"Method {method} is not callable", method=method)
        return options

    def check_call(self, method: str, args: list[Json], event: str = "") -> None:
        """Refuse a call, or an event without a hook, that can never succeed.

        Raises:
            InvalidRequestError: No such method, not callable, or other arguments.
        """
        if event:
            if method not in EVENT_HOOKS.get(event, ()) or not self.handles(event):
                raise UnknownMethodError(f"{self.class_name} has no hook for {event!r:.40}")
            return
        options = self.callable(method)
        signature = self._signature(method)
        try:
            signature.bind(None, *([None] if options.streaming else []), *args)
        except TypeError as error:
            raise InvalidRequestError(f"{method}: {error}", method=method) from None

    def fit_args(self, method: str, args: list[Json]) -> list[Json]:
        """Return a client's arguments as the method takes them (state-and-sync 11.5).

        Surplus ones are left out; missing ones without a default are None.
        """
        options = self.callable(method)
        parameters = list(self._signature(method).parameters.values())
        positional = [
            parameter
            for parameter in parameters[2 if options.streaming else 1 :]
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
            args = args[: len(positional)]
        missing = positional[len(args) :]
        return [*args, *(None for one in missing if one.default is one.empty)]

    def returns_nothing(self, method: str) -> bool:
        """Tell whether a method is annotated to return None: its callers get no result at all."""
        return self._signature(method).return_annotation in (None, "None")

    def handles(self, event: str) -> bool:
        """Tell whether the class defines a hook for what a client does."""
        if event in (SESSION_EVENT, COMPACTION_EVENT):
            return True
        return any(self._overrides(hook) for hook in EVENT_HOOKS[event])

    def callables(self) -> dict[str, CallableOptions]:
        """Return all callable methods, inherited ones included."""
        marked = {}
        for name, found in inspect.getmembers(self.agent_class, inspect.isfunction):
            options = callable_options(found)
            if options is not None:
                marked[name] = options
        return marked

    def validate(self, current: Json | Unset, next_state: Json, source: str) -> None:
        """Accept everything: the class defines no validator."""

    def show(self, ref: AgentRef, state: Json) -> Json:
        """Return what clients see of an agent's state: its view, or the state itself.

        Raises:
            ClientViewError: There is none to show.
        """
        return state if self.view is None else self.view.show(ref, state)

    def from_client(self, current: Json | Unset, mutation: Mutation) -> Json:
        """Refuse a client's state: the class does not say what becomes of it.

        Raises:
            StateRejectedError: Always.
        """
        if mutation.kind is MutationKind.RESET:
            raise StateRejectedError(f"clients do not reset the state of {self.class_name}")
        raise StateRejectedError(
            f"clients see a view of the state of {self.class_name} and do not write it; call a "
            "method, or define state_from_client"
        )

    def _signature(self, method: str) -> inspect.Signature:
        # Taking one apart costs as much as many small things of a call together.
        if method not in self._signatures:
            self._signatures[method] = inspect.signature(getattr(self.agent_class, method))
        return self._signatures[method]

    def _overrides(self, hook: str) -> bool:
        return getattr(self.agent_class, hook) is not getattr(Agent, hook)


class AgentRegistry:
    """Agent classes by name.

    Raises:
        ConfigurationError: Two classes share a name, or one cannot be served.
    """

    def __init__(self, classes: Iterable[AgentClass]) -> None:
        self._definitions: dict[str, AgentDefinition] = {}
        for agent_class in classes:
            definition = AgentDefinition(agent_class)
            known = self._definitions.get(definition.class_name)
            if known is not None and known.agent_class is not agent_class:
                raise ConfigurationError(
                    f"two agent classes are named {definition.class_name}: in "
                    f"{known.agent_class.__module__} and {agent_class.__module__}; rename one"
                )
            self._definitions[definition.class_name] = definition

    def __iter__(self) -> Iterator[AgentDefinition]:
        return iter(self._definitions.values())

    @property
    def class_names(self) -> list[str]:
        """The names of all classes, sorted."""
        return sorted(self._definitions)

    def definition(self, class_name: str) -> AgentDefinition:
        """Return a class's definition.

        Raises:
            UnknownAgentClassError: This worker does not serve it.
        """
        try:
            return self._definitions[class_name]
        except KeyError:
            known = ", ".join(self.class_names) or "none"
            raise UnknownAgentClassError(
                f"no agent class {class_name}; this worker serves: {known}", class_name=class_name
            ) from None


def state_type_of(agent_class: AgentClass) -> Any:
    """Return the type in `Agent[...]` of the class or the nearest base, None for any JSON."""
    argument = _state_argument(agent_class)
    return None if argument is Any or isinstance(argument, TypeVar) else argument


def _state_argument(agent_class: type) -> Any:
    for base in agent_class.__dict__.get("__orig_bases__", agent_class.__bases__):
        origin = get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, Agent)):
            continue
        arguments = get_args(base)
        if origin is Agent:
            return arguments[0] if arguments else None
        inner = _state_argument(origin)
        if isinstance(inner, TypeVar) and arguments:
            return arguments[origin.__parameters__.index(inner)]  # type: ignore[attr-defined]
        return inner
    return None


def load_agents(target: str) -> list[AgentClass]:
    """Import a module and return the agent classes that it defines.

    Args:
        target: A file (`my_agents.py`), a dotted module (`my_app.agents`), or either with a class
            (`my_app.agents:GameAgent`).

    Raises:
        ConfigurationError: Nothing there can be imported, or it holds no agent class.
    """
    place, _, class_name = target.partition(":")
    module = _import(place)
    classes = [
        found
        for found in vars(module).values()
        if isinstance(found, type)
        and issubclass(found, Agent)
        and found.__module__ != "agent_runtime.agent"
        and (not class_name or found.__name__ == class_name)
    ]
    if not classes:
        wanted = f"agent class {class_name}" if class_name else "class derived from Agent"
        raise ConfigurationError(f"{place} has no {wanted}")
    return list(dict.fromkeys(classes))


def _import(place: str) -> ModuleType:
    path = Path(place)
    try:
        if place.endswith(".py"):
            if not path.is_file():
                raise ConfigurationError(f"there is no file {place}")
            folder = str(path.resolve().parent)
            if folder not in sys.path:
                sys.path.insert(0, folder)
            name = _module_name(path)
            spec = importlib.util.spec_from_file_location(name, path.resolve())
            if spec is None or spec.loader is None:
                raise ConfigurationError(f"{place} is not a Python module")
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
        if "" not in sys.path:
            sys.path.insert(0, "")
        return importlib.import_module(place)
    except ConfigurationError:
        raise
    except (ImportError, SyntaxError) as error:
        raise ConfigurationError(f"{place} cannot be imported: {error}") from error
    except BaseException as error:
        if is_stop(error):
            raise
        # Any error of the author's module, with the line that raised it.
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigurationError(
            f"{place} cannot be imported: {type(error).__name__}: {error} "
            f"({frame.filename}, line {frame.lineno})"
        ) from error


def _module_name(path: Path) -> str:
    """Return the name that a file is imported under; never that of another module."""
    present = sys.modules.get(path.stem)
    file = getattr(present, "__file__", None)
    is_taken = present is not None and (file is None or Path(file).resolve() != path.resolve())
    return f"{path.stem}_{abs(hash(str(path.resolve()))):x}" if is_taken else path.stem
