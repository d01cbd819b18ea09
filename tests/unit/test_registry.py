"""Agent classes: what is read off them, what cannot be served, and where they are found."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar

import pytest
from pydantic import BaseModel

from agent_runtime import Agent, callable
from agent_runtime.errors import (
    ConfigurationError,
    MethodNotCallableError,
    UnknownAgentClassError,
    UnknownMethodError,
)
from agent_runtime.registry import AgentDefinition, AgentRegistry, load_agents, state_type_of

StateT = TypeVar("StateT")


class Game(BaseModel):
    """A state."""

    score: int = 0


class Options(TypedDict):
    """Another state."""

    name: str


class TypedAgent(Agent[Game]):
    """Names its state type."""


class ChildAgent(TypedAgent):
    """Inherits it."""


class GenericAgent(Agent[StateT], Generic[StateT]):
    """Leaves it open."""


class FilledAgent(GenericAgent[Options]):
    """Fills it in."""


class AnyAgent(Agent[Any]):
    """Any JSON, said aloud."""


class PlainAgent(Agent):
    """Any JSON, said by saying nothing."""


class DictAgent(Agent[dict[str, int]]):
    """A dict."""


class Parent(Agent):
    """Marked and unmarked methods, as in state-and-sync 21, case 106."""

    @callable(description="inherited")
    def parent_method(self) -> str:
        """Inherited."""
        return "parent"

    @callable()
    def shared_method(self) -> str:
        """Overridden with a mark."""
        return "parent"

    @callable()
    def hidden_method(self) -> str:
        """Overridden without a mark."""
        return "parent"


class Child(Parent):
    """Overrides."""

    @callable(exclusive=True)
    def shared_method(self) -> str:
        return "child"

    def hidden_method(self) -> str:
        return "child"

    @callable()
    def child_method(self) -> str:
        """Its own."""
        return "child"

    def non_callable_method(self) -> str:
        """Never marked."""
        return "child"


@pytest.mark.parametrize(
    ("agent_class", "expected"),
    [
        (TypedAgent, Game),
        (ChildAgent, Game),
        (FilledAgent, Options),
        (DictAgent, dict[str, int]),
        (GenericAgent, None),
        (AnyAgent, None),
        (PlainAgent, None),
    ],
)
def test_the_state_type_is_read_off_the_class(agent_class: type[Agent[Any]], expected: Any) -> None:
    """The type in brackets counts, of the class or the nearest base."""
    assert state_type_of(agent_class) == expected


def test_case_106_callables_are_the_marked_methods() -> None:
    """Own, inherited and overridden marked methods are listed; unmarked ones are not."""
    found = AgentDefinition(Child).callables()

    assert sorted(found) == ["child_method", "parent_method", "shared_method"]
    assert found["shared_method"].exclusive
    assert found["parent_method"].description == "inherited"


def test_a_mark_is_not_inherited_by_an_override() -> None:
    """Who overrides a callable method decides anew."""
    with pytest.raises(MethodNotCallableError, match="Method hidden_method is not callable"):
        AgentDefinition(Child).callable("hidden_method")


@pytest.mark.parametrize(
    "method", ["nothing", "", "_ref", "name", "state", "initial_state", "__doc__", "a b"]
)
def test_what_is_no_method_does_not_exist(method: str) -> None:
    """Attributes and properties are no methods."""
    with pytest.raises(UnknownMethodError, match="does not exist"):
        AgentDefinition(Child).callable(method)


@pytest.mark.parametrize("method", ["set_state", "sql", "on_start", "_bind", "step"])
def test_the_library_s_own_methods_are_not_callable(method: str) -> None:
    """Nothing of the base class can be called from outside."""
    with pytest.raises(MethodNotCallableError, match="not callable"):
        AgentDefinition(Child).callable(method)


def test_overridden_hooks_are_noticed() -> None:
    """Only hooks that a class or its base defines cost anything."""

    class Hooked(Agent):
        def validate_state_change(self, next_state: Any, source: str) -> None: ...

        async def on_start(self) -> None: ...

    class Inherits(Hooked):
        pass

    for definition in (AgentDefinition(Hooked), AgentDefinition(Inherits)):
        assert (definition.has_validator, definition.has_start) == (True, True)
        assert not definition.has_hook
    assert not AgentDefinition(PlainAgent).has_validator


def test_an_async_validator_is_refused() -> None:
    """A refusal that comes later cannot refuse (state-and-sync 19.1, fault 35)."""

    class Late(Agent):
        async def validate_state_change(self, next_state: Any, source: str) -> None: ...  # type: ignore[override]

    with pytest.raises(ConfigurationError, match="must not be async"):
        AgentDefinition(Late)


def test_async_views_are_refused() -> None:
    """What is asked for wherever a state is shown cannot be waited for."""

    class LateView(Agent):
        async def client_view(self, state: Any) -> Any: ...

    class LateState(Agent):
        async def state_from_client(self, state: Any, sent: Any) -> Any: ...

    for late in (LateView, LateState):
        with pytest.raises(ConfigurationError, match="must not be async"):
            AgentDefinition(late)


def test_an_unusable_state_type_is_refused() -> None:
    """A type that has no JSON form is named with its class."""

    class Socket:
        pass

    class Odd(Agent[Socket]):
        pass

    with pytest.raises(ConfigurationError, match="Odd: its state type cannot be used"):
        AgentDefinition(Odd)


@pytest.mark.parametrize("initial", [{"score": "high"}, float("nan"), object(), []])
def test_an_initial_state_that_does_not_fit_is_refused(initial: Any) -> None:
    """The class is refused when the worker starts, not when the first agent is read."""
    odd = type("Odd", (TypedAgent,), {"initial_state": initial})

    with pytest.raises(ConfigurationError, match=r"Odd\.initial_state: "):
        AgentDefinition(odd)


def test_two_classes_of_one_name_are_refused() -> None:
    """An address must mean one class; the same class twice is fine."""
    other = type("PlainAgent", (Agent,), {})

    assert AgentRegistry([PlainAgent, PlainAgent]).class_names == ["PlainAgent"]
    with pytest.raises(ConfigurationError, match="two agent classes are named PlainAgent"):
        AgentRegistry([PlainAgent, other])


def test_an_unknown_class_names_the_known_ones() -> None:
    """A misspelt class is answered with what there is."""
    registry = AgentRegistry([PlainAgent, Child])

    with pytest.raises(UnknownAgentClassError, match="this worker serves: Child, PlainAgent"):
        registry.definition("PlaneAgent")
    with pytest.raises(UnknownAgentClassError, match="serves: none"):
        AgentRegistry([]).definition("PlainAgent")


def test_callable_needs_parentheses() -> None:
    """`@callable` without parentheses is noticed where it is written."""
    with pytest.raises(TypeError, match="with parentheses"):
        callable(description=lambda self: None)  # type: ignore[arg-type]


MODULE = """
from agent_runtime import Agent
from pathlib import Path


