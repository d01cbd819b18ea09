"""Compaction jobs in a running worker: when they begin, what happens meanwhile, how they end."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.worker import Worker

from agent_runtime.call import CompactionOutcome, CompactionRun
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.compaction.token_estimate import estimate_messages_tokens
from agent_runtime.durable_compaction import compaction_start
from agent_runtime.durable_compaction.compaction_start import (
    Job,
    run_compaction,
    try_compaction,
)
from agent_runtime.errors import (
    HandlerCancelledError,
    InvalidCompactionError,
    SessionSetupError,
)
from agent_runtime.identity import AgentRef, compaction_job_key, compaction_workflow_id
from agent_runtime.json_value import Json
from agent_runtime.session.session import Session
from agent_runtime.session.session_events import HistoryCompacted, SessionEvent
from agent_runtime.storage.session_protocol import SessionRef
from agent_runtime.workflows import compaction as workflow_module
from tests.conftest import Serve, Served
from tests.support.compacting_agent import Compacting, frames, phases, setups
from tests.support.eventually import assert_eventually
from tests.support.session import assistant, ids, shown, user, with_parts
from tests.support.user_workflows import CompactTwice


class Writer:
    """A summarizer that is held back, counts its calls and fails as told."""

    def __init__(self, *, is_held: bool = False, text: str = "summary") -> None:
        self.prompts: list[str] = []
        self.may_go_on = asyncio.Event()
        self.has_begun = asyncio.Event()
        self.text = text
        self.error: Exception | None = None
        if not is_held:
            self.may_go_on.set()

    async def __call__(self, prompt: str) -> str:
        """Note the prompt, wait, and answer."""
        self.prompts.append(prompt)
        self.has_begun.set()
        await self.may_go_on.wait()
        if self.error is not None:
            raise self.error
        return self.text


class Scene:
    """One agent and its default conversation."""

    def __init__(self, writer: Writer, *, threshold: int | None = None) -> None:
        self.name = uuid4().hex[:12]
        self.writer = writer
        self.errors: list[Exception] = []
        function = create_compact_function(
            writer, protect_head=1, min_tail_messages=1, tail_token_budget=20
        )

        def setup(session: Session) -> Session:
            session.on_compaction(function).on_compaction_error(self.errors.append)
            return session.compact_after(threshold) if threshold else session

        setups[self.name] = setup

    def job(self, served: Served) -> WorkflowHandle[Any, Any]:
        """Return the workflow of the conversation's compaction."""
        identity = compaction_workflow_id(
            served.task_queue, AgentRef("Compacting", self.name), "", ""
        )
        return served.client.temporal.get_workflow_handle(identity)


@pytest.fixture
def _hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = RetryPolicy(initial_interval=timedelta(milliseconds=10), maximum_attempts=3)
    monkeypatch.setattr(workflow_module, "MODEL_RETRIES", policy)


async def test_c15_an_append_while_a_summary_is_written_is_kept_behind_it(serve: Serve) -> None:
    """Head, summary, tail and the new message, whose parent is the one before it."""
    writer = Writer(is_held=True)
    scene = Scene(writer, threshold=200)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(1, 21)])
        await writer.has_begun.wait()
        result = await session.append_message(user("m21"))
        assert result.parent_id == "m20"
        writer.may_go_on.set()
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "applied"
        assert ids(await session.get_history()) == ["m1", "S", "m20", "m21"]
        assert await session.get_path_length() == 21
        assert len(writer.prompts) == 1


async def test_a_job_tells_clients_that_it_begins_and_what_it_has_saved(serve: Serve) -> None:
    """Frames: idle for the append, compacting, then idle with the size before."""
    scene = Scene(Writer(), threshold=100)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await session.compaction.last_outcome()

    assert phases(scene.name) == ["idle", "compacting", "idle+"]
    before, after = frames[scene.name][1:]
    assert after["compacted"] == {"tokensBefore": before["tokenEstimate"]}
    assert after["tokenEstimate"] < 100 < before["tokenEstimate"]


async def test_c16_a_failing_job_tells_clients_and_handler(serve: Serve, _hurries: None) -> None:
    """Frames: compacting, error, idle; the handler gets what was raised."""
    writer = Writer()
    writer.error = ConnectionError("the summarizer is away")
    scene = Scene(writer, threshold=100)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "failed"
        assert "away" in outcome.reason
        assert await session.get_compactions() == []

    assert phases(scene.name) == ["idle", "compacting", "error", "idle"]
    assert len(writer.prompts) == 3
    assert len(scene.errors) == 1
    assert "away" in str(scene.errors[0])


