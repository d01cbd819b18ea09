"""The real `AgentClient` against the gateway: the contract's cases 191 to 223 and 290, 291."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.agents.cases import COUNTER
from tests.e2e.conftest import Shell


def _room() -> str:
    return f"room-{uuid4().hex[:8]}"


def _state(count: int) -> dict[str, Any]:
    return {"count": count, "items": [], "lastUpdated": None}


async def test_w191_w192_w216_a_client_is_identified(shell: Shell) -> None:
    """With name and class, told once; not after it has closed."""
    name = _room()
    found = await shell.run(
        """const a = connect("StateAgent", name);
        await a.ready;
        const during = [a.identified, a.name, a.agent, a.seen.filter(([kind]) => kind != "state")];
        a.close();
        await until(() => !a.identified);
        return [...during, a.identified];""",
        name=name,
    )

    identity = [["identity", name, "state-agent"]]
    assert found == [True, name, "state-agent", identity, False]


async def test_w193_w194_names_as_the_client_makes_them(shell: Shell) -> None:
    """`default` without a name; the class in kebab form."""
    found = await shell.run(
        """const a = connect("StateAgent");
        await a.ready;
        return [a.name, a.agent];"""
    )

    assert found == ["default", "state-agent"]


@pytest.mark.usefixtures("unhurried_echo")
async def test_w195_to_w202_state_in_property_and_callback(shell: Shell) -> None:
    """Own writes show at once, the server's when they come; nothing is there before."""
    found = await shell.run(
        """const a = connect("StateAgent", name);
        const before = a.state ?? null;
        await until(() => a.state);
        const initial = a.state;
        a.setState({ ...a.state, count: 1 });
        const own = a.state;
        for (const count of [2, 3, 4]) a.setState({ ...a.state, count });
        const last = a.state;
        const stored = await a.call("getState");
        await a.call("setState", [{ ...a.state, count: 9 }]);
        await until(() => a.state.count == 9);
        return { before, initial, own, last, stored, seen: a.seen.slice(1) };""",
        name=_room(),
    )

    assert found["before"] is None
    assert found["initial"] == COUNTER
    assert (found["own"], found["last"], found["stored"]) == (_state(1), _state(4), _state(4))
    sources = [[state["count"], source] for _, state, source in found["seen"]]
    own = [[count, "client"] for count in (1, 2, 3, 4)]
    assert sources == [[0, "server"], *own, [9, "server"]]


async def test_clients_see_and_change_a_view(shell: Shell) -> None:
    """What is hidden outlives what they write; all end with what is stored."""
    found = await shell.run(
        """const [a, b] = [connect("HiddenAgent", name), connect("HiddenAgent", name)];
        await until(() => a.state && b.state);
        const initial = a.state;
        const whole = await b.call("shuffle");
        a.setState({ count: 500 });
        const own = a.state;
        await until(() => b.state.count == 10 && a.state.count == 10);
        const stored = await a.call("shuffle");
        const seen = b.seen.filter(([kind]) => kind == "state");
        return { initial, whole, own, stored, seen };""",
        name=_room(),
    )

    assert found["initial"] == {"count": 0}
    assert found["whole"] == {"count": 0, "hidden": "shuffled"}
    assert found["own"] == {"count": 500}
    assert found["stored"] == {"count": 10, "hidden": "shuffled"}
    assert [state for _, state, _ in found["seen"]] == [{"count": 0}, {"count": 10}]


async def test_w203_w220_two_clients(shell: Shell) -> None:
    """What one sets the other gets; they are two connections."""
    found = await shell.run(
        """const [a, b] = [connect("CounterAgent", name), connect("CounterAgent", name)];
        await Promise.all([a.ready, b.ready]);
        a.setState({ count: 777 });
        await until(() => b.state?.count == 777);
        return (await b.call("connectionIds")).length;""",
        name=_room(),
    )

    assert found == 2


async def test_w108_w109_w204_to_w207_w212_to_w215_calls_and_their_limits(shell: Shell) -> None:
    """Results, errors, limits of time, streams."""
    found = await shell.run(
        """const a = connect("RpcAgent", name, { defaultCallTimeout: 300 });
        await a.ready;
        const chunks = [];
        const note = (chunk) => chunks.push(chunk);
        const stream = { onChunk: note, onDone: note };
        const short = connect("RpcAgent", name, { defaultCallTimeout: 100 });
        await short.ready;
        const some = [];
        const limited = { stream: { onChunk: (chunk) => some.push(chunk) }, timeout: 200 };
        return {
          sum: await a.call("add", [2, 3], { timeout: 60000 }),
          error: await failure(a.call("fail", ["no good"], { timeout: 60000 })),
          limit: await failure(a.call("later", [5000], { timeout: 10 })),
          end: await a.call("streamNumbers", [2], { stream }),
          chunks,
          standard: await failure(a.call("later", [2000])),
          unlimited: await short.call("later", [400], { timeout: 0 }),
          slow: await a.call("streamSlow", [["a", "b", "c"], 150], { stream: {} }),
          cut: await failure(a.call("streamSlow", [["a", "b", "c", "d", "e"], 100], limited)),
          isCut: some.length < 5,
          late: await until(() => warnings.find((text) => text.includes("Discarded an RPC")))
        };""",
        name=_room(),
    )

    assert found.pop("late").startswith("[AgentClient] Discarded an RPC response")
    assert found == {
        "sum": 5,
        "error": "no good",
        "limit": "RPC call to later timed out after 10ms",
        "end": 2,
        "chunks": [0, 1, 2],
        "standard": "RPC call to later timed out after 300ms",
        "unlimited": "done",
        "slow": "complete",
        "cut": "RPC call to streamSlow timed out after 200ms",
        "isCut": True,
    }


