"""A repeated handler gets the errors that it got, though the effects would succeed by now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from agent_runtime import Agent, AgentRef, Json, Receipt
from agent_runtime.agent_connection import Connection
from agent_runtime.caller import NOBODY, Caller, enter_as
from agent_runtime.client.handle import AgentHandle
from agent_runtime.compaction.compact_context import CompactContext, CompactResult
from agent_runtime.errors import (
    AgentRuntimeError,
    CallTimeoutError,
    HandlerDivergedError,
    HandlerError,
    ModelRefusedError,
    NotSerializableError,
    StateRejectedError,
    StorageUnavailableError,
)
from agent_runtime.handlers.effect_outcome import error_text, outcome_of
from agent_runtime.handlers.invocation import current_invocation
from agent_runtime.handlers.remote import RemoteAgent
from agent_runtime.session.context_provider import StoredPrompt
from agent_runtime.session.session import Session
from agent_runtime.session.stored_session import StoredSessionProvider
from agent_runtime.storage.protocol import ConnectionRow
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.context_providers import InMemoryContextProvider, InMemorySkillProvider
from tests.support.repeated_handler import Crash, RepeatedHandler, crashing_at_write
from tests.support.session import load_part, with_parts
from tests.support.session_stores import u


class ShopError(Exception):
    """What a library raises that knows nothing of agents."""

    def __init__(self, code: int, *, where: str) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.response = object()
        self.where = where


class World:
    """What the agent depends on and others change: whether things work by now."""

    works = False


class Clerk(Agent[Json]):
    """Refuses, and is refused, until the world works."""

    def validate_state_change(self, next_state: Json, source: str) -> None:
        """Refuse everything at first."""
        if not World.works and next_state != "after":
            raise ValueError("closed")

    def configure_session(self, session: Session) -> Session:
        """Keep a memory that somebody else stores."""
        return session.with_context("memory", max_tokens=5).with_context("far", provider=Far())


class Far(InMemoryContextProvider):
    """A writable text that cannot be reached at first."""

    async def compare_and_set(self, expected: str | None, content: str) -> bool:
        """See `InMemoryContextProvider`."""
        if not World.works:
            raise ShopError(503, where="far")
        return await super().compare_and_set(expected, content)


class FarPrompts:
    """A prompt store that cannot be written at first."""

    async def get_prompt(self) -> StoredPrompt | None:
        """Have none."""
        return None

    async def set_prompt(self, prompt: StoredPrompt) -> None:
        """Fail at first."""
        if not World.works:
            raise ShopError(504, where="prompts")


Run = RepeatedHandler[Clerk]
Attempt = Callable[[Clerk], Awaitable[object]]


@pytest.fixture
def run(storage: SqliteStorage) -> Run:
    """The clerk's handlers."""
    return RepeatedHandler(storage, Clerk)


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing work at first."""
    monkeypatch.setattr(World, "works", False)


async def _nothing_yet(clerk: Clerk) -> None:
    """Change nothing but the world."""


def _raise(value: Json) -> Json:
    if not World.works:
        raise ShopError(409, where="change")
    return value


async def _pay() -> Json:
    if not World.works:
        raise ShopError(402, where="till")
    return "paid"


async def _ask() -> Json:
    if not World.works:
        raise ModelRefusedError("not that", provider="p")
    return "answer"


async def _object() -> Json:
    return "text" if World.works else object()


class _Away(AgentHandle):
    """An agent that refuses at first."""

    def __init__(self) -> None:
        self.ref = AgentRef("Clerk", "b")

    async def set_state(self, *args: Any, **options: Any) -> Receipt:
        """Refuse, or say that it is done."""
        if not World.works:
            raise StateRejectedError("not now")
        return Receipt(1)


async def _set_state_elsewhere(clerk: Clerk) -> Receipt:
    return await RemoteAgent(clerk._effects, _Away()).set_state(1)  # type: ignore[arg-type]


async def _set_state_for_a_reader(clerk: Clerk) -> Receipt:
    row = ConnectionRow("s", 1, "c", "g", "/", "[]", not World.works, True, 0)
    enter_as(Caller(Connection(row, clerk._effects)))
    try:
        return await clerk.set_state("after")
    finally:
        enter_as(NOBODY)


async def _append_below_unknown(clerk: Clerk) -> object:
    provider = StoredSessionProvider(clerk.session_store, has_strict_parents=True)
    return await provider.append_message(u("m2"), "m1")


async def _append(clerk: Clerk) -> None:
    await clerk.session.append_message(u("m1"))


async def _make_table(clerk: Clerk) -> None:
    await clerk.sql("CREATE TABLE log (line TEXT UNIQUE)")


async def _clear_with_a_prompt_kept_elsewhere(clerk: Clerk) -> None:
    session = Session.create(clerk).for_session("other").with_cached_prompt(FarPrompts())
    await session.clear_messages()


async def _shorten_memory(clerk: Clerk) -> None:
    await clerk.session.replace_context_block("memory", "")


async def _lengthen_memory(clerk: Clerk) -> None:
    await clerk.session.replace_context_block("memory", "a few words")


CASES: dict[str, tuple[Attempt, Attempt, Attempt]] = {
    # What has been before, what is tried, and what others do before the repeat.
    "set_state": (_nothing_yet, lambda clerk: clerk.set_state("open"), _nothing_yet),
    "expected_version": (
        _nothing_yet,
        lambda clerk: clerk.set_state("after", expected_version=1),
        lambda clerk: clerk.set_state("after"),
    ),
    "update_state": (_nothing_yet, lambda clerk: clerk.update_state(_raise), _nothing_yet),
    "readonly": (_nothing_yet, _set_state_for_a_reader, _nothing_yet),
    "sql": (
        _nothing_yet,
        lambda clerk: clerk.sql("INSERT INTO log VALUES (?)", "x"),
        _make_table,
    ),
    "remote": (_nothing_yet, _set_state_elsewhere, _nothing_yet),
    "step": (_nothing_yet, lambda clerk: clerk.step("pay", _pay), _nothing_yet),
    "step, typed": (_nothing_yet, lambda clerk: clerk.step("ask", _ask), _nothing_yet),
    "step, no JSON": (_nothing_yet, lambda clerk: clerk.step("get", _object), _nothing_yet),
    "append_message": (_nothing_yet, _append_below_unknown, _append),
    "add_compaction": (
        _nothing_yet,
        lambda clerk: clerk.session.add_compaction("s", "m1", "m1"),
        _append,
    ),
    "append_context_block": (
        _lengthen_memory,
        lambda clerk: clerk.session.append_context_block("memory", "and more of it"),
        _shorten_memory,
    ),
    "a block kept elsewhere": (
        _nothing_yet,
        lambda clerk: clerk.session.append_context_block("far", "more"),
        _nothing_yet,
    ),
    "a prompt kept elsewhere": (_append, _clear_with_a_prompt_kept_elsewhere, _nothing_yet),
    "fork": (_nothing_yet, lambda clerk: clerk.sessions.fork("", "m1", "fork"), _append),
}


async def _seen(attempt: Attempt, clerk: Clerk) -> tuple[str, str, dict[str, Any]]:
    try:
        await attempt(clerk)
    except Exception as error:
        plain = {name: value for name, value in vars(error).items() if name in ("code", "where")}
        details = error.details_map if isinstance(error, AgentRuntimeError) else plain
        await clerk.set_state("after")
        return type(error).__name__, str(error), dict(details)
    return "", "", {}


@pytest.mark.parametrize("is_after_the_next", [False, True])
@pytest.mark.parametrize("case", CASES)
async def test_a_repeat_gets_the_error_that_the_first_run_got(
    run: Run, case: str, *, is_after_the_next: bool
) -> None:
    """Wherever the crash came, and whatever others have made possible meanwhile."""
    before, attempt, meanwhile = CASES[case]
    first: list[object] = []

    async def crash(clerk: Clerk) -> None:
        if is_after_the_next:
            first.append(await _seen(attempt, clerk))
            raise Crash
        try:
            await attempt(clerk)
        except Exception:
            raise Crash from None

    await run(before, "before")
    with pytest.raises(Crash):
        await run(crash)
    World.works = True
    await run(meanwhile, "meanwhile")
    seen = await run(lambda clerk: _seen(attempt, clerk))

    assert seen[0] != ""
    assert first in ([], [seen])
    assert await run(lambda clerk: _seen(attempt, clerk)) == seen


async def test_an_error_of_the_runtime_is_no_answer(run: Run, storage: SqliteStorage) -> None:
    """A repeat tries again what the database, or another agent's silence, has kept from being."""

    async def silent(key: str) -> Json:
        raise CallTimeoutError("no answer")

    async def answered(key: str) -> Json:
        return "answer"

    with crashing_at_write(storage, 1, is_before=True), pytest.raises(Crash):
        await run(_append)
    await run(_append)
    with pytest.raises(CallTimeoutError):
        await run(lambda clerk: current_invocation(clerk).effect("call", None, silent), "call-2")

    assert await run(
        lambda clerk: current_invocation(clerk).effect("call", None, answered), "call-2"
    ) == ("answer")