async def test_failed_attempts_are_spaced_out_also_after_a_restart(
    serve: Serve, _hurries: None
) -> None:
    """No attempt until the session has grown by a tenth, a fifth, two fifths, ...; stored."""
    writer = Writer()
    writer.error = ConnectionError("away")
    scene = Scene(writer, threshold=100)
    queue = f"spaced-{uuid4().hex[:12]}"
    estimates: list[int] = []
    total = 0
    for part in range(2):
        async with serve(Compacting, task_queue=queue) as served:
            session = served.client.agent("Compacting", scene.name).session()
            for number in range(20):
                message = user(f"m{part}-{number}", "word " * 8)
                total += estimate_messages_tokens([message])
                before = len(writer.prompts)
                await session.append_message(message)
                await session.compaction.last_outcome()
                if len(writer.prompts) > before:
                    assert len(writer.prompts) == before + 3
                    estimates.append(total)

    assert 3 <= len(estimates) <= 6
    for failures, (earlier, later) in enumerate(pairwise(estimates)):
        assert later >= earlier * min(1 + 0.1 * 2**failures, 2)


async def test_c17_a_prompt_that_is_too_long_is_said_once_and_lowering_it_arms_again(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten short messages, few attempts, one warning; a shorter prompt lets the next attempt be."""
    name = uuid4().hex[:12]
    calls: list[int] = []

    def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        calls.append(len(messages))
        return None

    def setup(session: Session) -> Session:
        session.with_context("memory", max_tokens=2_000).on_compaction(compact)
        return session.compact_after(100)

    setups[name] = setup
    async with serve(Compacting) as served:
        agent = served.client.agent("Compacting", name)
        session = agent.session()
        with caplog.at_level(logging.WARNING, "agent_runtime"):
            await agent.call("replace_block", "memory", "rule " * 250)
            for number in range(10):
                await session.append_message(user(f"m{number}", "short"))
                await session.compaction.last_outcome()

        assert len(await session.get_history()) == 10
        assert 1 <= len(calls) <= 3
        warnings = [each for each in caplog.messages if "was not shortened" in each]
        assert len(warnings) == 1
        assert "the system prompt alone has" in warnings[0]

        attempts = len(calls)
        await agent.call("replace_block", "memory", "rule")
        await session.append_messages([user(f"n{n}", "word " * 5) for n in range(2)])
        await session.compaction.last_outcome()
        assert len(calls) == attempts + 1


async def test_c14_parallel_results_stay_with_their_call(serve: Serve) -> None:
    """What the plain cut would part is wholly inside or outside, for the model as well."""
    writer = Writer()
    name = uuid4().hex[:12]
    function = create_compact_function(
        writer, protect_head=1, min_tail_messages=1, tail_token_budget=90
    )
    setups[name] = lambda session: session.on_compaction(function)
    calls = [
        {"type": "tool-call", "toolCallId": each, "toolName": "read", "input": {"path": each}}
        for each in ("c1", "c2")
    ]
    results = [
        {"type": "tool-result", "toolCallId": each, "toolName": "read", "output": text}
        for each, text in (("c1", "A" * 20_000), ("c2", "B" * 200))
    ]
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        await session.append_messages(
            [
                user("u1"),
                with_parts("a1", *calls),
                with_parts("r1", results[0]),
                with_parts("r2", results[1]),
                assistant("a2"),
                user("u2"),
            ]
        )
        result = await session.compact()

        together = {"a1", "r1", "r2"}
        visible = ids(await session.get_history())
        assert together.isdisjoint(visible) or together.issubset(visible)
        if result is not None:
            [prompt] = writer.prompts
            assert ("A" * 100 in prompt) == ("B" * 100 in prompt) == ("c1" in prompt)


async def test_only_one_job_runs_for_a_session_and_a_second_call_joins_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends start no other; manual compactions wait for the one that runs."""
    outcome_of = compaction_start.outcome_of
    joined: list[Job] = []

    async def counted(job: Job) -> CompactionOutcome:
        joined.append(job)
        return await outcome_of(job)

    monkeypatch.setattr(compaction_start, "outcome_of", counted)
    writer = Writer(is_held=True)
    scene = Scene(writer, threshold=200)
    async with serve(Compacting) as served:
        agent = served.client.agent("Compacting", scene.name)
        session = agent.session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(20)])
        await writer.has_begun.wait()
        both = [
            asyncio.create_task(session.compact()),
            asyncio.create_task(agent.call("compact_here", "")),
        ]
        for number in range(5):
            await session.append_message(user(f"n{number}", "word " * 10))

        async def both_wait() -> None:
            assert len(joined) == 2

        await assert_eventually(both_wait)
        writer.may_go_on.set()
        result, text = await asyncio.gather(*both)

        assert result is not None
        assert result.summary == text == "summary"
        assert len(writer.prompts) == 1
        assert len(await session.get_compactions()) == 1


