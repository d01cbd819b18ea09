"""State and its storage, by the numbers of state-and-sync 21 (A and B)."""

from __future__ import annotations

from typing import Any

import pytest

from agent_runtime import AgentRef, AgentRuntimeError
from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import StateRejectedError
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind
from agent_runtime.storage.protocol import StoredState
from tests.conftest import Serve, Served
from tests.support.agents import COUNTER, Bare, Counter, Typed
from tests.support.eventually import assert_eventually


def _state(count: int, *items: str, at: str | None = None) -> dict[str, Any]:
    return {"count": count, "items": list(items), "lastUpdated": at}


async def _value(agent: AgentHandle) -> Any:
    return (await agent.get_state()).value


async def _rows(served: Served) -> list[Any]:
    """Return all stored states, with the text as it lies in the file."""
    rows = await served.runtime.storage._read(  # type: ignore[attr-defined]
        "SELECT a.name, s.state FROM agent_states s JOIN agents a ON a.id = s.agent_id", ()
    )
    return list(rows)


async def _put_text(served: Served, ref: AgentRef, text: str) -> None:
    """Write a state's text directly, as a damaged or foreign release might have left it."""
    storage = served.runtime.storage
    number = (await storage.write(lambda tx: tx.load_states([ref])))[ref].agent_id
    await storage.write(lambda tx: tx.put_states([StoredState(number, 1, text, 1, 5)]))


async def test_w001_a_first_read_gives_initial_state(serve: Serve) -> None:
    """A fresh agent's state is `initial_state`, for clients and for its own code."""
    async with serve(Counter) as served:
        assert await _value(served.client.agent("Counter", "a")) == COUNTER
        assert await served.client.agent("Counter", "b").call("read") == COUNTER


@pytest.mark.parametrize("reads_by_call", [False, True])
async def test_w002_reading_stores_initial_state(serve: Serve, reads_by_call: bool) -> None:
    """After the first read the value is stored, at version 1, and there after a restart."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        await (agent.call("read") if reads_by_call else agent.get_state())
        stored = await served.runtime.storage.read_state(agent.ref)
        assert (stored and stored.version, stored and stored.state is not None) == (1, True)
    async with serve(Counter, task_queue=served.task_queue) as served:
        assert await served.client.agent("Counter", "a").call("read") == COUNTER
        assert (await served.client.agent("Counter", "a").get_state()).version == 1


async def test_w003_without_initial_state_there_is_none(serve: Serve) -> None:
    """An agent without `initial_state` has no state; that is not null, and nothing is stored."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        snapshot = await agent.get_state()
        assert (snapshot.value, snapshot.version, snapshot.is_set) == (None, 0, False)
        assert await agent.call("read") == [None, False]


async def test_w004_what_was_set_is_read_at_once(serve: Serve) -> None:
    """A set value is what the next read gives."""
    async with serve(Counter) as served:
        agent, value = served.client.agent("Counter", "a"), _state(42, "a", "b", at="2024-01-01")
        await agent.set_state(value)
        assert await _value(agent) == value
        assert await agent.call("read") == value


async def test_w005_what_was_set_survives_a_restart(serve: Serve) -> None:
    """Addressed anew, an agent has the state that was set."""
    value = _state(100, "persisted", at="2024-12-31")
    async with serve(Counter) as served:
        await served.client.agent("Counter", "a").set_state(value)
    async with serve(Counter, task_queue=served.task_queue) as served:
        assert await _value(served.client.agent("Counter", "a")) == value
        assert await served.client.agent("Counter", "a").call("read") == value


async def test_w006_initial_state_never_comes_back(serve: Serve) -> None:
    """A stored state wins for ever after, also over a changed `initial_state`."""
    value = _state(999, "custom", at="custom")
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        await agent.set_state(value)
        assert [await _value(agent), await _value(agent)] == [value, value]
    changed = type("Counter", (Counter,), {"initial_state": _state(5)})
    async with serve(changed, task_queue=served.task_queue) as served:
        assert await _value(served.client.agent("Counter", "a")) == value


async def test_w007_w008_the_hook_runs_once_with_value_and_source(serve: Serve) -> None:
    """A set from code calls the change hook exactly once, with the value and "server"."""
    async with serve(Counter) as served:
        agent, value = served.client.agent("Counter", "w007"), _state(5, "test", at="now")
        await agent.call("set", value)
        await agent.call("set", _state(6))

        async def told() -> None:
            assert Counter.changes["w007"] == [(value, "server"), (_state(6), "server")]

        await assert_eventually(told)


