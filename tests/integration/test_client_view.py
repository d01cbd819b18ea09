"""Agents that show clients a view of their state, or take no states from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from pydantic import BaseModel
from websockets.asyncio.client import ClientConnection

from agent_runtime import Agent, GatewayClient, callable
from agent_runtime.errors import ClientViewError, StateRejectedError
from agent_runtime.gateway_client.json_patch import apply_patch
from agent_runtime.json_value import Json
from tests.conftest import Serve
from tests.support.eventually import assert_eventually
from tests.support.live_gateway import LiveGateway, live_gateway, next_frame

API = "/api/agents/{}/a/state"
SECRET = "the-card-that-nobody-sees"


class Table(BaseModel):
    """A game with a hidden part."""

    score: int = 0
    deck: list[str] = [SECRET]


class Dealer(Agent[Table]):
    """Shows everything but the deck, and takes no states of clients."""

    initial_state = Table()

    def client_view(self, state: Table) -> Json:
        """Hide the deck; a score of 13 cannot be shown."""
        if state.score == 13:
            raise ValueError(f"unlucky: {state.deck}")
        return {"score": state.score, "cards": len(state.deck), "table": self.name}

    @callable()
    async def play(self, score: int, card: str = SECRET) -> None:
        """Change the score and the deck's only card."""
        await self.set_state(Table(score=score, deck=[card]))

    @callable()
    async def score(self, score: int) -> None:
        """Change the score alone."""
        await self.merge_state({"score": score})


class OpenDealer(Dealer):
    """Takes the score of what clients send, but no negative one, and no more than a hundred."""

    @staticmethod
    def client_view(state: Table) -> Json:
        """Show the score."""
        return {"score": state.score}

    def state_from_client(self, state: Table, sent: Json) -> Table:
        """Keep the deck."""
        if sent["score"] == -2:
            raise KeyError(state.deck[0])
        if sent["score"] == -3:
            return state.model_copy(update={"deck": state.deck[0]})
        if sent["score"] < 0:
            raise StateRejectedError("below zero")
        assert state == self.state
        state.score = min(sent["score"], 100)
        return state


class Speaker(Agent):
    """Is changed by calls alone."""

    initial_state = {"volume": 1}
    may_clients_write = False

    @callable()
    async def louder(self) -> int:
        """Add one."""
        receipt = await self.update_state(lambda state: {"volume": state["volume"] + 1})
        return receipt.version


@pytest.fixture
async def live(serve: Serve) -> AsyncIterator[LiveGateway]:
    """A gateway of all of them."""
    async with live_gateway(serve, Dealer, OpenDealer, Speaker) as started:
        yield started


async def frames_until(socket: ClientConnection, kind: str) -> list[Any]:
    """Return the frames up to one of a type, of which none may tell the secret."""
    found: list[Any] = []
    async with asyncio.timeout(60):
        while not found or found[-1]["type"] != kind:
            text = await socket.recv()
            assert SECRET not in str(text)
            found.append(orjson.loads(text))
    return found


async def states_until(socket: ClientConnection, score: int) -> list[Any]:
    """Return the states that a stock client is told up to one with a score."""
    found: list[Any] = []
    while not found or found[-1]["score"] != score:
        found.append((await frames_until(socket, "cf_agent_state"))[-1]["state"])
    return found


async def send(socket: ClientConnection, **frame: Any) -> None:
    """Send a frame."""
    await socket.send(orjson.dumps(frame).decode())


async def send_state(socket: ClientConnection, state: Json) -> None:
    """Send a state as stock clients do."""
    await send(socket, type="cf_agent_state", state=state)


async def mutate(socket: ClientConnection, kind: str, value: Json = None) -> Any:
    """Send a mutation and return its answer."""
    await send(socket, type="agent_runtime_mutate", id="m", kind=kind, value=value)
    async with asyncio.timeout(60):
        while True:
            answer = orjson.loads(await socket.recv())
            if answer.get("id") == "m":
                return answer


async def test_a_client_is_greeted_with_the_view(live: LiveGateway) -> None:
    """The deck stays in the agent."""
    async with live.connect("/agents/dealer/a") as socket:
        frames = await frames_until(socket, "cf_agent_mcp_servers")

    assert {"score": 0, "cards": 1, "table": "a"} in [frame.get("state") for frame in frames]