async def test_sessions_and_branches_are_compacted_at_the_same_time(serve: Serve) -> None:
    """Another session, and another branch of the same one, wait for nobody."""
    writer = Writer(is_held=True)
    scene = Scene(writer)
    async with serve(Compacting) as served:
        agent = served.client.agent("Compacting", scene.name)
        for session_id in ("", "other"):
            session = agent.session(session_id)
            await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await agent.session().append_messages([user(f"b{n}", "word " * 10) for n in range(9)], "m0")
        jobs = [
            asyncio.create_task(agent.session().compact()),
            asyncio.create_task(agent.session().compact("m8")),
            asyncio.create_task(agent.session("other").compact()),
        ]

        async def all_write() -> None:
            assert len(writer.prompts) == 3

        await assert_eventually(all_write)
        writer.may_go_on.set()
        assert None not in await asyncio.gather(*jobs)
        assert ids(await agent.session().get_history()) == ["m0", "S", "b8"]
        assert ids(await agent.session().get_history("m8")) == ["m0", "S", "m8"]


Meanwhile = Callable[[Any, Served], Awaitable[None]]


async def _clear(session: Any, served: Served) -> None:
    await session.clear_messages()


async def _delete_end(session: Any, served: Served) -> None:
    await session.delete_messages(["m1"])


async def _delete_inside(session: Any, served: Served) -> None:
    await session.delete_messages(["m4"])


async def _switch(session: Any, served: Served) -> None:
    await session.append_message(user("branch"), "m0")


async def _summarize_beside(session: Any, served: Served) -> None:
    await session.add_compaction("beside", "m8", "m8")


async def _summarize_elsewhere(session: Any, served: Served) -> None:
    await session.append_messages([user(f"n{n}") for n in range(4)])
    await session.add_compaction("elsewhere", "n1", "n2")


async def _summarize_inside(session: Any, served: Served) -> None:
    await session.add_compaction("inside", "m3", "m5")


MEANWHILE: dict[str, tuple[Meanwhile, str, list[str]]] = {
    "cleared": (_clear, "skipped", []),
    "an end deleted": (_delete_end, "skipped", ["m0", *(f"m{n}" for n in range(2, 9))]),
    "the inside deleted": (_delete_inside, "applied", ["m0", "summary", "m8"]),
    "branch switched": (_switch, "applied", ["m0", "branch"]),
    "summarized beside": (
        _summarize_beside,
        "skipped",
        [*(f"m{n}" for n in range(8)), "beside"],
    ),
    "summarized elsewhere": (
        _summarize_elsewhere,
        "applied",
        ["m0", "summary", "m8", "n0", "elsewhere", "n3"],
    ),
    "summarized inside": (_summarize_inside, "applied", ["m0", "summary", "m8"]),
}


@pytest.mark.parametrize("name", MEANWHILE)
async def test_the_range_is_checked_again_when_the_summary_is_there(
    serve: Serve, name: str
) -> None:
    """What changed while the model wrote decides whether its summary still fits."""
    change, status, history = MEANWHILE[name]
    writer = Writer(is_held=True)
    scene = Scene(writer)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        compacting = asyncio.create_task(session.compact())
        await writer.has_begun.wait()
        await change(session, served)
        writer.may_go_on.set()
        result = await compacting
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert (outcome.status, result is not None) == (status, status == "applied")
        assert shown(await session.get_history()) == history
        if name == "branch switched":
            assert shown(await session.get_history("m8")) == ["m0", "summary", "m8"]
        ref = AgentRef("Compacting", scene.name)
        sessions = served.runtime.storage.sessions
        run_id = (await scene.job(served).describe()).run_id
        assert await sessions.count_chunks(ref, compaction_job_key("", "", run_id), 0) == 0


async def test_an_automatic_summary_that_no_longer_fits_is_told_to_the_handler(
    serve: Serve,
) -> None:
    """The handler learns why; clients see idle and no error."""
    writer = Writer(is_held=True)
    scene = Scene(writer, threshold=100)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await writer.has_begun.wait()
        await session.delete_messages(["m1"])
        writer.may_go_on.set()
        await session.compaction.last_outcome()

    assert [type(error) for error in scene.errors] == [InvalidCompactionError]
    assert phases(scene.name) == ["idle", "compacting", "idle", "idle"]


