"""Views of states, and what becomes of a client's state, without a gateway."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from agent_runtime import Agent, AgentRef
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import AgentRuntimeError, ClientViewError, StateRejectedError
from agent_runtime.gateway.shown_history import show_history
from agent_runtime.hosting.host import AgentHost
from agent_runtime.hosting.state_reader import read_history
from agent_runtime.json_value import Json
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Receipt
from agent_runtime.registry import AgentDefinition, AgentRegistry
from agent_runtime.storage.protocol import Retention
from agent_runtime.storage.sqlite import SqliteStorage

REF = AgentRef("Hiding", "a")


class Score(BaseModel):
    """A state with a hidden part."""

    seen: int = 0
    hidden: str = "secret"


class Hiding(Agent[Score]):
    """Shows one field; its view and its hook do what the field asks for."""

    initial_state = Score()

    def __init__(self) -> None:
        self.made = True

    def client_view(self, state: Score) -> Json:
        """Show what is to be seen."""
        if state.seen == -1:
            raise SystemExit(state.hidden)
        if state.seen == -2:
            return {"seen": float("nan")}
        if state.seen == -3:
            return self.made
        if state.seen == -4:
            self._effects()
        assert state == self.state
        state.hidden = "gone"
        return {"seen": state.seen, "name": self.name}

    def state_from_client(self, state: Score, sent: Json) -> Any:
        """Take over the field."""
        if sent.get("seen") == 7:
            raise StateRejectedError("not seven")
        sent.setdefault("seen", state.seen)
        if sent["seen"] == 8:
            raise KeyError(state.hidden)
        assert self.made
        return Score(seen=sent["seen"], hidden=state.hidden)


class Shy(Agent):
    """Shows nothing of its state and takes nothing for it."""

    @staticmethod
    def client_view(state: Any) -> Json:
        """Show that there is one."""
        return "something"


class Laggard(Agent):
    """Its view comes too late, which its signature does not tell."""

    def client_view(self, state: Any) -> Json:
        """Return what would have to be awaited."""

        async def late() -> Json:
            return state

        return late()


@pytest.fixture
def host(storage: SqliteStorage) -> AgentHost:
    """A host on a fresh file."""
    registry = AgentRegistry([Hiding, Shy])
    return AgentHost(storage, registry, on_inbox=lambda ref: None)


async def _send(host: AgentHost, kind: str, value: Json = None, ref: AgentRef = REF) -> Any:
    """Send as a client and return the outcome."""
    mutation = Mutation(f"{kind}-{value}", MutationKind(kind), value, source="client")
    [outcome] = await host.commit_batch(AgentBatch(ref, [mutation]))
    return outcome


async def _stored(host: AgentHost) -> Any:
    async with host.using(REF) as agent:
        return agent.state


def test_a_view_is_made_of_the_state_alone() -> None:
    """The state that it is made of stays as it was."""
    state = {"seen": 1, "hidden": "x"}

    assert AgentDefinition(Hiding).show(REF, state) == {"seen": 1, "name": "a"}
    assert state == {"seen": 1, "hidden": "x"}


def test_a_static_method_may_be_the_view() -> None:
    """It needs no object."""
    assert AgentDefinition(Shy).show(AgentRef("Shy", "a"), {"x": 1}) == "something"


@pytest.mark.parametrize("seen", [-1, -2, -3, -4, "no number"])
def test_a_view_that_cannot_be_made_tells_nothing(
    seen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What it raises, whatever that is, stays in the log."""
    with pytest.raises(ClientViewError) as raised:
        AgentDefinition(Hiding).show(REF, {"seen": seen, "hidden": "secret"})

    assert raised.value.message == "Hiding/a: client_view failed"
    assert raised.value.__cause__ is None
    assert "Hiding/a.client_view" in caplog.text