async def test_stock_clients_are_told_new_views_only(live: LiveGateway) -> None:
    """A change of the hidden part alone is none to them."""
    agent = live.served.client.agent("Dealer", "a")
    async with live.connect("/agents/dealer/a") as socket:
        await frames_until(socket, "cf_agent_mcp_servers")
        await agent.call("play", 1)
        await agent.call("play", 1, "another card")
        await agent.call("score", 1)
        await agent.call("score", 2)
        states = await states_until(socket, 2)

    assert [state["score"] for state in states] == [1, 2]
    assert (await agent.get_state()).value == {"score": 2, "deck": ["another card"]}


async def test_ours_are_told_every_version(live: LiveGateway) -> None:
    """Else they could not say which version they build on; deltas are between views."""
    agent = live.served.client.agent("Dealer", "a")
    async with live.connect("/agents/dealer/a?agent_runtime=1&deltas=1") as socket:
        greeting = await frames_until(socket, "cf_agent_mcp_servers")
        [told] = [frame for frame in greeting if frame["type"] == "cf_agent_state"]
        version, state = told["version"], told["state"]
        versions = [version]
        for score, card in ((1, "a"), (1, "b"), (2, "b")):
            await agent.call("play", score, card)
        while state["score"] != 2:
            frame = orjson.loads(await socket.recv())
            versions.append(frame["version"])
            if frame["type"] == "cf_agent_state":
                state = frame["state"]
            else:
                assert frame["from_version"] == versions[-2]
                state = apply_patch(state, frame["patch"])

    assert versions == list(range(version, version + 4))
    assert state == {"score": 2, "cards": 1, "table": "a"}


async def test_a_resumed_client_gets_views(live: LiveGateway) -> None:
    """The first of them whole: what it knows may be a view of other code."""
    agent = live.served.client.agent("Dealer", "a")
    path = "/agents/dealer/a?agent_runtime=1&deltas=1"
    async with live.connect(path) as socket:
        greeting = await frames_until(socket, "cf_agent_mcp_servers")
    version, life = greeting[1]["version"], greeting[0]["life"]
    await agent.call("score", 1)
    await agent.call("play", 2, SECRET)
    resumed = f"{path}&resume_from={version}&life={life}"
    async with live.connect(resumed) as socket:
        later = await frames_until(socket, "cf_agent_mcp_servers")
    async with live.connect(resumed.replace(f"={version}&", f"={version + 2}&")) as socket:
        same = await frames_until(socket, "cf_agent_mcp_servers")

    assert later[1]["state"] == {"score": 1, "cards": 1, "table": "a"}
    assert [frame["version"] for frame in later[1:-1]] == [version + 1, version + 2]
    assert [frame.get("state") for frame in same[1:-1]] == [{"score": 2, "cards": 1, "table": "a"}]


async def test_a_client_s_state_is_refused_where_there_is_a_view(live: LiveGateway) -> None:
    """It would wipe what the client does not see."""
    async with (
        live.connect("/agents/dealer/a") as stock,
        live.connect("/agents/dealer/a?agent_runtime=1") as ours,
    ):
        await send_state(stock, {"score": 5})
        refusal = await next_frame(stock, "cf_agent_state_error")
        answers = [
            await mutate(ours, kind, {"score": 5, "deck": []}) for kind in ("set", "merge", "reset")
        ]

    assert refusal["error"] == "State update rejected"
    assert {answer["error"]["type"] for answer in answers} == {"StateRejectedError"}
    state = await live.served.client.agent("Dealer", "a").get_state()
    assert state.value == {"score": 0, "deck": [SECRET]}


async def test_a_client_named_server_is_a_client(live: LiveGateway) -> None:
    """Its id would be the source of code's own changes."""
    async with live.connect("/agents/dealer/a?_pk=server") as stock:
        await send_state(stock, {"score": 5, "deck": []})

        refusal = await next_frame(stock, "cf_agent_state_error")

    assert refusal["error"] == "State update rejected"


