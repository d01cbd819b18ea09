"""Models in activities: Temporal repeats what can pass, when the provider wants it, and no more."""

from __future__ import annotations

from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.worker import Worker

from agent_runtime.errors import ContextTooLongError, from_failure
from agent_runtime.llm import ChatMessage, ChatRequest, open_model
from agent_runtime.local.temporal_server import TemporalServer
from agent_runtime.testing import Refusal, ScriptedModelServer
from tests.support.model_workflow import AskModel


async def run_workflow(temporal: TemporalServer, server: ScriptedModelServer) -> str:
    """Ask through a workflow and return the answer."""

    @activity.defn
    async def ask_model(question: str) -> str:
        model = open_model(server.config())
        try:
            request = ChatRequest((ChatMessage("user", question),))
            return (await model.complete(request)).text
        finally:
            await model.close()

    client, queue = await Client.connect(temporal.address), f"models-{uuid4().hex[:12]}"
    async with Worker(client, task_queue=queue, workflows=[AskModel], activities=[ask_model]):
        return await client.execute_workflow(AskModel.run, "Why?", id=queue, task_queue=queue)


async def test_temporal_waits_as_long_as_the_provider_asks(temporal: TemporalServer) -> None:
    """Three attempts end within the test's time limit, though the policy's first wait is longer."""
    brief = Refusal("rate_limited", headers={"retry-after-ms": "50"})
    async with ScriptedModelServer(brief, brief, "answered") as server:
        answer = await run_workflow(temporal, server)

        assert (answer, len(server.requests)) == ("answered", 3)


async def test_a_final_error_is_not_repeated(temporal: TemporalServer) -> None:
    """One request; the workflow finds the type and its details, and nothing that was said."""
    async with ScriptedModelServer(Refusal("context_too_long"), "never") as server:
        with pytest.raises(WorkflowFailureError) as caught:
            await run_workflow(temporal, server)

        error = from_failure(caught.value.cause)
        assert type(error) is ContextTooLongError
        assert dict(error.details_map) == {
            "model": "scripted",
            "status": 400,
            "code": "context_length_exceeded",
        }
        assert len(server.requests) == 1
