"""Destroying agents: all of one life goes, none of it is seen in the next."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import timedelta
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from temporalio.client import WorkflowExecutionStatus

from agent_runtime import Agent, callable
from agent_runtime.agent_connection import Connection
from agent_runtime.compaction.compact_function import create_compact_function
from agent_runtime.errors import (
    AgentDestroyedError,
    IdempotencyConflictError,
    VersionConflictError,
)
from agent_runtime.gateway.client_socket import ClientSocket
from agent_runtime.gateway_client.gateway_client import GatewayClient
from agent_runtime.handlers import runner
from agent_runtime.hosting.destruction import destroy_rows
from agent_runtime.identity import AgentRef, compaction_workflow_id, handlers_workflow_id
from agent_runtime.mutation import AgentBatch, Mutation, MutationKind, Receipt, call_value
from agent_runtime.session.message import text_message
from agent_runtime.session.session import Session
from tests.conftest import Serve, Served
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import live_gateway, next_frame

WAIT = timedelta(seconds=60)
URL = "/agents/mortal/a"


class Mortal(Agent):
    """Can be destroyed, from inside and outside."""

    initial_state = {"count": 0}
    late: ClassVar[dict[str, list[str]]] = defaultdict(list)
    begun: ClassVar[dict[str, int]] = defaultdict(int)

    def configure_session(self, session: Session) -> Session:
        """Keep the prompt, which is written when it is first asked for."""
        return session.with_context("memory").with_cached_prompt()

    def __init__(self) -> None:
        self.remembered: list[str] = []

    @callable()
    async def note(self, text: str) -> list[str]:
        """Keep a text in memory and in the own database; return all in memory."""
        await self.sql("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
        await self.sql("INSERT INTO notes VALUES (?)", text)
        self.remembered.append(text)
        return self.remembered

    @callable()
    async def tables(self) -> list[Any]:
        """Return the names of the own tables."""
        rows = await self.sql("SELECT name FROM sqlite_master WHERE name = 'notes'")
        return [row["name"] for row in rows]

    @callable()
    async def say(self, text: str) -> int:
        """Add to the conversation and return how long it is."""
        await self.session.append_message(text_message("user", text, id=text))
        return await self.session.get_path_length()

    @callable()
    async def die(self) -> str:
        """Destroy itself and return something all the same."""
        await self.destroy()
        return "gone"

    @callable()
    async def say_goodbye(self) -> str:
        """Tell the clients, and go."""
        await self.broadcast({"type": "goodbye"})
        return await self.die()

    @callable()
    async def die_busily(self) -> list[str]:
        """Try everything after the end and return how each was refused."""
        await self.destroy()
        attempts = [
            self.set_state({"count": 99}),
            self.sql("CREATE TABLE notes (text TEXT)"),
            self.sql("SELECT 1"),
            self.broadcast("late"),
            self.step("late", _nothing),
            self.session.append_message(text_message("user", "late", id="m")),
            self.session.freeze_system_prompt(),
            self.destroy(),
        ]
        refusals = []
        for attempt in attempts:
            try:
                await attempt
            except AgentDestroyedError as error:
                refusals.append(type(error).__name__)
        return refusals

    @callable()
    async def fail_at_the_end(self) -> None:
        """Destroy itself and raise."""
        await self.destroy()
        raise ValueError("last words")

    @callable()
    async def linger(self) -> None:
        """Never return, and write when it is stopped."""
        self.begun[self.name] += 1
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await self.set_state({"count": 99})
            except AgentDestroyedError:
                self.late[self.name].append("refused")

    @callable()
    async def destroy_other(self, name: str) -> int:
        """Destroy another agent."""
        return (await self.agent("Mortal", name).destroy()).version

    async def on_close(
        self, connection: Connection, code: int, reason: str, was_clean: bool
    ) -> None:
        """Note it, which would make a new agent."""
        await self.set_state({"count": -1})


class Undying(Agent):
    """Destroys itself whenever it is told of a change."""

    initial_state = {"count": 0}
    told: ClassVar[dict[str, list[int]]] = defaultdict(list)

    async def on_state_changed(self, state: Any, source: str) -> None:
        """Go at ten."""
        self.told[self.name].append(state["count"])
        if state["count"] == 10:
            await self.destroy()
            await self.set_state({"count": 11})


class Forgetful(Agent):
    """Has its conversation summarized, which takes until somebody says so."""

    is_asked: ClassVar[asyncio.Event]
    may_answer: ClassVar[asyncio.Event]

    def configure_session(self, session: Session) -> Session:
        """Summarize what is longer than a few words."""

        async def summarize(prompt: str) -> str:
            self.is_asked.set()
            await self.may_answer.wait()
            return "what was said"

        compact = create_compact_function(
            summarize, protect_head=1, min_tail_messages=1, tail_token_budget=60
        )
        return session.on_compaction(compact).compact_after(250)

    @callable()
    async def say(self, count: int) -> None:
        """Add long messages."""
        for number in range(count):
            await self.session.append_message(text_message("user", "x" * 400, id=f"m{number}"))


@pytest.fixture(autouse=True)
def _has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let handlers that have destroyed their agent end on a slow machine too."""
    monkeypatch.setattr(runner, "_FAREWELL_SECONDS", 60.0)