async def test_a_cancelled_job_stores_nothing_and_ends_for_all_who_wait(serve: Serve) -> None:
    """The model's call ends, clients see idle, and the next append starts none at once."""
    writer = Writer(is_held=True)
    scene = Scene(writer, threshold=100)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await writer.has_begun.wait()
        waiting = asyncio.create_task(session.compact())

        async def is_joined() -> None:
            progress = await session.compaction.progress()
            assert progress is not None
            assert (progress.phase, progress.parts, progress.done) == ("summarizing", 1, 0)

        await assert_eventually(is_joined)
        assert await session.compaction.cancel()
        assert await waiting is None
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "cancelled"
        status = (await scene.job(served).describe()).status
        assert status is WorkflowExecutionStatus.CANCELED
        assert not await session.compaction.cancel()
        assert await session.compaction.progress() is None
        await session.append_message(user("m9"))
        assert await session.compaction.progress() is None
        assert await session.get_compactions() == []

    assert [type(error) for error in scene.errors] == [HandlerCancelledError]
    assert phases(scene.name)[:3] == ["idle", "compacting", "idle"]
    assert "error" not in phases(scene.name)


async def test_a_caller_that_cancels_its_call_cancels_the_job(serve: Serve) -> None:
    """A handler that compacts is cancelled: so is what it waits for."""
    writer = Writer(is_held=True)
    scene = Scene(writer)
    async with serve(Compacting) as served:
        agent = served.client.agent("Compacting", scene.name)
        await agent.session().append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        call = await agent.start_call("compact_here", "")
        await writer.has_begun.wait()
        await call.cancel()
        with pytest.raises(HandlerCancelledError):
            await call.result()
        outcome = await agent.session().compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "cancelled"


async def test_a_worker_that_stops_hands_the_job_over(serve: Serve) -> None:
    """The next worker goes on: the handler that waits gets the one summary, stored once."""
    writer = Writer(is_held=True)
    scene = Scene(writer)
    queue = f"handed-{uuid4().hex[:12]}"
    async with serve(Compacting, task_queue=queue) as served:
        agent = served.client.agent("Compacting", scene.name)
        await agent.session().append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await agent.start_call("compact_here", "", idempotency_key="k")
        await writer.has_begun.wait()
    writer.may_go_on.set()
    async with serve(Compacting, task_queue=queue) as served:
        agent = served.client.agent("Compacting", scene.name)
        text = await agent.call("compact_here", "", idempotency_key="k")

        assert text == "summary"
        assert len(await agent.session().get_compactions()) == 1
        assert len(writer.prompts) == 2


async def test_a_repeated_handler_finds_the_job_that_it_had_begun(serve: Serve) -> None:
    """The job ends while no worker runs the handler: it is not begun a second time."""
    scene = Scene(Writer())
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        run = CompactionRun("Compacting", scene.name)
        first = await run_compaction(served.client.channel, run, "k")
        again = await run_compaction(served.client.channel, run, "k")
        other = await run_compaction(served.client.channel, run, "other")

        assert first == again
        assert (first.status, other.status) == ("applied", "skipped")
        assert len(scene.writer.prompts) == 1


async def test_a_function_of_another_kind_is_left_to_the_next_job(serve: Serve) -> None:
    """The set-up changed while the job ran: it ends and says so."""
    writer = Writer(is_held=True)
    scene = Scene(writer)
    queue = f"changed-{uuid4().hex[:12]}"
    async with serve(Compacting, task_queue=queue) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        run = CompactionRun("Compacting", scene.name)
        assert await try_compaction(served.client.channel, run)
        await writer.has_begun.wait()
        assert not await try_compaction(served.client.channel, run)

    def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        return CompactResult("m1", "m7", "by hand")

    setups[scene.name] = lambda session: session.on_compaction(compact)
    async with serve(Compacting, task_queue=queue) as served:
        session = served.client.agent("Compacting", scene.name).session()
        outcome = await session.compaction.last_outcome()
        assert outcome is not None
        assert (outcome.status, await session.get_compactions()) == ("failed", [])
        assert "of another kind" in outcome.reason
        result = await session.compact()
        assert result is not None
        assert result.summary == "by hand"


