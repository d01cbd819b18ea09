"""Steps on agents in users' own workflows, in Temporal's default sandbox (state-and-sync 16)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.worker import Replayer, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from agent_runtime.workflows.agent import AgentEntity
from agent_runtime.workflows.compaction import Compaction
from agent_runtime.workflows.handlers import AgentHandlers
from tests.conftest import Serve, Served
from tests.support.agents import COUNTER, Calls, Counter
from tests.support.chat_agent import Chat
from tests.support.eventually import assert_eventually
from tests.support.user_workflows import (
    WORKFLOWS,
    Cancels,
    FailsAfterState,
    Meets,
    Resettable,
    RunsOn,
    SetMergeReset,
    Talks,
    Together,
    Uncaught,
)


@dataclass
class UserSide:
    """A user's own worker, beside the runtime's."""

    client: Client
    queue: str
    served: Served

    async def start(self, run: Any, *args: Any) -> WorkflowHandle[Any, Any]:
        """Start a workflow of the user's; the runtime's queue is its first argument."""
        return await self.client.start_workflow(
            run, args=[self.served.task_queue, *args], id=f"user-{uuid4()}", task_queue=self.queue
        )


@asynccontextmanager
async def _user(serve: Serve) -> AsyncIterator[UserSide]:
    async with serve(Counter, Calls, Chat) as served:
        queue = f"user-{uuid4().hex[:8]}"
        worker = Worker(
            served.client.temporal,
            task_queue=queue,
            workflows=WORKFLOWS,
            workflow_runner=SandboxedWorkflowRunner(),
        )
        async with worker:
            yield UserSide(served.client.temporal, queue, served)


async def test_w295_set_merge_and_reset_are_three_changes(serve: Serve) -> None:
    """The set value; merged shallowly with the null kept; `initial_state`; all from "server"."""
    async with _user(serve) as user:
        handle = await user.start(SetMergeReset.run, "Counter", "w295")
        assert await handle.result() == [1, 2, 3]
        agent = user.served.client.agent("Counter", "w295")
        states = [(await agent.get_state(version=version)).value for version in (1, 2, 3)]
        assert states == [
            {"progress": 0, "nested": {"a": 1, "b": 2}, "extra": 1},
            {"progress": 50, "nested": {"a": 9}, "extra": None},
            COUNTER,
        ]

        async def told() -> None:
            assert Counter.changes["w295"] == [(state, "server") for state in states]

        await assert_eventually(told)


async def test_a_workflow_talks_to_an_agent_and_has_it_summarized(serve: Serve) -> None:
    """Appends are idempotent by message id, a summary names its range, bad input is typed."""
    async with _user(serve) as user:
        handle = await user.start(Talks.run, "talks")
        assert await handle.result() == [
            *(True, True, True, True, False),
            ["m1", "m1"],
            "InvalidMessageError",
        ]
        session = user.served.client.agent("Chat", "talks").session("plan")
        assert [each["id"] for each in await session.get_history()][-1] == "m3"
        assert await session.get_path_length() == 4


async def test_reset_without_initial_state_gives_an_empty_object(serve: Serve) -> None:
    """A class without `initial_state` is reset to {} (16.2.4)."""
    async with _user(serve) as user:
        handle = await user.start(SetMergeReset.run, "Calls", "reset")
        await handle.result()
        snapshot = await user.served.client.agent("Calls", "reset").get_state()
        assert (snapshot.value, snapshot.version) == ({}, 3)


async def test_w296_a_state_step_happens_once(serve: Serve) -> None:
    """Steps that fail later do not repeat the state step before them."""
    async with _user(serve) as user:
        handle = await user.start(FailsAfterState.run, "w296")
        assert await handle.result() == 1
        agent = user.served.client.agent("Calls", "w296")
        assert [entry.version for entry in await agent.state_history()] == [1]
        assert len(await user.served.runtime.storage.read_outbox(0, 100)) == 1


async def test_refusals_are_caught_by_type(serve: Serve) -> None:
    """Every refusal is final and of its own class inside the workflow, also in the sandbox."""
    async with _user(serve) as user:
        handle = await user.start(Meets.run)
        found = await asyncio.wait_for(handle.result(), 60)
        assert found == [
            "StateRejectedError",
            "conflict VersionConflictError 1",
            "StateTooLargeError",
            "NotSerializableError",
            "StateRejectedError",
            "UnknownAgentClassError",
            "HandlerError",
            "UnknownMethodError",
            "MethodNotCallableError",
            "InvalidRequestError",
            "InvalidRequestError",
            "NotSerializableError",
            "NotSerializableError",
            "InvalidRequestError",
            "InvalidRequestError",
            "InvalidAgentError",
            "InvalidRequestError",
        ]


async def test_an_uncaught_refusal_fails_the_workflow(serve: Serve) -> None:
    """The workflow ends with the typed reason instead of repeating a task for ever."""
    async with _user(serve) as user:
        handle = await user.start(Uncaught.run)
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), 60)
        cause = caught.value.cause
        assert isinstance(cause, ApplicationError)
        assert cause.type == "StateRejectedError"
        assert "count cannot be -1" in cause.message


async def test_steps_at_the_same_time_are_each_applied(serve: Serve) -> None:
    """Two objects for one agent never share a step's identity; gathered steps all happen."""
    async with _user(serve) as user:
        handle = await user.start(Together.run, "together")
        assert await handle.result() == [3, 10]
        snapshot = await user.served.client.agent("Counter", "together").get_state()
        assert (snapshot.value["count"], snapshot.version) == (3, 14)