async def _nothing() -> None:
    return None


def _name() -> str:
    return uuid4().hex[:8]


def _files(served: Served) -> list[str]:
    return [path.name for path in served.data_dir.glob("sql-*")]


async def test_w269_a_destroyed_agent_leaves_nothing(serve: Serve) -> None:
    """A plain destroy leaves no state, history, receipt, call, database or note to finish it."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", "a")
        await agent.set_state({"count": 5}, idempotency_key="k")
        await agent.call("note", "old", idempotency_key="c")
        assert _files(served) != []

        receipt = await agent.destroy()

        assert receipt == Receipt(1)
        assert await served.runtime.storage.read_state(AgentRef("Mortal", "a")) is None
        assert await served.runtime.storage.list_agents() == []
        assert await agent.state_history() == []
        assert _files(served) == []
        assert await served.runtime.storage.read_unfinished(2**60, 1) == []


async def test_the_next_life_is_fresh(serve: Serve) -> None:
    """State, memory, database and keys begin anew."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5}, idempotency_key="k")
        await agent.call("note", "old", idempotency_key="c")
        assert await agent.call("say", "old") == 1
        await agent.destroy()

        assert (await agent.get_state()).value == {"count": 0}
        assert await agent.call("tables") == []
        assert await agent.call("say", "new") == 1
        assert await agent.call("note", "new", idempotency_key="c") == ["new"]
        assert await agent.set_state({"count": 1}, idempotency_key="k") == Receipt(2)


async def test_a_repeat_does_not_destroy_the_next(serve: Serve) -> None:
    """The key of a destroy outlives the agent; the first receipt is given again."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5})
        first = await agent.destroy(idempotency_key="d")
        await agent.set_state({"count": 6})
        again = await agent.destroy(idempotency_key="d")

        assert (first, again) == (Receipt(1), Receipt(1, applied=False, duplicate=True))
        assert (await agent.get_state()).value == {"count": 6}


async def test_a_destroy_may_be_refused(serve: Serve) -> None:
    """Another version than expected, or a key of a change: nothing is destroyed."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5}, idempotency_key="k")
        with pytest.raises(VersionConflictError):
            await agent.destroy(expected_version=7)
        with pytest.raises(IdempotencyConflictError):
            await agent.destroy(idempotency_key="k")

        assert (await agent.get_state()).value == {"count": 5}
        assert await agent.destroy(expected_version=1) == Receipt(1)


async def test_w267_the_call_that_destroys_has_its_result(serve: Serve) -> None:
    """The handler goes on to its end, its caller gets the result, and nothing is left to do."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5})

        assert await agent.call("die", timeout=WAIT) == "gone"

        async def is_finished() -> None:
            assert await served.runtime.storage.read_unfinished(2**60, 1) == []

        await assert_eventually(is_finished)
        assert await served.runtime.storage.list_agents() == []
        assert (await agent.get_state()).value == {"count": 0}


async def test_a_call_that_destroys_may_fail(serve: Serve) -> None:
    """What it raises after the destroy reaches its caller; the agent is gone all the same."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5})
        with pytest.raises(Exception, match="last words"):
            await agent.call("fail_at_the_end", timeout=WAIT)

        assert await served.runtime.storage.list_agents() == []


async def test_nothing_is_done_for_a_destroyed_agent(serve: Serve) -> None:
    """Every effect of the handler that goes on is refused, and none makes a new agent."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 5})
        await agent.call("note", "old")

        assert await agent.call("die_busily", timeout=WAIT) == ["AgentDestroyedError"] * 8
        assert await served.runtime.storage.list_agents() == []
        assert _files(served) == []


async def test_a_repeated_call_does_not_destroy_the_next(serve: Serve) -> None:
    """Its key is known in the next life: a late repeat gets the outcome of the first."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        assert await agent.call("die", idempotency_key="once", timeout=WAIT) == "gone"
        await agent.set_state({"count": 6})

        assert await agent.call("die", idempotency_key="once", timeout=WAIT) == "gone"
        assert (await agent.get_state()).value == {"count": 6}