async def test_w012_w013_without_initial_state_a_set_is_kept(serve: Serve) -> None:
    """What is set on an agent that had nothing reads back, after a restart too."""
    value = {"custom": "data", "count": 42}
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        assert not (await agent.get_state()).is_set
        await agent.set_state(value)
        assert await _value(agent) == value
    async with serve(Bare, task_queue=served.task_queue) as served:
        assert await served.client.agent("Bare", "a").call("read") == [value, True]


async def test_w014_w035_corrupt_text_becomes_initial_state(serve: Serve) -> None:
    """Text that does not parse reads as `initial_state`, which is stored in its place."""
    async with serve(Counter) as served:
        for name, by_call in (("a", False), ("b", True)):
            agent = served.client.agent("Counter", name)
            await _put_text(served, agent.ref, "invalid{json")
            assert (await agent.call("read") if by_call else await _value(agent)) == COUNTER
            assert await _value(agent) == COUNTER
            stored = await served.runtime.storage.read_state(agent.ref)
            assert (stored and stored.version, stored and "count" in (stored.state or "")) == (
                2,
                True,
            )


@pytest.mark.parametrize("by_call", [False, True])
async def test_w015_a_refused_set_raises_and_changes_nothing(serve: Serve, by_call: bool) -> None:
    """The validator's own text reaches the caller; state, version and feed are as before."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "a")
        await agent.set_state(_state(1))
        feed = await served.runtime.storage.read_outbox(0, 100)

        refused = agent.call("set", _state(-1)) if by_call else agent.set_state(_state(-1))
        with pytest.raises(StateRejectedError, match="count cannot be -1"):
            await refused

        snapshot = await agent.get_state()
        assert (snapshot.value, snapshot.version) == (_state(1), 1)
        assert await served.runtime.storage.read_outbox(0, 100) == feed


async def test_w016_an_accepted_set_is_announced_once(serve: Serve) -> None:
    """One update is one row of the change feed."""
    async with serve(Counter) as served:
        await served.client.agent("Counter", "a").set_state(_state(42))
        feed = await served.runtime.storage.read_outbox(0, 100)
        assert [(row.kind, row.version) for row in feed] == [("state", 1)]


async def test_w017_a_failing_hook_undoes_nothing(serve: Serve) -> None:
    """The change stands and is announced; the error hook is told what failed."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "w017")
        await agent.call("set", _state(-2))

        async def told() -> None:
            assert [
                "on_state_changed failed: RuntimeError: -2 is no good" in text
                for text in Counter.errors["w017"]
            ] == [True]

        await assert_eventually(told)
        assert await _value(agent) == _state(-2)
        assert len(await served.runtime.storage.read_outbox(0, 100)) == 1


async def test_w020_the_source_of_code_is_server(serve: Serve) -> None:
    """Whoever called the code: what it sets has the source "server"."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "w020")
        await agent.call("set", _state(7))

        async def told() -> None:
            assert Counter.changes["w020"][-1:] == [(_state(7), "server")]

        await assert_eventually(told)


async def test_w030_w031_w040_an_agent_has_one_row(serve: Serve) -> None:
    """One row per agent after a first read, after one set, and after five."""
    async with serve(Counter) as served:
        read, once, five = (served.client.agent("Counter", name) for name in ("r", "o", "f"))
        await read.get_state()
        await once.set_state(_state(1))
        for number in range(5):
            await five.set_state(_state(number, f"item-{number}", at=f"update-{number}"))
        assert sorted(name for name, _ in await _rows(served)) == ["f", "o", "r"]
        assert await _value(five) == _state(4, "item-4", at="update-4")


async def test_w032_without_initial_state_reading_stores_nothing(serve: Serve) -> None:
    """No row after a read; exactly one after a set."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await agent.get_state()
        await agent.call("read")
        assert await _rows(served) == []
        await agent.set_state(1)
        assert await _rows(served) == [("a", "1")]


