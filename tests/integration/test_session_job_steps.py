"""What a session does for a durable compaction job: begin, store the summary, end (9.4)."""

from __future__ import annotations

import pytest

from agent_runtime.compaction.compact_context import CompactResult, TokenCountInput
from agent_runtime.errors import SessionSetupError
from agent_runtime.session.compaction_jobs import CompactionBasis
from agent_runtime.session.compaction_range import InvalidRange
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from tests.support.session import Owner, Summaries, append_chain, ids, shown


async def begun(session: Session, count: int = 10) -> CompactionBasis:
    """Return a job over a chain."""
    await append_chain(session.on_compaction(Summaries(None)), count)
    basis = await session.compactor.begin_job(None)
    assert basis is not None
    return basis


async def commit(
    session: Session, basis: CompactionBasis, first: str, last: str
) -> CompactResult | InvalidRange:
    """Store a job's summary, and show it."""
    stored = await session.compactor.commit_job(
        CompactResult(first, last, "mine"), basis.leaf_id, basis.overlay_ids
    )
    if not isinstance(stored, InvalidRange):
        await session.compactor.finish_job(basis.tokens_before)
    return stored


async def test_a_job_works_on_the_path_it_began_with(session_store: DirectSessionStore) -> None:
    """What was appended since, there or on another branch, does not matter."""
    owner = Owner(session_store)
    session = Session.create(owner)
    basis = await begun(session, 6)
    await session.append_message({"id": "side", "role": "user", "parts": []}, "m2")

    stored = await commit(session, basis, "m1", "m4")

    assert ids(basis.history) == ["m0", "m1", "m2", "m3", "m4", "m5"]
    assert stored == CompactResult("m1", "m4", "mine")
    assert shown(await session.get_history("m5")) == ["m0", "mine", "m5"]
    assert owner.phases[-3:] == ["compacting", "idle", "idle+"]


@pytest.mark.parametrize("theirs", [("m2", "m8"), ("m3", "m6"), ("m5", "m7")])
async def test_a_summary_stored_meanwhile_is_not_swallowed(
    session_store: DirectSessionStore, theirs: tuple[str, str]
) -> None:
    """The job's summary does not hold what that one stands for (F09)."""
    session = Session.create(session_store)
    basis = await begun(session)
    await session.add_compaction("theirs", *theirs)

    stored = await commit(session, basis, "m1", "m4")

    assert isinstance(stored, InvalidRange)
    assert "theirs" in shown(await session.get_history())
    assert len(await session.get_compactions()) == 1


async def test_a_summary_the_job_knew_is_taken_in(session_store: DirectSessionStore) -> None:
    """And one within the range is no obstacle, as its messages were seen."""
    session = Session.create(session_store)
    await append_chain(session, 4)
    await session.add_compaction("known", "m1", "m3")
    await append_chain(session, 6, start=4)
    session.on_compaction(Summaries(None))
    basis = await session.compactor.begin_job(None)
    assert basis is not None
    await session.add_compaction("within", "m5", "m6")

    stored = await commit(session, basis, "m4", "m7")

    assert stored == CompactResult("m1", "m7", "mine")
    assert shown(await session.get_history()) == ["m0", "mine", "m8", "m9"]


async def test_a_deleted_end_makes_a_job_stale(session_store: DirectSessionStore) -> None:
    """Nothing is stored."""
    session = Session.create(session_store)
    basis = await begun(session)
    await session.delete_messages(["m4"])

    assert isinstance(await commit(session, basis, "m1", "m4"), InvalidRange)
    assert await session.get_compactions() == []


async def test_an_empty_session_is_no_job(session_store: DirectSessionStore) -> None:
    """Nor is one without a function."""
    session = Session.create(session_store)
    with pytest.raises(SessionSetupError, match="No compaction function"):
        await session.compactor.begin_job(None)

    assert await session.on_compaction(Summaries(None)).compactor.begin_job(None) is None


async def test_a_job_ends_although_the_counter_fails(session_store: DirectSessionStore) -> None:
    """Clients are idle, and the next attempt is spaced."""

    def broken(given: TokenCountInput) -> float:
        raise ValueError("no vocabulary")

    owner = Owner(session_store)
    session = Session.create(owner)
    await begun(session)
    session.compact_after(10, token_counter=broken)

    await session.compactor.end_job(error=OSError("model down"), is_automatic=True)

    assert owner.phases[-3:] == ["error", "error", "idle"]


async def test_a_job_that_a_clear_made_needless_warns_of_nothing(
    session_store: DirectSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """One whose session is as long as ever does."""
    session = Session.create(session_store)
    await begun(session)
    session.compact_after(10)

    await session.compactor.end_job(is_automatic=True)
    assert "history was not shortened" in caplog.text
    caplog.clear()
    await session.clear_messages()
    await session.compactor.end_job(is_automatic=True)

    assert "history was not shortened" not in caplog.text