async def test_the_sessions_own_function_runs_as_a_job_too(serve: Serve, _hurries: None) -> None:
    """It is retried when it raises; blank text, None and a wrong range store nothing."""
    name = uuid4().hex[:12]
    answers: list[Any] = [
        ConnectionError("away"),
        CompactResult("m1", "m7", "own"),
        None,
        CompactResult("m0", "m8", " \n"),
        CompactResult("nobody", "m8", "text"),
        "no result",
    ]

    def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        result: CompactResult | None = answer
        return result

    setups[name] = lambda session: session.on_compaction(compact)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        await session.append_messages([user(f"m{n}") for n in range(9)])
        statuses = []
        for _ in range(5):
            await session.compact()
            outcome = await session.compaction.last_outcome()
            assert outcome is not None
            statuses.append(outcome.status)

        assert statuses == ["applied", "skipped", "skipped", "skipped", "failed"]
        assert shown(await session.get_history()) == ["m0", "own", "m8"]


async def test_a_counter_or_set_up_that_raises_ends_the_job(serve: Serve) -> None:
    """What authors wrote is not tried for ever; the outcome names it."""
    name = uuid4().hex[:12]

    def count(messages: Sequence[Mapping[str, Json]]) -> float:
        raise ArithmeticError("cannot count")

    function = create_compact_function(Writer(), protect_head=1, token_counter=count)
    setups[name] = lambda session: session.on_compaction(function)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        await session.append_messages([user(f"m{n}") for n in range(9)])
        assert await session.compact() is None
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        assert outcome.status == "failed"
        assert "cannot count" in outcome.reason


async def test_compacting_without_a_function_or_messages_is_no_job_that_fails(
    serve: Serve,
) -> None:
    """Without a function it raises; an empty session is skipped."""
    name, scene = uuid4().hex[:12], Scene(Writer())
    setups[name] = lambda session: session
    async with serve(Compacting) as served:
        with pytest.raises(SessionSetupError):
            await served.client.agent("Compacting", name).session().compact()
        session = served.client.agent("Compacting", scene.name).session()
        assert await session.compact() is None
        assert await session.compaction.last_outcome() is None or scene.writer.prompts == []


async def test_a_workflow_compacts_and_gets_the_range(serve: Serve) -> None:
    """`step.compact_session`, twice: the second finds nothing to do."""
    scene = Scene(Writer())
    async with (
        serve(Compacting) as served,
        Worker(
            served.client.temporal, task_queue=f"u{served.task_queue}", workflows=[CompactTwice]
        ),
    ):
        ranges = await served.client.temporal.execute_workflow(
            CompactTwice.run,
            args=[scene.name, served.task_queue],
            id=f"user-{uuid4().hex}",
            task_queue=f"u{served.task_queue}",
        )

        assert ranges == [["m1", "m7"], None]


async def test_an_inline_session_waits_for_its_summary(serve: Serve) -> None:
    """With mode "inline" the history is short when the append returns, and no job runs."""
    name, writer = uuid4().hex[:12], Writer()
    function = create_compact_function(
        writer, protect_head=1, min_tail_messages=1, tail_token_budget=20
    )
    setups[name] = lambda session: session.on_compaction(function).compact_after(100, mode="inline")
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        assert ids(await session.get_history()) == ["m0", "S", "m8"]
        assert await session.compaction.last_outcome() is None


async def test_the_history_of_a_job_is_small_whatever_the_conversation(serve: Serve) -> None:
    """Under 20 kB, with readable names; the text of messages and summary is not in it."""
    writer = Writer(text="the secret summary")
    name = uuid4().hex[:12]
    function = create_compact_function(writer, protect_head=1, max_prompt_chars=20_000)
    setups[name] = lambda session: session.on_compaction(function)
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", name).session()
        for start in range(0, 400, 100):
            texts = [user(f"m{n}", f"secret {n} " * 200) for n in range(start, start + 100)]
            await session.append_messages(texts)
        assert await session.compact() is not None
        scene = Scene(writer)
        scene.name = name
        description = await scene.job(served).describe()
        history = await scene.job(served).fetch_history()
        text = history.to_json()

        parts = len(writer.prompts) - 1
        asked = [f"{parts} parts", "1 part, round 2"]
        size = description.raw_description.workflow_execution_info.history_size_bytes
        assert size < 20_000
        assert "secret" not in text
        assert await description.static_summary() == f"compact Compacting/{name} session ''"
        summaries = [
            event.user_metadata.summary.data.decode()
            for event in history.events
            if event.user_metadata.summary.data
        ]
        assert summaries == [
            f"\"compact Compacting/{name} session ''\"",
            '"plan"',
            *(f'"summarize {each}"' for each in asked),
            '"store the summary"',
        ]


