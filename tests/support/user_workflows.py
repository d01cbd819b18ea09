"""Workflows as users write them: no pass-through, only `AgentStep` from this library."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from agent_runtime import AgentStep
from agent_runtime.errors import AgentRuntimeError, ConflictError


@workflow.defn
class SetMergeReset:
    """The three state steps of state-and-sync, case 295."""

    @workflow.run
    async def run(self, queue: str, agent: str, name: str) -> list[int]:
        """Return the versions of the receipts."""
        step = AgentStep(agent, name, task_queue=queue)
        first = {"progress": 0, "nested": {"a": 1, "b": 2}, "extra": 1}
        receipts = [
            await step.update_agent_state(first),
            await step.merge_agent_state({"progress": 50, "nested": {"a": 9}, "extra": None}),
            await step.reset_agent_state(),
        ]
        return [receipt.version for receipt in receipts]


@workflow.defn
class Meets:
    """Meets every refusal that a step can have, and catches it by type."""

    @workflow.run
    async def run(self, queue: str) -> list[str]:
        """Return the type strings caught."""
        counter = AgentStep("Counter", "refused", task_queue=queue)
        calls = AgentStep("Calls", "refused", task_queue=queue)
        found: list[str] = []
        await counter.update_agent_state({"count": 1})
        for step in (
            lambda: counter.update_agent_state({"count": -1}),
            lambda: counter.update_agent_state({"count": 2}, expected_version=7),
            lambda: counter.update_agent_state("x" * 2_100_000),
            lambda: counter.update_agent_state(float("nan")),
            lambda: counter.merge_agent_state([1]),  # type: ignore[arg-type]
            lambda: AgentStep("Nobody", "a", task_queue=queue).reset_agent_state(),
            lambda: calls.call_agent("throw", "oops"),
            lambda: calls.call_agent("nothing"),
            lambda: calls.call_agent("unmarked"),
            lambda: calls.call_agent("add", 1),
            lambda: calls.call_agent("slow", 0, "x" * 2_100_000),
            lambda: counter.update_agent_state(print),
            lambda: calls.call_agent("add", print),
            lambda: calls.call_agent(5),  # type: ignore[arg-type]
            lambda: counter.update_agent_state(2, expected_version="1"),  # type: ignore[arg-type]
        ):
            try:
                await step()
            except ConflictError as error:
                found.append(f"conflict {error.type} {error.details_map['actual']}")
            except AgentRuntimeError as error:
                found.append(str(error.type))
            except ApplicationError as error:
                found.append(f"foreign {error.type}")
        for name, task_queue in (("", queue), ("refused", None)):
            try:
                AgentStep("Counter", name, task_queue=task_queue)  # type: ignore[arg-type]
            except ApplicationError as error:
                found.append(str(error.type))
        return found


@workflow.defn
class Uncaught:
    """Lets a refusal through: the workflow fails with it, once."""

    @workflow.run
    async def run(self, queue: str) -> None:
        """Fail."""
        await AgentStep("Counter", "uncaught", task_queue=queue).update_agent_state({"count": -1})


@workflow.defn
class Together:
    """Two step objects for one agent, and steps at the same time."""

    @workflow.run
    async def run(self, queue: str, name: str) -> list[Any]:
        """Return sums and the number of distinct versions."""
        one = AgentStep("Counter", name, task_queue=queue)
        two = AgentStep("Counter", name, task_queue=queue)
        await one.update_agent_state({"count": 0})
        steps = [step.merge_agent_state({f"k{n}": n}) for n in range(5) for step in (one, two)]
        receipts = await asyncio.gather(*steps)
        sums = await asyncio.gather(*(step.call_agent("increment") for step in (one, two, one)))
        return [max(sums), len({receipt.version for receipt in receipts})]


@workflow.defn
class Resettable:
    """Changes an agent before and after a point that one can reset to."""

    def __init__(self) -> None:
        self._may_end = False

    @workflow.run
    async def run(self, queue: str, name: str) -> int:
        """Return the sum after this run's second step."""
        step = AgentStep("Counter", name, task_queue=queue)
        await step.call_agent("add_points", 1)
        await workflow.wait_condition(lambda: self._may_end)
        total: int = await step.call_agent("add_points", 10)
        return total

    @workflow.signal
    def end(self) -> None:
        """Go on."""
        self._may_end = True


@workflow.defn
class RunsOn:
    """Does the same step in each of several runs."""

    @workflow.run
    async def run(self, queue: str, name: str, left: int) -> int:
        """Return the sum after the last run."""
        step = AgentStep("Counter", name, task_queue=queue)
        total: int = await step.call_agent("increment")
        await step.merge_agent_state({"left": left})
        if left > 1:
            workflow.continue_as_new(args=[queue, name, left - 1])
        return total


@workflow.defn
class FailsAfterState:
    """A state step, then trouble that repeats the workflow's tasks (case 296)."""

    @workflow.run
    async def run(self, queue: str, name: str) -> int:
        """Return the version of the state step, after three steps of which two fail."""
        step = AgentStep("Calls", name, task_queue=queue)
        receipt = await step.update_agent_state({"step": 1})
        for _ in range(2):
            try:
                await step.call_agent("throw", "again")
            except ApplicationError:
                continue
        await workflow.sleep(0.01)
        return receipt.version


@workflow.defn
class Talks:
    """Appends to a conversation, twice the same message, and summarizes it."""

    @workflow.run
    async def run(self, queue: str, name: str) -> list[Any]:
        """Return what the appends and the summary did."""
        step = AgentStep("Chat", name, task_queue=queue)
        done: list[Any] = []
        for number in (0, 1, 2, 3, 3):
            text = {"type": "text", "text": f"{number}" * 100}
            message = {"id": f"m{number}", "role": "user", "parts": [text]}
            done.append(await step.append_message(message, session_id="plan"))
        compacted = await step.compact_session(session_id="plan")
        done.append(compacted and [compacted.from_message_id, compacted.to_message_id])
        try:
            await step.append_message({"id": "m"}, session_id="plan")
        except ApplicationError as error:
            done.append(error.type)
        return done


@workflow.defn
class Cancels:
    """Waits for a handler that never ends."""

    @workflow.run
    async def run(self, queue: str, name: str) -> None:
        """Wait."""
        await AgentStep("Calls", name, task_queue=queue).call_agent("endless")


WORKFLOWS = [
    SetMergeReset, Meets, Uncaught, Together, Resettable, RunsOn, FailsAfterState, Cancels, Talks,
]  # fmt: skip


@workflow.defn
class CompactTwice:
    """Talks to an agent and has the conversation summarized, twice."""

    @workflow.run
    async def run(self, agent: str, task_queue: str) -> list[list[str] | None]:
        """Return the ranges."""
        step = AgentStep("Compacting", agent, task_queue=task_queue)
        for number in range(9):
            text = {"type": "text", "text": "word " * 10}
            await step.append_message({"id": f"m{number}", "role": "user", "parts": [text]})
        ranges: list[list[str] | None] = []
        for _ in range(2):
            found = await step.compact_session()
            ranges.append(None if found is None else [found.from_message_id, found.to_message_id])
        return ranges
