"""Random mutations on a real file, against a model: outcomes, states, history and receipts."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
)

from agent_runtime import Agent, AgentRef
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.hosting.host import AgentHost
from agent_runtime.hosting.state_change import rebuild
from agent_runtime.json_value import from_json, to_json
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Outcome
from agent_runtime.registry import AgentRegistry
from agent_runtime.storage.protocol import MutationRow, Retention
from agent_runtime.storage.sqlite import SqliteStorage
from tests.support.json_values import json_objects, json_values
from tests.support.state_model import ABSENT, INITIAL, REFUSED, ModelAgent

T = TypeVar("T")


class Ruled(Agent):
    """Has an initial state and refuses some."""

    initial_state = INITIAL

    def validate_state_change(self, next_state: Any, source: str) -> None:
        """Refuse what is marked so."""
        if isinstance(next_state, dict) and next_state.get("bad") == REFUSED:
            raise ValueError("refused")


class Plain(Agent):
    """Takes everything and starts without a state."""


KINDS = st.sampled_from([MutationKind.SET, MutationKind.MERGE, MutationKind.MERGE])
REFS = [AgentRef("Ruled", "a"), AgentRef("Ruled", "b"), AgentRef("Plain", "a")]
agents = st.sampled_from(REFS)
keys = st.sampled_from([f"key-{number}" for number in range(40)])
values = json_objects | st.just({"bad": REFUSED}) | json_values
versions = st.none() | st.none() | st.integers(0, 12)
mutations = st.builds(Mutation, keys, KINDS, values, versions) | st.builds(
    Mutation, keys, st.sampled_from([MutationKind.RESET, MutationKind.INIT])
)
HISTORY = 10
NEVER = Retention(history_count=HISTORY)


class StateMachine(RuleBasedStateMachine):
    """A host on a file, and beside it what it should know."""

    sent: Bundle[tuple[AgentRef, Mutation]] = Bundle("sent")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.models = {ref: ModelAgent(ref.class_name == "Ruled") for ref in REFS}
        self.pruned_below = dict.fromkeys(REFS, 0)

    def teardown(self) -> None:
        """Close everything."""
        self.run(self.storage.close())
        self.loop.close()
        self.folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await on the machine's own loop."""
        return self.loop.run_until_complete(work)

    @initialize()
    def open(self) -> None:
        """Open the file and put a host on it, as a started worker does."""
        self.storage = self.run(SqliteStorage.open(self.folder.name))
        registry = AgentRegistry([Ruled, Plain])
        self.host = AgentHost(
            self.storage, registry, on_inbox=lambda ref: None, retention=Retention()
        )

    @rule()
    def reopen(self) -> None:
        """A restart changes nothing."""
        self.run(self.storage.close())
        self.open()

    @rule(target=sent, ref=agents, batch=st.lists(mutations, min_size=1, max_size=8))
    def commit(self, ref: AgentRef, batch: list[Mutation]) -> Any:
        """A batch of one agent; each mutation has the model's outcome."""
        outcomes = self.run(self.host.commit_batch(AgentBatch(ref, batch)))
        self._compare(ref, batch, outcomes)
        return multiple(*((ref, mutation) for mutation in batch))

    @rule(batches=st.dictionaries(agents, st.lists(mutations, max_size=4)))
    def commit_together(self, batches: dict[AgentRef, list[Mutation]]) -> None:
        """Batches of several agents at once, sharing commits."""

        async def commit_all() -> list[list[Outcome]]:
            return await asyncio.gather(
                *(self.host.commit_batch(AgentBatch(ref, batch)) for ref, batch in batches.items())
            )

        results = self.run(commit_all())
        for (ref, batch), outcomes in zip(batches.items(), results, strict=True):
            self._compare(ref, batch, outcomes)

    @rule(known=sent)
    def repeat(self, known: tuple[AgentRef, Mutation]) -> None:
        """A late duplicate of an earlier mutation."""
        ref, mutation = known
        outcomes = self.run(self.host.commit_batch(AgentBatch(ref, [mutation])))
        self._compare(ref, [mutation], outcomes)

    @rule(ref=agents, count=st.integers(1, 90))
    def merge_often(self, ref: AgentRef, count: int) -> None:
        """A long run of small merges, beyond where whole states must come in between."""
        version = self.models[ref].version
        batch = [
            Mutation(f"often-{version}-{number}", MutationKind.MERGE, {"n": number})
            for number in range(count)
        ]
        self._compare(ref, batch, self.run(self.host.commit_batch(AgentBatch(ref, batch))))

    @rule(ref=agents)
    def prune(self, ref: AgentRef) -> None:
        """Drop old history values; receipts are young and stay."""
        now = time.time_ns() // 1_000_000

        async def prune() -> None:
            states = await self.storage.write(lambda tx: tx.load_states([ref]))
            number = states[ref].agent_id
            await self.storage.write(lambda tx: tx.prune_agent(number, NEVER, now))

        self.run(prune())
        bound = self.models[ref].version - HISTORY
        self.pruned_below[ref] = max(self.pruned_below[ref], bound)

    @rule(ref=agents)
    def prune_receipts(self, ref: AgentRef) -> None:
        """Drop nothing although the number is passed: the receipts are younger than the age."""
        retention = Retention(receipt_age=timedelta(days=1), receipt_count=0, history_count=10**6)
        now = time.time_ns() // 1_000_000

        async def prune() -> None:
            states = await self.storage.write(lambda tx: tx.load_states([ref]))
            number = states[ref].agent_id
            await self.storage.write(lambda tx: tx.prune_agent(number, retention, now))

        self.run(prune())

    @invariant()
    def heads_are_equal(self) -> None:
        """State and version of every agent are the model's."""
        for ref, model in self.models.items():
            stored = self.run(self.storage.read_state(ref))
            assert model.version == (stored.version if stored else 0)
            text = stored.state if stored else None
            expected = None if model.state is ABSENT else to_json(model.state).decode()
            assert _normal(expected) == _normal(text)

    @invariant()
    def history_is_equal(self) -> None:
        """Every version kept rebuilds to the model's; kinds are the model's for all."""
        for ref, model in self.models.items():
            rows = self.run(self.storage.read_history(ref, limit=100_000))
            assert model.kinds == [row.kind for row in reversed(rows)]
            lowest = self.pruned_below[ref]
            for version in _sample(lowest, model.version):
                entries = self.run(self.storage.read_version(ref, version))
                assert model.states[version - 1] == rebuild(_parts(entries))

    def _compare(self, ref: AgentRef, batch: list[Mutation], outcomes: list[Outcome]) -> None:
        expected = [self.models[ref].apply(mutation) for mutation in batch]
        assert expected == [_plain(outcome) for outcome in outcomes]


def _plain(outcome: Outcome) -> tuple[Any, ...]:
    if isinstance(outcome, AgentRuntimeError):
        return (type(outcome).__name__,)
    return ("receipt", outcome.version, outcome.applied, outcome.duplicate)


def _parts(rows: list[MutationRow]) -> list[tuple[bool, str | None]]:
    return [(row.is_full, row.value) for row in rows]


def _sample(above: int, newest: int) -> list[int]:
    """Return some of the versions above a bound, the first and the last among them."""
    kept = range(max(above, 0) + 1, newest + 1)
    step = max(1, len(kept) // 8)
    return sorted({*kept[::step], *kept[-2:]})


def _normal(text: str | None) -> Any:
    return None if text is None else (from_json(text),)


TestStateMachine = StateMachine.TestCase
TestStateMachine.settings = settings(
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