async def test_steps_of_a_summarizer_are_its_parts_own(serve: Serve, _hurries: None) -> None:
    """A part that is tried again finds its own step, and no part finds another's."""
    asked: list[str] = []

    class Stepping(Compacting):
        """Asks its summarizer in steps."""

        def configure_session(self, session: Session) -> Session:
            """Summarize in several parts, of which one fails after its step, once."""

            async def summarize(prompt: str) -> str:
                async def ask() -> str:
                    asked.append(prompt)
                    return " ".join(dict.fromkeys(re.findall(r"said-\d+-", prompt)))

                text: str = await self.step("ask", ask)
                if "said-9-" in prompt and not failed:
                    failed.append(prompt)
                    raise ConnectionError("after the step")
                return text

            function = create_compact_function(
                summarize, protect_head=1, tail_token_budget=20, max_prompt_chars=6_000
            )
            return session.on_compaction(function)

    failed: list[str] = []
    async with serve(Stepping) as served:
        session = served.client.agent("Stepping", uuid4().hex[:12]).session()
        await session.append_messages([user(f"m{n}", f"said-{n}- " * 90) for n in range(20)])
        result = await session.compact()

        assert result is not None
        assert len(failed) == 1
        assert set(re.findall(r"said-\d+-", result.summary)) == {f"said-{n}-" for n in range(1, 18)}
        assert len(asked) == len(set(asked))


async def test_code_that_a_compaction_waits_for_cannot_wait_for_it(
    serve: Serve, _hurries: None
) -> None:
    """A summarizer, an error handler and `on_start` that call compact() are refused at once."""
    refused: list[str] = []

    class Circular(Compacting):
        """Compacts where it must not."""

        async def on_start(self) -> None:
            """Compact before anything else."""
            await self._try("on_start")

        async def _try(self, where: str) -> None:
            try:
                await self.session.compact()
            except SessionSetupError:
                refused.append(where)

        def configure_session(self, session: Session) -> Session:
            """Compact in the summarizer, and when it fails."""

            async def summarize(prompt: str) -> str:
                await self._try("summarizer")
                return " "

            async def handle(error: Exception) -> None:
                await self._try("handler")

            function = create_compact_function(
                summarize, protect_head=1, min_tail_messages=1, tail_token_budget=20
            )
            return session.on_compaction(function).on_compaction_error(handle).compact_after(100)

    async with serve(Circular) as served:
        session = served.client.agent("Circular", uuid4().hex[:12]).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        await session.compaction.last_outcome()

    assert refused == ["on_start", "summarizer", "handler"]


@pytest.mark.parametrize("is_left", [False, True])
async def test_an_observer_may_delete_what_a_summary_stands_for(
    serve: Serve, is_left: bool
) -> None:
    """Told of the summary; the job ends without an error, with what is left of its range."""
    scene = Scene(Writer())
    setup = setups[scene.name]

    def observed(session: Session) -> Session:
        async def delete_hidden(event: SessionEvent) -> None:
            if isinstance(event, HistoryCompacted):
                first = 2 if is_left else 1
                await session.delete_messages([f"m{n}" for n in range(first, 19)])

        return setup(session).on_change(delete_hidden)

    setups[scene.name] = observed
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(20)])

        result = await session.compact()
        outcome = await session.compaction.last_outcome()

        assert outcome is not None
        if is_left:
            assert result == CompactResult("m1", "m1", "summary")
            assert ids(await session.get_history()) == ["m0", "S", "m19"]
            assert (outcome.status, outcome.to_message_id) == ("applied", "m1")
        else:
            assert result is None
            assert ids(await session.get_history()) == ["m0", "m19"]
            assert outcome == CompactionOutcome("skipped", "the summary was removed again")
        assert scene.errors == []
        assert "error" not in phases(scene.name)


async def test_usage_of_a_registered_session_grows_with_its_summaries(serve: Serve) -> None:
    """One record per model call, none for a summarizer that costs nothing."""
    scene = Scene(Writer())
    async with serve(Compacting) as served:
        session = served.client.agent("Compacting", scene.name).session()
        await session.append_messages([user(f"m{n}", "word " * 10) for n in range(9)])
        assert await session.compact() is not None
        ref = SessionRef(AgentRef("Compacting", scene.name), "")
        assert await served.runtime.storage.sessions.usage(ref) == []