async def test_handlers_are_stopped_and_their_callers_told(serve: Serve) -> None:
    """What runs is cancelled, what it writes then is refused, and who waits gets an error."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        waiting = asyncio.create_task(agent.call("linger", timeout=WAIT))

        async def has_begun() -> None:
            assert Mortal.begun[agent.ref.name] == 1

        await assert_eventually(has_begun)
        await agent.destroy()
        with pytest.raises(AgentDestroyedError):
            await waiting

        async def is_stopped() -> None:
            assert Mortal.late[agent.ref.name] == ["refused"]
            identity = handlers_workflow_id(served.task_queue, agent.ref)
            workflow = await served.client.temporal.get_workflow_handle(identity).describe()
            assert workflow.status is WorkflowExecutionStatus.COMPLETED

        await assert_eventually(is_stopped)
        assert (await agent.get_state()).value == {"count": 0}
        assert await agent.call("note", "new", timeout=WAIT) == ["new"]


async def test_a_handler_of_another_worker_is_stopped(serve: Serve) -> None:
    """It learns of the end by itself, and cannot write to the next life before it does."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        waiting = asyncio.create_task(agent.call("linger", timeout=WAIT))

        async def has_begun() -> None:
            assert Mortal.begun[agent.ref.name] == 1

        await assert_eventually(has_begun)
        destroy = Mutation("d", MutationKind.DESTROY)
        await destroy_rows(served.runtime.storage, agent.ref, destroy)  # as another process would
        assert (await agent.set_state({"count": 1})).version == 1
        with pytest.raises(AgentDestroyedError):
            await waiting

        async def is_stopped() -> None:
            assert Mortal.late[agent.ref.name] == ["refused"]

        await assert_eventually(is_stopped)
        assert (await agent.get_state()).value == {"count": 1}
        assert await agent.call("note", "new", timeout=WAIT) == ["new"]


async def test_a_change_hook_may_destroy(serve: Serve) -> None:
    """The hook's agent goes; changes that were not told yet are not told any more."""
    async with serve(Undying) as served:
        agent = served.client.agent("Undying", _name())
        await agent.set_state({"count": 10})

        async def is_gone() -> None:
            assert await served.runtime.storage.list_agents() == []

        await assert_eventually(is_gone)
        assert (await agent.get_state()).value == {"count": 0}

        async def is_told() -> None:
            assert Undying.told[agent.ref.name] == [10, 0]

        await assert_eventually(is_told)


async def test_a_summary_that_comes_late_is_dropped(serve: Serve) -> None:
    """A compaction under way stores nothing of the former conversation, and makes no agent."""
    Forgetful.is_asked, Forgetful.may_answer = asyncio.Event(), asyncio.Event()
    async with serve(Forgetful) as served:
        agent = served.client.agent("Forgetful", _name())
        await agent.call("say", 8, timeout=WAIT)
        async with asyncio.timeout(60):
            await Forgetful.is_asked.wait()
        await agent.destroy()
        Forgetful.may_answer.set()

        identity = compaction_workflow_id(served.task_queue, agent.ref, "", "")
        job = served.client.temporal.get_workflow_handle(identity)

        async def job_has_ended() -> None:
            assert (await job.describe()).status is WorkflowExecutionStatus.COMPLETED

        await assert_eventually(job_has_ended)
        assert await served.runtime.storage.list_agents() == []


async def test_an_agent_destroys_another_once(serve: Serve) -> None:
    """From a handler it is an effect like others."""
    async with serve(Mortal) as served:
        one, other = (served.client.agent("Mortal", _name()) for _ in range(2))
        await other.set_state({"count": 5})

        assert await one.call("destroy_other", other.ref.name, timeout=WAIT) == 1
        assert (await other.get_state()).value == {"count": 0}


async def test_a_batch_is_done_in_order(serve: Serve) -> None:
    """What stands after a destroy in a batch is done to the next agent; in a repeat only that."""
    async with serve(Mortal) as served:
        host, ref = served.runtime.host, AgentRef("Mortal", _name())
        batch = AgentBatch(
            ref,
            [
                Mutation("before", MutationKind.SET, {"count": 1}),
                Mutation("destroy", MutationKind.DESTROY),
                Mutation("after", MutationKind.SET, {"count": 2}),
            ],
        )
        first = await host.commit_batch(batch)
        again = await host.commit_batch(batch)

        assert first == [Receipt(1), Receipt(1), Receipt(1)]
        assert isinstance(again[0], AgentDestroyedError)
        repeated = Receipt(1, applied=False, duplicate=True)
        assert again[1:] == [repeated, repeated]
        snapshot = await served.client.agent(*ref).get_state()
        assert (snapshot.value, snapshot.version) == ({"count": 2}, 1)