async def test_w208_w209_w221_closing_and_reconnecting(shell: Shell) -> None:
    """Calls on the way are told so; the client comes back as the same."""
    name = _room()
    found = await shell.run(
        """const a = connect("RpcAgent", name);
        await a.ready;
        const sent = failure(a.call("hang"));
        a.reconnect();
        const rejected = await sent;
        await a.ready;
        const back = [a.identified, a.name];
        const pending = failure(a.call("hang"));
        a.close();
        return [rejected, ...back, await pending];""",
        name=name,
    )

    assert found == ["Connection closed", True, name, "Connection closed"]


@pytest.mark.parametrize(("code", "reason"), [(1008, "policy"), (4001, "gone"), (4999, "over")])
async def test_w210_w291_a_terminal_close_ends_it(shell: Shell, code: int, reason: str) -> None:
    """The client does not come back, and says why."""
    found = await shell.run(
        """const a = connect("CounterAgent", name);
        await a.ready;
        await a.call("closeAll", [code, reason]);
        const [, error] = await until(() => a.seen.find(([kind]) => kind == "connectionError"));
        const told = a.seen.filter(([kind]) => kind == "connectionError").length;
        const later = await failure(a.call("increment"));
        return [a.shouldReconnect, told, error.name, error.code, error.reason, later];""",
        name=_room(),
        code=code,
        reason=reason,
    )

    assert found == [False, 1, "AgentConnectionError", code, reason, "Connection closed"]


async def test_w211_a_call_made_while_away_is_sent(shell: Shell) -> None:
    """Also over two reconnects."""
    found = await shell.run(
        """const a = connect("RpcAgent", name);
        await a.ready;
        a.reconnect();
        const call = a.call("add", [1, 2]);
        a.reconnect();
        return await call;""",
        name=_room(),
    )

    assert found == 3


async def test_w217_to_w219_w222_w223_requests_and_addresses(shell: Shell) -> None:
    """`agentFetch`, sub-paths, queries and `basePath`."""
    name = _room()
    found = await shell.run(
        """const at = { agent: "StateAgent", name, host, protocol: "http" };
        const a = connect("StateAgent", name, { path: "some/where" });
        await a.ready;
        for (const count of [1, 2]) a.setState({ ...(a.state ?? {}), count });
        await a.call("getState");
        const shown = await (await agentFetch({ ...at, path: "state" })).json();
        const post = { method: "POST", body: "hello" };
        const echoed = await (await agentFetch({ ...at, path: "echo" }, post)).json();
        const based = await agentFetch({ ...at, basePath: `agents/state-agent/${name}/state` });
        const fixed = connect("ReadonlyAgent", name, { query: { readonly: "true" } });
        await fixed.ready;
        let asked = 0;
        const query = async () => ({ readonly: String(++asked > 0) });
        const async_ = connect("ReadonlyAgent", name, { query });
        await async_.ready;
        const named = connect("Ignored", undefined, { basePath: `custom-counter/${name}` });
        await named.ready;
        return {
          shown: shown.state.count,
          echoed: [echoed.method, echoed.body],
          based: (await based.json()).state.count,
          fixed: await failure(fixed.call("increment")),
          async_: await failure(async_.call("increment")),
          asked,
          named: [named.name, named.agent]
        };""",
        name=name,
    )

    assert found == {
        "shown": 2,
        "echoed": ["POST", "hello"],
        "based": 2,
        "fixed": "Connection is readonly",
        "async_": "Connection is readonly",
        "asked": 1,
        "named": [name, "counter-agent"],
    }


async def test_w218_the_hook_is_told_of_each_write(shell: Shell) -> None:
    """Two writes are two hook calls at the least."""
    found = await shell.run(
        """const a = connect("StateAgent", name, { id: "writer" });
        await until(() => a.state);
        for (const count of [1, 2]) a.setState({ ...a.state, count });
        let changes = [];
        while (changes.length < 2)
          changes = (await a.call("noted")).changes.filter(([, source]) => source == "writer");
        return changes;""",
        name=_room(),
    )

    assert found == [[1, "writer"], [2, "writer"]]