def test_a_view_that_must_be_awaited_is_none() -> None:
    """Nor is it left behind, which would be warned of."""
    with pytest.raises(ClientViewError):
        AgentDefinition(Laggard).show(AgentRef("Laggard", "a"), {})


def test_without_a_view_the_state_is_shown() -> None:
    """The very value: nothing is copied."""
    state = {"x": [1]}

    definition = AgentDefinition(Agent)
    assert definition.show(REF, state) is state
    assert not definition.guards_state


async def test_a_client_s_state_is_made_the_agent_s(host: AgentHost) -> None:
    """With the whole object at hand, over the initial state if there is no other."""
    outcomes = [await _send(host, "set", {"seen": 3}), await _send(host, "merge", {"other": 1})]

    assert outcomes == [Receipt(2), Receipt(3)]
    assert await _stored(host) == Score(seen=3)


async def test_a_repeated_client_s_state_is_a_duplicate(host: AgentHost) -> None:
    """Though the hook has changed what it was given."""
    first, second = [await _send(host, "set", {}) for _ in range(2)]

    assert (first.applied, second) == (True, Receipt(2, applied=False, duplicate=True))


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("set", {"seen": 7}, "not seven"),
        ("set", {"seen": 8}, "failed"),
        ("set", {"seen": "x"}, "failed"),
        ("set", None, "failed"),
        ("merge", [1], "only an object"),
        ("reset", None, "do not reset"),
    ],
)
async def test_refused_states_of_clients(
    host: AgentHost, kind: str, value: Json, text: str
) -> None:
    """Nothing is stored, and other mutations go on."""
    outcome = await _send(host, kind, value)

    assert isinstance(outcome, StateRejectedError)
    assert text in outcome.message
    assert (await host.storage.write(lambda tx: tx.load_states([REF])))[REF].version == 0
    assert await _send(host, "set", {"seen": 1}) == Receipt(2)


async def test_a_merge_into_a_view_that_fails_is_refused(host: AgentHost) -> None:
    """There is nothing that the client could have seen."""
    await _send(host, "set", {"seen": -1})

    outcome = await _send(host, "merge", {"seen": 1})

    assert isinstance(outcome, ClientViewError)


@pytest.mark.parametrize("kind", ["set", "merge", "reset"])
async def test_without_the_hook_a_view_is_not_written(host: AgentHost, kind: str) -> None:
    """A client's whole state would wipe what it does not see."""
    outcome = await _send(host, kind, {"x": 1}, AgentRef("Shy", "a"))

    assert isinstance(outcome, AgentRuntimeError)
    assert outcome.type == "StateRejectedError"


async def test_a_history_shows_what_can_still_be_made(host: AgentHost) -> None:
    """Each version's whole view; nothing where retention has dropped the state."""
    changes: list[tuple[MutationKind, Json]] = [
        (MutationKind.MERGE, {"seen": 1}),
        (MutationKind.MERGE, {"hidden": "x"}),
        (MutationKind.SET, {"seen": 2}),
        (MutationKind.MERGE, {"hidden": "y"}),
    ]
    batch = [Mutation(str(i), *change) for i, change in enumerate(changes)]
    await host.commit_batch(AgentBatch(REF, batch))
    entries = await read_history(host.storage, REF, newest=None, limit=10)
    definition = host.registry.definition("Hiding")

    async def seen(count: int) -> list[Any]:
        shown = await show_history(host.storage, definition, REF, entries[:count])
        return [None if entry.value is None else entry.value["seen"] for entry in shown]

    assert await seen(10) == [2, 2, 1, 1, 0]
    assert await seen(2) == [2, 2]
    retention = Retention(receipt_age=timedelta(days=1), history_count=1)
    stored = await host.storage.read_state(REF)
    assert stored is not None
    now = now_milliseconds()
    await host.storage.write(lambda tx: tx.prune_agent(stored.agent_id, retention, now))
    entries = await read_history(host.storage, REF, newest=None, limit=10)
    assert await seen(10) == [2, 2, None, None, None]
