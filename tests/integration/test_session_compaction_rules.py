"""When a session is compacted, and which summaries are stored (9.1, 9.4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactResult,
    TokenCountInput,
)
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import InvalidCompactionError, SessionSetupError
from agent_runtime.json_value import Json
from agent_runtime.session.direct_session_store import DirectSessionStore
from agent_runtime.session.session import Session
from agent_runtime.testing.context_providers import InMemoryContextProvider
from tests.support.eventually import assert_eventually
from tests.support.session import (
    Events,
    Owner,
    Prompts,
    Summaries,
    append_chain,
    long_text,
    ranges,
    shown,
    user,
)
from tests.support.session_providers import PlainMessages


async def test_r08_appends_during_a_compaction_start_no_other(
    session_store: DirectSessionStore,
) -> None:
    """Twenty at once over the threshold call the function once (F07)."""
    is_called, may_end = asyncio.Event(), asyncio.Event()
    calls = 0

    async def slow(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        nonlocal calls
        calls += 1
        is_called.set()
        await may_end.wait()
        return CompactResult(messages[0]["id"], messages[-1]["id"], "S")

    session = Session.create(session_store).on_compaction(slow).compact_after(20)
    await session.append_message(user("m0"))
    appends = [asyncio.create_task(session.append_message(user(f"x{n}"))) for n in range(20)]
    await is_called.wait()

    async def all_but_the_compacting_one_have_ended() -> None:
        assert sum(append.done() for append in appends) == 19

    await assert_eventually(all_but_the_compacting_one_have_ended)
    may_end.set()
    await asyncio.gather(*appends)

    assert calls == 1
    assert len(await session.get_compactions()) == 1


async def test_compactions_by_hand_wait_for_each_other(session_store: DirectSessionStore) -> None:
    """The second begins with what the first has left."""
    running = most = 0
    seen: list[list[str]] = []

    async def slow(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        seen.append([message["id"] for message in messages])
        await asyncio.sleep(0)
        running -= 1
        return CompactResult(messages[0]["id"], messages[1]["id"], f"S{len(seen)}")

    session = Session.create(session_store).on_compaction(slow)
    await append_chain(session, 6)

    await asyncio.gather(session.compact(), session.compact(), session.compact())

    assert most == 1
    assert [len(messages) for messages in seen] == [6, 5, 4]
    assert shown(await session.get_history()) == ["S3", "m4", "m5"]


async def test_a_function_cannot_compact_its_own_session(
    session_store: DirectSessionStore,
) -> None:
    """It fails with an error that says so, instead of waiting for itself."""
    owner = Owner(session_store)
    session = Session.create(owner)

    async def again(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        return await session.compact()

    session.on_compaction(again)
    await append_chain(session, 2)

    assert await session.compact() is None
    assert "cannot call compact()" in owner.frames[-2]["error"]


async def test_r09_a_failing_function_is_told_and_tried_ever_more_seldom(
    session_store: DirectSessionStore,
) -> None:
    """The handler gets the exception, clients end in idle, attempts are spaced (F08)."""
    owner, events = Owner(session_store), Events()
    seen: list[tuple[str, list[str]]] = []
    function = Summaries(OSError("model down"))
    session = Session.create(owner).on_compaction(function).on_change(events)
    session.on_compaction_error(lambda error: seen.append((str(error), owner.phases)))
    session.compact_after(50)
    await session.append_message(long_text(0, 100))
    owner.forget()

    result = await session.append_message(long_text(1, 100))

    assert result is not None and result.is_inserted
    assert owner.phases == ["idle", "compacting", "error", "idle"]
    assert owner.frames[2] == {"type": "cf_agent_session_error", "error": "model down"}
    assert seen == [("model down", ["idle", "compacting"])]
    assert events.kinds == ["MessageAppended"] * 2
    # 29 tokens a message: attempts are made at 58, then at the first estimate of at least 58 * 1.1,
    # 87 * 1.2, 116 * 1.4, 174 * 1.8, 319 * 2.
    for index in range(2, 40):
        await session.append_message(long_text(index, 100))
    assert [29 * len(messages) for messages in function.seen] == [58, 87, 116, 174, 319, 638]


async def test_compacting_by_hand_swallows_the_function_s_failure(
    session_store: DirectSessionStore,
) -> None:
    """None is returned, clients are told, and the handler is for automatic compactions alone."""
    owner = Owner(session_store)
    seen: list[Exception] = []
    session = Session.create(owner).on_compaction(Summaries(OSError("model down")))
    session.on_compaction_error(seen.append)
    await append_chain(session, 2)
    owner.forget()

    assert await session.compact() is None
    assert owner.phases == ["compacting", "error", "idle"]
    assert seen == []


async def test_compacting_by_hand_lets_the_store_s_failure_through() -> None:
    """A summary that was paid for must not get lost in silence."""
    provider = PlainMessages()
    provider.overlay_error = OSError("disk full")
    session = Session(provider).on_compaction(Summaries(("m0", "m0", "never")))
    await append_chain(session, 2)

    with pytest.raises(OSError, match="disk full"):
        await session.compact()


async def test_a_compaction_that_is_cancelled_leaves_clients_idle(
    session_store: DirectSessionStore,
) -> None:
    """And another one can be made."""
    owner = Owner(session_store)
    is_called = asyncio.Event()

    async def endless(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        is_called.set()
        await asyncio.Event().wait()
        return None

    session = Session.create(owner).on_compaction(endless)
    await append_chain(session, 4)
    compacting = asyncio.create_task(session.compact())
    await is_called.wait()
    compacting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compacting

    assert owner.phases[-2:] == ["compacting", "idle"]
    session.on_compaction(Summaries(("m1", "m2", "S")))
    assert await session.compact() is not None


async def test_r10_all_summaries_in_the_range_are_handed_over(
    session_store: DirectSessionStore,
) -> None:
    """With every message that the new overlay covers beside them (F09a)."""
    prompts = Prompts("NEW")
    function = create_compact_function(
        prompts, protect_head=1, min_tail_messages=1, tail_token_budget=10
    )
    session = Session.create(session_store).on_compaction(function)
    for index in range(14):
        await session.append_message(user(f"m{index}", f"text-{index}-"))
    await session.add_compaction("FIRST", "m1", "m3")
    await session.add_compaction("SECOND", "m6", "m8")

    await session.compact()

    [prompt] = prompts.seen
    assert "FIRST" in prompt and "SECOND" in prompt
    present = [index for index in range(14) if f"text-{index}-" in prompt]
    assert present == [4, 5, 9, 10, 11, 12]
    assert (await ranges(session))[-1] == ("m1", "m12", "NEW")
    assert shown(await session.get_history()) == ["m0", "NEW", "m13"]


async def test_r11_what_no_prompt_held_stays_visible(session_store: DirectSessionStore) -> None:
    """A message between a protected summary and the new range is not swallowed (F09b)."""
    prompts = Prompts("NEW")
    function = create_compact_function(
        prompts, protect_head=3, min_tail_messages=1, tail_token_budget=10
    )
    session = Session.create(session_store).on_compaction(function)
    for index in range(16):
        await session.append_message(user(f"m{index}", f"text-{index}-"))
    await session.add_compaction("FIRST", "m1", "m7")

    await session.compact()

    assert await ranges(session) == [("m1", "m7", "FIRST"), ("m9", "m14", "NEW")]
    assert shown(await session.get_history()) == ["m0", "FIRST", "m8", "NEW", "m15"]
    present = [index for index in range(16) if f"text-{index}-" in prompts.seen[0]]
    assert present == list(range(9, 15))


@pytest.mark.parametrize("ends", [("nobody", "m3"), ("m3", "m1"), ("m1", "nobody")])
async def test_r12_a_range_that_does_not_fit_is_not_stored(
    session_store: DirectSessionStore, ends: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """The handler of automatic compactions learns why, and few calls are made (F10)."""
    seen: list[Exception] = []
    owner = Owner(session_store)
    function = Summaries((*ends, "never"))
    session = Session.create(owner).on_compaction(function)
    session.on_compaction_error(seen.append)
    await append_chain(session, 5)

    owner.forget()
    assert await session.compact() is None
    assert owner.phases == ["compacting", "idle"]
    assert seen == []
    assert "a summary was not stored" in caplog.text

    function.seen.clear()
    session.compact_after(10)
    for index in range(6):
        await session.append_message(long_text(10 + index, 100))
    assert 1 <= len(function.seen) <= 4
    assert len(seen) == len(function.seen)
    assert isinstance(seen[0], InvalidCompactionError)
    assert await session.get_compactions() == []


@pytest.mark.parametrize(
    "given",
    ["m1", {"fromMessageId": "m1", "toMessageId": "m2", "summary": "S"},
     CompactResult("m1", "m2", " \u200b\ufeff\n"), CompactResult("m1", "m2", cast(str, 5)),
     CompactResult(cast(str, None), "m2", "S")],
    ids=["text", "dict", "invisible", "number", "no end"],
)  # fmt: skip
async def test_r12_a_result_that_is_none_is_not_stored(
    session_store: DirectSessionStore, given: object
) -> None:
    """Whatever a function returns: by hand nothing is raised, and the handler learns why."""
    seen: list[Exception] = []

    def function(messages: object, context: object = None) -> CompactResult:
        return cast(CompactResult, given)

    session = Session.create(session_store).on_compaction(function)
    session.on_compaction_error(seen.append)
    await append_chain(session, 5)

    assert await session.compact() is None
    session.compact_after(10)
    await session.append_message(long_text(10, 100))

    assert [type(each) for each in seen] == [InvalidCompactionError]
    assert await session.get_compactions() == []


@pytest.mark.parametrize("threshold", [-1, 1.5, "10", True])
async def test_a_threshold_that_is_none_is_refused(
    session_store: DirectSessionStore, threshold: object
) -> None:
    """When it is set, not when a message is appended."""
    session = Session.create(session_store)

    with pytest.raises(SessionSetupError, match="no threshold"):
        session.compact_after(cast(int, threshold))


async def test_r12_a_summary_s_id_stands_for_its_range(session_store: DirectSessionStore) -> None:
    """As either end (F10)."""
    session = Session.create(session_store)
    await append_chain(session, 10)
    overlay = await session.add_compaction("A", "m3", "m5")
    synthetic = f"compaction_{overlay.id}"

    session.on_compaction(Summaries(("m2", synthetic, "to"), (synthetic, "m7", "from")))

    assert await session.compact() == CompactResult("m2", "m5", "to")
    # The summary called by that id is not shown any more, its first message is not an end now.
    assert await session.compact() is None
    newest = (await session.get_compactions())[-1]
    session.on_compaction(Summaries((f"compaction_{newest.id}", "m7", "from")))
    assert await session.compact() == CompactResult("m2", "m7", "from")


async def test_r22_compactions_that_help_little_are_spaced(
    session_store: DirectSessionStore,
) -> None:
    """Forty appends call for at most fifteen summaries (F19)."""
    prompts = Prompts("summary")
    function = create_compact_function(
        prompts, protect_head=1, min_tail_messages=1, tail_token_budget=100
    )
    session = Session.create(session_store).on_compaction(function).compact_after(300)

    for index in range(40):
        await session.append_message(long_text(index, 200))

    assert 1 <= len(prompts.seen) <= 15
    assert await session.estimate_tokens() <= 400


async def test_a_summary_that_does_not_help_counts_as_a_failure(
    session_store: DirectSessionStore,
) -> None:
    """With a counter that never gets below the threshold there is one attempt (9.4)."""
    calls = 0

    def last_one(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        nonlocal calls
        calls += 1
        return CompactResult(messages[-1]["id"], messages[-1]["id"], "S")

    session = Session.create(session_store).on_compaction(last_one)
    session.compact_after(10, token_counter=lambda given: 1000)

    await append_chain(session, 10)

    assert (calls, len(await session.get_compactions())) == (1, 1)


async def test_r25_long_transcripts_are_summarized_in_pieces(
    session_store: DirectSessionStore,
) -> None:
    """Each prompt is within its limit, and every message is in one of them (F22)."""
    prompts = Prompts("summary")
    function = create_compact_function(
        prompts,
        protect_head=0,
        min_tail_messages=0,
        tail_token_budget=0,
        max_prompt_chars=50_000,
    )
    session = Session.create(session_store).on_compaction(function)
    await session.append_messages(
        [user(f"m{index}", f"text-{index}-".ljust(20_000, "x")) for index in range(30)]
    )

    result = await session.compact()

    assert result is not None and result.from_message_id == "m0"
    assert max(len(prompt) for prompt in prompts.seen) <= 50_000
    last = int(result.to_message_id.removeprefix("m"))
    for index in range(last + 1):
        assert any(f"text-{index}-" in prompt for prompt in prompts.seen), index


async def test_a_summary_whose_range_was_changed_meanwhile_is_dropped(
    session_store: DirectSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """By a deleted end, or by a summary that covers what this one never saw (9.4)."""
    session = Session.create(session_store)
    other = Session.create(session_store)
    await append_chain(session, 10)

    async def while_deleting(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        await other.delete_messages(["m3"])
        return CompactResult("m1", "m3", "stale")

    async def while_compacting(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        await other.add_compaction("theirs", "m2", "m6")
        return CompactResult("m1", "m4", "stale")

    assert await session.on_compaction(while_deleting).compact() is None
    assert await session.on_compaction(while_compacting).compact() is None
    assert caplog.text.count("its range was changed while it was made") == 2
    assert shown(await session.get_history()) == ["m0", "m1", "theirs", "m7", "m8", "m9"]


async def test_a_summary_within_the_range_does_not_make_it_stale(
    session_store: DirectSessionStore,
) -> None:
    """What it stands for was seen as messages."""
    session = Session.create(session_store)
    other = Session.create(session_store)
    await append_chain(session, 10)

    async def while_compacting(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        await other.add_compaction("theirs", "m2", "m3")
        return CompactResult("m1", "m4", "mine")

    assert await session.on_compaction(while_compacting).compact() is not None
    assert shown(await session.get_history()) == ["m0", "mine", "m5", "m6", "m7", "m8", "m9"]


async def test_a_deleted_end_is_noticed_in_a_store_of_one_s_own() -> None:
    """An overlay over it would never apply."""
    provider = PlainMessages()
    session = Session(provider)
    await append_chain(session, 5)

    def while_deleting(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult:
        provider.delete_messages(["m3"])
        return CompactResult("m1", "m3", "stale")

    assert await session.on_compaction(while_deleting).compact() is None
    assert provider.overlays == []


async def test_an_attempt_that_did_nothing_is_warned_of_once(
    session_store: DirectSessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Until one has succeeded (9.2)."""
    is_lazy, calls = True, 0

    def all_of_it(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        nonlocal calls
        calls += 1
        return None if is_lazy else CompactResult(messages[0]["id"], messages[-1]["id"], "S")

    session = Session.create(session_store).on_compaction(all_of_it).compact_after(10)
    with caplog.at_level(logging.WARNING, "agent_runtime"):
        await append_chain(session, 20)
        first = calls
        is_lazy = False
        assert await session.compact() is not None
        is_lazy = True
        await append_chain(session, 20, start=20)

    assert first > 1 and calls > first + 2
    assert caplog.text.count("history was not shortened") == 2


async def test_a_failing_refresh_does_not_hide_the_summary(
    session_store: DirectSessionStore,
) -> None:
    """It is stored and told; the prompt store's error goes to the handler."""

    class Full(InMemoryContextProvider):
        async def set(self, content: str) -> None:
            raise OSError("prompt store full")

    owner, events = Owner(session_store), Events()
    seen: list[Exception] = []
    session = Session.create(owner).with_cached_prompt(Full())
    session.on_compaction(Summaries(("m0", "m1", "S"))).on_compaction_error(seen.append)
    session.on_change(events)
    await append_chain(session, 3)

    assert await session.compact() is not None
    assert [str(error) for error in seen] == ["prompt store full"]
    assert (owner.phases[-1], events.kinds[-1]) == ("idle+", "HistoryCompacted")


async def test_a_counter_that_fails_fails_no_write(session_store: DirectSessionStore) -> None:
    """The handler gets its error, clients an error and then the default estimate (9.3)."""

    def broken(given: TokenCountInput) -> float:
        raise ValueError("no vocabulary")

    owner = Owner(session_store)
    seen: list[Exception] = []
    function = Summaries(None)
    session = Session.create(owner).on_compaction(function).on_compaction_error(seen.append)
    session.compact_after(1, token_counter=broken)

    await session.append_message(user("m0"))
    await session.update_message(user("m0", "other"))
    await session.delete_messages(["m0"])

    assert owner.phases == ["error", "idle"] * 3
    assert [str(error) for error in seen] == ["no vocabulary"] * 3
    assert function.seen == []