class First(Agent):
    pass


class Second(First):
    pass


Alias = First
not_an_agent = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with agent modules, and the interpreter's module table put back afterwards."""
    modules, path = dict(sys.modules), list(sys.path)
    (tmp_path / "my_agents_of_test.py").write_text(MODULE)
    (tmp_path / "without_agents.py").write_text("x = 1\n")
    (tmp_path / "broken_agents.py").write_text("def broken(:\n")
    (tmp_path / "missing_import.py").write_text("import there_is_no_such_module\n")
    (tmp_path / "raising_agents.py").write_text("\n\nraise KeyError('oops')\n")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


def _names(target: str) -> list[str]:
    return [agent_class.__name__ for agent_class in load_agents(target)]


def test_agents_are_found_in_a_file(folder: Path) -> None:
    """All classes of a file, each once, without the library's own."""
    assert _names(str(folder / "my_agents_of_test.py")) == ["First", "Second"]


def test_one_agent_of_a_file_is_found(folder: Path) -> None:
    """A class may be picked by name."""
    assert _names(f"{folder / 'my_agents_of_test.py'}:Second") == ["Second"]


def test_agents_are_found_in_a_module(folder: Path) -> None:
    """A dotted module is imported as usual."""
    sys.path.insert(0, str(folder))

    assert _names("my_agents_of_test:First") == ["First"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere.py", "there is no file"),
        ("there_is_no_such_module", "cannot be imported"),
        ("", "cannot be imported"),
        ("without_agents.py", "no class derived from Agent"),
        ("my_agents_of_test.py:Third", "no agent class Third"),
        ("my_agents_of_test.py:not_an_agent", "no agent class not_an_agent"),
        ("broken_agents.py", "cannot be imported"),
        ("missing_import.py", "there_is_no_such_module"),
        ("raising_agents.py", "KeyError: 'oops'"),
    ],
)
def test_what_cannot_be_loaded_says_why(folder: Path, target: str, reason: str) -> None:
    """Every way to name the wrong thing is one typed error that names it."""
    place = str(folder / target) if ".py" in target else target

    with pytest.raises(ConfigurationError, match=reason):
        load_agents(place)


Other = TypeVar("Other")
Held = TypeVar("Held")


class TwoTypes(Agent[dict[str, int]], Generic[Other]):
    """Has a type of its own besides the state's."""


class Bound(TwoTypes[str]):
    """Gives the other type."""


class Passing(Agent[Held], Generic[Other, Held]):
    """Takes the state's type as its second."""


class Second(Passing[str, list[int]]):
    """Gives both."""


@pytest.mark.parametrize(
    ("agent_class", "expected"),
    [(Bound, dict[str, int]), (Second, list[int]), (TwoTypes, dict[str, int]), (Passing, None)],
)
def test_the_state_type_is_found_among_several(
    agent_class: type[Agent[Any]], expected: object
) -> None:
    """Whatever other type parameters a class has, the state's is the one that Agent is given."""
    assert state_type_of(agent_class) == expected


def test_a_file_does_not_take_the_place_of_another_module(tmp_path: Path) -> None:
    """An agent file may be called like a module of the standard library."""
    (tmp_path / "json.py").write_text(
        "from agent_runtime import Agent\n\n\nclass Named(Agent):\n    pass\n"
    )

    [found] = load_agents(str(tmp_path / "json.py"))

    assert found.__name__ == "Named"
    assert sys.modules["json"] is json