async def test_finished_histories_replay(serve: Serve) -> None:
    """A workflow with every kind of step replays without a difference."""
    async with _user(serve) as user:
        handles = [
            await user.start(SetMergeReset.run, "Counter", "replay"),
            await user.start(Meets.run),
            await user.start(Together.run, "replay-2"),
        ]
        replayer = Replayer(workflows=WORKFLOWS, workflow_runner=SandboxedWorkflowRunner())
        for handle in handles:
            await handle.result()
            await replayer.replay_workflow(await handle.fetch_history())


async def test_steps_of_a_reset_workflow_are_new_ones(serve: Serve) -> None:
    """After a reset the kept step is not repeated, the ones after it happen again."""
    async with _user(serve) as user:
        handle = await user.start(Resettable.run, "reset-wf")
        agent = user.served.client.agent("Counter", "reset-wf")

        async def waits() -> None:
            assert (await agent.get_state()).value["count"] == 1

        await assert_eventually(waits)
        await handle.signal(Resettable.end)
        assert await handle.result() == 11
        run_id = await _reset_before_the_second_step(user, handle)
        again = user.client.get_workflow_handle(handle.id, run_id=run_id)
        assert await asyncio.wait_for(again.result(), 60) == 21


async def test_steps_of_every_run_count(serve: Serve) -> None:
    """Continue-as-new does not make the next run's steps look like repeats."""
    async with _user(serve) as user:
        handle = await user.start(RunsOn.run, "runs-on", 4)
        assert await asyncio.wait_for(handle.result(), 60) == 4
        snapshot = await user.served.client.agent("Counter", "runs-on").get_state()
        assert (snapshot.value["count"], snapshot.value["left"]) == (4, 1)


async def test_cancelling_a_workflow_cancels_its_call(serve: Serve) -> None:
    """The handler is stopped; the workflow ends as cancelled."""
    async with _user(serve) as user:
        name = f"cancel-{uuid4()}"
        handle = await user.start(Cancels.run, name)

        async def runs() -> None:
            assert Calls.runs[name] == 1

        await assert_eventually(runs)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as caught:
            await asyncio.wait_for(handle.result(), 60)
        assert isinstance(caught.value.cause, CancelledError)


async def test_the_library_s_own_workflows_load_in_the_default_sandbox(serve: Serve) -> None:
    """They are pure enough for the sandbox, although they run without it for speed."""
    async with serve(Counter) as served:
        for workflow_class in (AgentEntity, AgentHandlers, Compaction):
            definition = vars(workflow_class)["__temporal_workflow_definition"]
            SandboxedWorkflowRunner().prepare_workflow(definition)
        assert (await served.client.agent("Counter", "a").get_state()).version == 1


async def _reset_before_the_second_step(user: UserSide, handle: WorkflowHandle[Any, Any]) -> str:
    events = (await handle.fetch_history()).events
    scheduled = [
        event for event in events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]  # fmt: skip
    answer = await user.client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=user.client.namespace,
            workflow_execution=WorkflowExecution(
                workflow_id=handle.id, run_id=handle.first_execution_run_id or ""
            ),
            reason="test",
            workflow_task_finish_event_id=(
                scheduled[
                    1
                ].activity_task_scheduled_event_attributes.workflow_task_completed_event_id
            ),
            request_id=str(uuid4()),
        )
    )
    return answer.run_id