async def test_what_a_stopped_handler_ends_with_is_no_answer(run: Run) -> None:
    """A step that fails because it is cancelled has not answered; a repeat runs it anew."""
    begun = asyncio.Event()

    async def wait() -> Json:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ShopError(499, where="cut off")

    async def done() -> Json:
        return "done"

    stopped = asyncio.create_task(run(lambda clerk: clerk.step("wait", wait)))
    await begun.wait()
    stopped.cancel()
    with pytest.raises(ShopError):
        await stopped

    assert await run(lambda clerk: clerk.step("wait", done)) == "done"


async def test_a_compaction_that_stored_nothing_is_recalled(run: Run) -> None:
    """The summarizer is not asked again, though it would answer by now."""
    asked: list[int] = []

    async def compact(
        messages: Sequence[Mapping[str, Json]], context: CompactContext | None = None
    ) -> CompactResult | None:
        asked.append(len(messages))
        return CompactResult("m1", "m1", "in short") if World.works else None

    async def handle(clerk: Clerk) -> object:
        session = Session.create(clerk.session_store).on_compaction(compact)
        await session.append_message(u("m1"))
        return await session.compact()

    assert await run(handle) is None
    World.works = True
    assert await run(handle) is None
    assert asked == [1]


async def test_a_skill_that_was_not_loaded_is_not_unloaded_by_a_repeat(run: Run) -> None:
    """The handler went on as if it was not, and it stays loaded."""

    async def unload(clerk: Clerk) -> bool:
        session = clerk.get_session("skilled")
        skills = InMemorySkillProvider({"pirate": ("Talk like a pirate.", None)})
        await session.add_context("skills", provider=skills)
        return await session.unload_skill("skills", "pirate")

    async def load(clerk: Clerk) -> None:
        message = with_parts("m1", load_part("pirate", "Talk like a pirate."))
        await clerk.get_session("skilled").append_message(message)

    assert not await run(unload)
    await run(load, "meanwhile")
    assert not await run(unload)