async def test_w268_a_destroy_cut_short_is_finished_at_the_next_wake(serve: Serve) -> None:
    """A process that died between the steps leaves a note; the next contact does the rest."""
    async with serve(Mortal) as served:
        storage, ref = served.runtime.storage, AgentRef("Mortal", _name())
        agent = served.client.agent(*ref)
        await agent.call("note", "old")
        number = await served.runtime.host.agent_id(ref)
        await _add_call(served, ref, "cut")
        # The first step, and no more: as if the process had died right after it.
        destroy = Mutation("d", MutationKind.DESTROY)
        await destroy_rows(storage, ref, destroy, agent_id=number, without_call="cut")
        assert len(_files(served)) >= 1

        assert await agent.call("tables", timeout=WAIT) == []

        assert await storage.read_unfinished(2**60, 1, ref=ref) == []
        outcome = (await storage.read_invocations([(ref, "cut")]))[ref, "cut"].outcome
        assert outcome is not None and "AgentDestroyedError" in outcome
        assert not [name for name in _files(served) if f"-{number}.db" in name]


async def _add_call(served: Served, ref: AgentRef, key: str) -> None:
    call = Mutation(key, MutationKind.CALL, call_value("linger", []))
    [outcome] = await served.runtime.host.commit_batch(AgentBatch(ref, [call]))
    assert isinstance(outcome, Receipt)


async def test_a_subscription_goes_on_with_the_next_life(serve: Serve) -> None:
    """The new agent's states are told from its first version on."""
    async with serve(Mortal) as served:
        agent = served.client.agent("Mortal", _name())
        await agent.set_state({"count": 1})
        async with agent.subscribe() as states:
            async with asyncio.timeout(60):
                first = await anext(states)
                await agent.destroy()
                await agent.set_state({"count": 2})
                second = await anext(states)

        assert [(s.version, s.value["count"]) for s in (first, second)] == [(1, 1), (1, 2)]


async def test_clients_are_dropped_without_a_close(serve: Serve) -> None:
    """The socket drops, no close hook runs, and who comes back meets a new agent."""
    async with live_gateway(serve, Mortal) as live:
        agent = live.served.client.agent("Mortal", "a")
        await agent.set_state({"count": 5})
        async with live.connect(URL) as socket:
            await next_frame(socket, "cf_agent_mcp_servers")
            await agent.destroy()
            await socket.wait_closed()
            assert socket.close_code == 1006
        assert await live.served.runtime.storage.list_agents() == []
        async with live.connect(URL) as socket:
            frame = await next_frame(socket, "cf_agent_state")
            assert frame["state"] == {"count": 0}


async def test_clients_get_what_was_on_its_way(serve: Serve) -> None:
    """What was sent before the end, the caller's answer, and errors for calls that were stopped."""
    async with live_gateway(serve, Mortal) as live:
        async with live.connect(URL) as one, live.connect(URL) as other:
            earlier = Mortal.begun["a"]
            await one.send(_call_frame("1", "linger"))

            async def lingers() -> None:
                assert Mortal.begun["a"] == earlier + 1

            await assert_eventually(lingers)
            await next_frame(other, "cf_agent_mcp_servers")
            await other.send(_call_frame("2", "say_goodbye"))
            heard = [await next_frame(socket, "goodbye") for socket in (one, other)]
            stopped, answer = await next_frame(one, "rpc"), await next_frame(other, "rpc")
            await asyncio.gather(one.wait_closed(), other.wait_closed())

        assert heard == [{"type": "goodbye"}] * 2
        assert (stopped["success"], "destroyed" in stopped["error"]) == (False, True)
        assert (answer["success"], answer["result"]) == (True, "gone")
        assert (one.close_code, other.close_code) == (1006, 1006)


def _call_frame(identity: str, method: str) -> str:
    return f'{{"type":"rpc","id":"{identity}","method":"{method}","args":[]}}'


async def test_a_gateway_s_client_goes_on_with_the_next_life(serve: Serve) -> None:
    """It connects again by itself and tells the new agent's states from the first version on."""
    async with live_gateway(serve, Mortal) as live, GatewayClient(live.url) as client:
        agent = live.served.client.agent("Mortal", "a")
        for count in (1, 2, 3):
            await agent.set_state({"count": count})
        async with client.agent("Mortal", "a").subscribe() as states, asyncio.timeout(60):
            first = await anext(states)
            await agent.destroy()
            second = await anext(states)

        assert (first.version, first.value) == (3, {"count": 3})
        assert (second.version, second.value) == (1, {"count": 0})


async def test_a_client_that_comes_as_its_agent_is_destroyed_makes_none(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is refused, `on_close` is not run, and it meets the next agent later."""
    async with live_gateway(serve, Mortal) as live:
        add = live.gateway.feed.add

        async def add_too_late(socket: ClientSocket) -> object:
            await live.served.client.agent("Mortal", "a").destroy()
            return await add(socket)

        monkeypatch.setattr(live.gateway.feed, "add", add_too_late)
        async with live.connect(URL) as socket:
            await socket.wait_closed()

        assert socket.close_code == 1011
        assert await live.gateway.storage.list_agents() == []
        assert await live.gateway.storage.read_inbox_marks([1, 2]) == {}