async def test_http_shows_the_view(live: LiveGateway) -> None:
    """Now, at earlier versions and in the history."""
    path = API.format("Dealer")
    before = await live.http.get(path)
    agent = live.served.client.agent("Dealer", "a")
    await agent.call("play", 1)
    await agent.call("score", 2)
    newest = await live.http.get(path)
    earlier = await live.http.get(path, params={"version": 1})
    whole = await live.http.get("/api/agents/Dealer/a/history")
    part = await live.http.get("/api/agents/Dealer/a/history", params={"limit": 1})

    answers = (before, newest, earlier, whole, part)
    assert all(answer.status_code == 200 and SECRET not in answer.text for answer in answers)
    assert [answer.json()["score"] for answer in answers[:3]] == [0, 2, 1]
    entries = whole.json()["history"]
    assert [entry["version"] for entry in entries] == list(range(len(entries), 0, -1))
    assert [entry["value"]["score"] for entry in entries][:2] == [2, 1]
    assert all(entry["is_full"] for entry in entries)
    assert part.json()["history"] == entries[:1]


async def test_http_writes_are_refused_where_there_is_a_view(live: LiveGateway) -> None:
    """A problem says what to do instead; Python services write on."""
    path = API.format("Dealer")
    answers = [
        await live.http.put(path, json={"score": 1, "deck": []}),
        await live.http.patch(path, json={"score": 1}),
        await live.http.delete(path),
    ]
    agent = live.served.client.agent("Dealer", "a")
    await agent.merge_state({"score": 7})

    assert [answer.status_code for answer in answers] == [422, 422, 422]
    assert all(answer.json()["type"].endswith(":StateRejectedError") for answer in answers)
    assert (await agent.get_state()).value == {"score": 7, "deck": [SECRET]}


async def test_a_client_s_state_goes_through_state_from_client(live: LiveGateway) -> None:
    """What is hidden stays, and the sender is told what became of its state."""
    agent = live.served.client.agent("OpenDealer", "a")
    async with (
        live.connect("/agents/open-dealer/a") as sender,
        live.connect("/agents/open-dealer/a") as other,
    ):
        await frames_until(sender, "cf_agent_mcp_servers")
        await frames_until(other, "cf_agent_mcp_servers")
        await send_state(sender, {"score": 500})
        told = await states_until(other, 100)
        echoed = await states_until(sender, 100)

    assert told == echoed == [{"score": 100}]
    assert (await agent.get_state()).value == {"score": 100, "deck": [SECRET]}
    [entry, *_] = await agent.state_history(limit=1)
    assert (entry.kind, entry.is_full) == ("set", True)


async def test_a_merge_is_made_in_the_view(live: LiveGateway) -> None:
    """The hook is given the whole view that the client wants."""
    path = API.format("OpenDealer")
    patched = await live.http.patch(path, json={"seen": True})
    patched_again = await live.http.patch(path, json={"score": 3})
    replaced = await live.http.put(path, json={"score": 4})
    async with live.connect("/agents/open-dealer/a?agent_runtime=1") as ours:
        merged = await mutate(ours, "merge", {"score": 5})
        reset = await mutate(ours, "reset")

    assert [one.status_code for one in (patched, patched_again, replaced)] == [200, 200, 200]
    assert merged["applied"]
    assert reset["error"]["type"] == "StateRejectedError"
    history = await live.served.client.agent("OpenDealer", "a").state_history()
    assert [entry.value["score"] for entry in history][:4] == [5, 4, 3, 0]
    assert [entry.source for entry in history][1:4] == ["http", "http", "http"]


async def test_refusals_of_state_from_client_tell_no_secrets(live: LiveGateway) -> None:
    """What it raises or returns by mistake stays in the log; a refusal of its own is told."""
    path = API.format("OpenDealer")
    refused = await live.http.put(path, json={"score": -1})
    failed = [await live.http.put(path, json={"score": score}) for score in (-2, -3)]

    assert (refused.status_code, refused.json()["detail"]) == (422, "below zero")
    assert [each.status_code for each in failed] == [422, 422]
    assert SECRET not in "".join(each.text for each in failed)


async def test_concurrent_states_of_clients_lose_nothing(live: LiveGateway) -> None:
    """The hook decides over the present state."""
    agent = live.served.client.agent("OpenDealer", "a")
    path = API.format("OpenDealer")
    await asyncio.gather(
        *(live.http.put(path, json={"score": score}) for score in range(1, 6)),
        agent.merge_state({"deck": ["new"]}),
    )

    state = await agent.get_state()
    assert state.value["deck"] == ["new"]
    assert state.value["score"] in range(1, 6)