async def test_w033_empty_values_are_values(serve: Serve) -> None:
    """null, 0, false, "", [] and {} are kept as what they are, after a restart too."""
    values: dict[str, Any] = {"n": None, "z": 0, "f": False, "s": "", "l": [], "o": {}}
    async with serve(Bare) as served:
        for name, value in values.items():
            await served.client.agent("Bare", name).set_state(value)
    async with serve(Bare, task_queue=served.task_queue) as served:
        for name, value in values.items():
            snapshot = await served.client.agent("Bare", name).get_state()
            assert (snapshot.value, type(snapshot.value), snapshot.is_set) == (
                value,
                type(value),
                True,
            )
            assert await served.client.agent("Bare", name).call("read") == [value, True]


@pytest.mark.parametrize(
    ("text", "value"),
    [("null", None), ("0", 0), ("false", False), ('""', ""), ('{"k":1}', {"k": 1})],
)
async def test_w034_w039_stored_texts_are_read_as_they_are(
    serve: Serve, text: str, value: Any
) -> None:
    """Presence of the row says that the state was set, not the truth of its value."""
    async with serve(Counter) as served:
        ref = AgentRef("Counter", "a")
        await _put_text(served, ref, text)
        snapshot = await served.client.agent(*ref).get_state()
        assert (snapshot.value, snapshot.version, snapshot.is_set) == (value, 1, True)


async def test_w036_corrupt_text_without_initial_state_is_no_state(serve: Serve) -> None:
    """Without `initial_state` text that does not parse reads as never set; a set mends it."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        await _put_text(served, agent.ref, "invalid{json")
        assert not (await agent.get_state()).is_set
        assert await agent.call("read") == [None, False]
        assert (await agent.merge_state({"a": 1})).version == 2
        assert await _value(agent) == {"a": 1}


async def test_w285_an_equal_value_is_a_version_of_its_own(serve: Serve) -> None:
    """Setting what is there already goes through all of it again."""
    async with serve(Counter) as served:
        agent = served.client.agent("Counter", "w285")
        receipts = [await agent.set_state(_state(1)) for _ in range(3)]
        assert [receipt.version for receipt in receipts] == [1, 2, 3]
        assert len(await served.runtime.storage.read_outbox(0, 100)) == 3

        async def told() -> None:
            assert Counter.changes["w285"] == [(_state(1), "server")] * 3

        await assert_eventually(told)


async def test_w288_a_refusal_over_a_call_has_the_validator_s_text(serve: Serve) -> None:
    """Code called from outside that sets a refused state fails with the author's own words."""
    async with serve(Typed) as served:
        agent = served.client.agent("Typed", "a")
        assert await agent.call("raise_to", 5) == 5
        with pytest.raises(StateRejectedError, match="score cannot fall from 5 to -5"):
            await agent.call("raise_to", -5)


async def test_w299_the_size_limit(serve: Serve) -> None:
    """1.9 million characters are stored; 2.2 million are refused and the state is as before."""
    async with serve(Bare) as served:
        agent = served.client.agent("Bare", "a")
        assert (await agent.set_state("x" * 1_900_000)).version == 1
        with pytest.raises(AgentRuntimeError, match="2200002 bytes"):
            await agent.set_state("y" * 2_200_000)
        assert await _value(agent) == "x" * 1_900_000
        assert (await agent.set_state("small")).version == 2


async def test_w300_a_validator_may_read_the_state(serve: Serve) -> None:
    """On a fresh agent it sees `initial_state` (a mend of fault 1), later what is there."""
    async with serve(Typed) as served:
        agent = served.client.agent("Typed", "a")
        with pytest.raises(StateRejectedError, match="from 0 to -1"):
            await agent.set_state({"score": -1})
        await agent.set_state({"score": 3})
        with pytest.raises(StateRejectedError, match="from 3 to 2"):
            await agent.merge_state({"score": 2})
        assert await _value(agent) == {"title": "new", "score": 3}


async def test_a_validator_sees_what_the_batch_has_done_so_far(serve: Serve) -> None:
    """Within one commit each mutation is validated against the one before it, null too."""
    seen: list[Any] = []

    class Watching(Bare):
        def validate_state_change(self, next_state: Any, source: str) -> None:
            seen.append(self.state)

    async with serve(Watching) as served:
        agent = served.client.agent("Watching", "a")
        await agent.set_state(1)
        batch = [Mutation(f"k{n}", MutationKind.SET, value) for n, value in enumerate([None, 2, 3])]
        await served.runtime.host.commit_batch(AgentBatch(agent.ref, batch))
        assert seen == [None, 1, None, 2]
