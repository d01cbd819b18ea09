"""S6: what a compaction of 5,000 messages costs the worker, and how much history it leaves."""

from __future__ import annotations

import time

from agent_runtime.call import CompactionOutcome
from agent_runtime.client.session_handle import SessionHandle
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.identity import AgentRef, compaction_workflow_id
from agent_runtime.session.direct_session_store import open_session_store
from agent_runtime.session.message import Message, text_message
from agent_runtime.session.session import Session
from bench.agents import TALKER_OPTIONS, summarize_at_once
from bench.support.accounting import ProcessorSpan
from bench.support.bench import Bench
from bench.support.row import Figure, Row
from bench.support.statistics import median

_MESSAGES = 5_000
_PAGE = 500
_HISTORY_BYTES = 20_000


async def run(bench: Bench) -> list[Figure]:
    """Compact as a job in the worker, and by the same function in this process, in turns."""
    worker = await bench.worker()
    client = await bench.client()
    job: list[float] = []
    plain: list[float] = []
    sizes: list[int] = []
    for _ in range(bench.scale.pick(5, 2)):
        name = bench.new_name("talker")
        session = client.agent("Talker", name).session()
        await _fill(session)
        with ProcessorSpan(worker=worker.pid) as span:
            outcome = await _compact(session)
        job.append(span.used["worker"])
        ref = AgentRef("Talker", name)
        handle = client.temporal.get_workflow_handle(compaction_workflow_id("product", ref, "", ""))
        description = await handle.describe()
        sizes.append(description.raw_description.workflow_execution_info.history_size_bytes)
        bench.say(f"{outcome.summary_tokens} tokens for {_MESSAGES} messages")
        plain.append(await _compact_here(bench))
    return [
        Figure(
            f"worker's processor time, {_MESSAGES:,} messages / the function alone",
            median(job) / median(plain),
            at_most=2.5,
            evidence=f"{median(job) * 1_000:.0f} ms against {median(plain) * 1_000:.0f} ms",
        ),
        Figure("history of the job", max(sizes) / 1_000, "kB", at_most=_HISTORY_BYTES / 1_000),
    ]


async def _compact(session: SessionHandle) -> CompactionOutcome:
    await session.compact()
    outcome = await session.compaction.last_outcome()
    if outcome is None or outcome.status != "applied":
        raise RuntimeError(f"the session was not compacted: {outcome}")
    return outcome


async def _compact_here(bench: Bench) -> float:
    """Return the processor seconds of reading, summarizing and storing without a job."""
    async with await open_session_store(bench.data_dir(bench.new_name("plain"))) as store:
        session = Session.create(store).on_compaction(
            create_compact_function(summarize_at_once, **TALKER_OPTIONS)
        )
        for start in range(0, _MESSAGES, _PAGE):
            await session.append_messages(_messages(start))
        before = time.process_time()
        if await session.compact() is None:
            raise RuntimeError("the session was not compacted")
        return time.process_time() - before


async def _fill(session: SessionHandle) -> None:
    for start in range(0, _MESSAGES, _PAGE):
        await session.append_messages(_messages(start))


def _messages(start: int) -> list[Message]:
    roles = ("user", "assistant")
    return [
        text_message(roles[n % 2], f"message {n}: " + "a few words of it " * 15, id=f"m{n}")
        for n in range(start, start + _PAGE)
    ]


ROW = Row("S6", "a compaction", run)