async def test_a_view_that_fails_shows_nothing(
    live: LiveGateway, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients stay connected and see the next state; the reason is in the log alone."""
    agent = live.served.client.agent("Dealer", "a")
    async with (
        live.connect("/agents/dealer/a") as before,
        live.connect("/agents/dealer/a?agent_runtime=1&deltas=1") as ours,
    ):
        await frames_until(before, "cf_agent_mcp_servers")
        await frames_until(ours, "cf_agent_mcp_servers")
        await agent.call("play", 13)
        answer = await live.http.get(API.format("Dealer"))
        history = await live.http.get("/api/agents/Dealer/a/history")
        async with live.connect("/agents/dealer/a") as late:
            greeting = await frames_until(late, "cf_agent_mcp_servers")
            async with live.connect("/agents/open-dealer/a") as other:
                assert await frames_until(other, "cf_agent_state")
            await agent.call("play", 2)
            told = [await states_until(one, 2) for one in (before, late)]
        frame = orjson.loads(await ours.recv())

    assert "stateFollows" not in greeting[0]
    assert [frame["type"] for frame in greeting] == ["cf_agent_identity", "cf_agent_mcp_servers"]
    assert [len(states) for states in told] == [1, 1]
    assert (frame["type"], frame["version"]) in (("agent_runtime_delta", 3), ("cf_agent_state", 3))
    for one in (answer, history):
        assert (one.status_code, SECRET in one.text) == (500, False)
        assert one.json()["type"].endswith(":ClientViewError")
    assert "unlucky" in caplog.text


async def test_the_gateway_client_sees_the_view(live: LiveGateway) -> None:
    """And is refused with a typed error."""
    async with GatewayClient(live.url) as client:
        agent = client.agent("Dealer", "a")
        async with agent.subscribe() as states:
            snapshot = await anext(states)
        with pytest.raises(StateRejectedError, match="view"):
            await agent.set_state({"score": 1})

    assert snapshot.value == {"score": 0, "cards": 1, "table": "a"}


async def test_where_clients_may_not_write_their_states_are_refused(live: LiveGateway) -> None:
    """As on a read-only connection."""
    async with (
        live.connect("/agents/speaker/a") as stock,
        live.connect("/agents/speaker/a?agent_runtime=1") as ours,
    ):
        await send_state(stock, {"volume": 9})
        refusal = await next_frame(stock, "cf_agent_state_error")
        answer = await mutate(ours, "merge", {"volume": 9})

    assert refusal["error"] == "Connection is readonly"
    assert answer["error"]["type"] == "ReadonlyConnectionError"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_where_clients_may_not_write_http_says_403(live: LiveGateway, method: str) -> None:
    """Nor may they destroy the agent."""
    path = API.format("Speaker")
    answer = await live.http.request(method, path, json={"volume": 9})
    destroyed = await live.http.delete(path.removesuffix("/state"))

    assert (answer.status_code, destroyed.status_code) == (403, 403)
    assert answer.json()["type"].endswith(":ReadonlyConnectionError")


async def test_where_clients_may_not_write_they_may_call(live: LiveGateway) -> None:
    """The agent's code changes the state, and everybody is told."""
    async with live.connect("/agents/speaker/a") as socket:
        await next_frame(socket, "cf_agent_mcp_servers")
        await send(socket, type="rpc", id="c", method="louder", args=[])
        told = await next_frame(socket, "cf_agent_state")
        answer = await next_frame(socket, "rpc")

    assert (told["state"], answer["success"]) == ({"volume": 2}, True)


async def test_services_write_where_clients_may_not(live: LiveGateway) -> None:
    """They are no clients of a gateway."""
    agent = live.served.client.agent("Speaker", "a")

    receipt = await agent.set_state({"volume": 0})

    async def is_stored() -> None:
        assert (await live.http.get(API.format("Speaker"))).json() == {"volume": 0}

    await assert_eventually(is_stored)
    assert receipt.applied


async def test_a_view_error_has_a_type(live: LiveGateway) -> None:
    """A program can tell it from others."""
    definition = live.gateway.registry.definition("Dealer")
    ref = live.served.client.agent("Dealer", "a").ref

    with pytest.raises(ClientViewError, match="client_view failed"):
        definition.show(ref, {"score": 13})