async def test_another_effect_where_an_error_is_recorded_is_refused(run: Run) -> None:
    """Two different runs are never mixed."""
    with pytest.raises(StateRejectedError):
        await run(lambda clerk: clerk.set_state("one"))

    with pytest.raises(HandlerDivergedError):
        await run(lambda clerk: clerk.set_state("two"))


def test_an_unknown_error_is_named() -> None:
    """A class that cannot be found again becomes a HandlerError that says which it was."""

    class HiddenError(Exception):
        pass

    with pytest.raises(HandlerError, match=r"HiddenError: what it said") as caught:
        outcome_of(error_text(HiddenError("what it said")))
    assert caught.value.details_map["error"] == "what it said"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        TimeoutError(),
        FileNotFoundError(2, "No such file"),
        OverflowError(10**40),
        ValueError("half \ud83d", float("nan")),
        ShopError(1, where="w"),
        StorageUnavailableError("locked", path="p"),
        NotSerializableError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_of_its_class_again(error: Exception) -> None:
    """With what it says, and so that it can be caught as before."""
    with pytest.raises(type(error)) as caught:
        outcome_of(error_text(error))

    assert str(caught.value) == str(error).encode("utf-8", "replace").decode()


def test_an_error_group_is_named() -> None:
    """Its members cannot be recorded as they are."""
    group = ExceptionGroup("many", [ValueError("one")])

    with pytest.raises(HandlerError, match="ExceptionGroup: many"):
        outcome_of(error_text(group))
