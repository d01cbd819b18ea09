"""The real `useAgent` hook against the gateway: cases 224 to 235 as far as a server has a part."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.e2e.agents.cases import COUNTER
from tests.e2e.conftest import Shell

MOUNT = """
const { React, useAgent, mount } = await page();
const seen = [];
let agent;
async function show(options, effect) {
  function App() {
    agent = useAgent({
      host,
      WebSocket: WS,
      onStateUpdate: (state, source) => seen.push([state, source]),
      onConnectionError: (error) => seen.push(["connectionError", error.code]),
      ...options
    });
    React.useEffect(() => void effect?.(agent), []);
    return React.createElement("p", null, JSON.stringify(agent.state ?? null));
  }
  return await mount(App);
}
"""


async def _run(shell: Shell, code: str, **values: Any) -> Any:
    return await shell.run(MOUNT + code, name=f"room-{uuid4().hex[:8]}", **values)


@pytest.mark.usefixtures("unhurried_echo")
async def test_w224_w225_w198_the_hook_renders_state(shell: Shell) -> None:
    """The initial state, own writes, and the server's."""
    found = await _run(
        shell,
        """const app = await show({ agent: "StateAgent", name });
        await agent.ready;
        await until(() => agent.state);
        const first = agent.state;
        agent.setState({ ...agent.state, count: 1 });
        await until(() => app.html().includes('"count":1'));
        await agent.call("setState", [{ ...agent.state, count: 2 }]);
        await until(() => app.html().includes('"count":2'));
        const who = [agent.identified, agent.name == name, agent.agent];
        await app.unmount();
        return { first, who, sources: seen.map(([state, source]) => [state.count, source]) };""",
    )

    assert found["first"] == COUNTER
    assert found["who"] == [True, True, "state-agent"]
    assert found["sources"] == [[0, "server"], [1, "client"], [2, "server"]]


async def test_w226_w231_the_hook_calls(shell: Shell) -> None:
    """From a mount effect, by call and stub, with errors, streams and limits."""
    found = await _run(
        shell,
        """let early;
        const callAtOnce = (one) => void (early = one.call("add", [1, 2]));
        const app = await show({ agent: "RpcAgent", name }, callAtOnce);
        const chunks = [];
        const onChunk = (chunk) => chunks.push(chunk);
        const results = [
          await early,
          await agent.call("add", [2, 3]),
          await agent.stub.add(3, 4),
          await failure(agent.call("fail", ["no good"])),
          await agent.call("streamNumbers", [2], { stream: { onChunk } }),
          await agent.call("streamNumbers", [1], { onChunk }),
          await failure(agent.call("later", [5000], { timeout: 10 }))
        ];
        await app.unmount();
        return [results, chunks];""",
    )

    limit = "RPC call to later timed out after 10ms"
    assert found == [[3, 5, 7, "no good", 2, 1, limit], [0, 1, 0]]


async def test_w227_w228_queries_and_base_paths(shell: Shell) -> None:
    """A query, an async query, and an address whose name the server picks."""
    found = await _run(
        shell,
        """const results = [];
        for (const query of [{ readonly: "true" }, async () => ({ readonly: "true" })]) {
          const app = await show({ agent: "ReadonlyAgent", name, query });
          await until(() => agent?.identified);
          results.push(await failure(agent.call("increment")));
          await app.unmount();
        }
        const app = await show({ agent: "Ignored", basePath: "user" });
        await until(() => agent.identified);
        results.push(agent.name);
        await app.unmount();
        return results;""",
    )

    assert found == ["Connection is readonly", "Connection is readonly", "auth-user"]


async def test_w235_the_hook_ends_at_a_terminal_close(shell: Shell) -> None:
    """It tells the code, and later calls are rejected."""
    found = await _run(
        shell,
        """const app = await show({ agent: "CounterAgent", name });
        await until(() => agent.identified);
        await agent.call("closeAll", [1008, "policy"]);
        await until(() => agent.connectionError);
        const later = await failure(agent.call("increment"));
        await app.unmount();
        return [agent.connectionError.code, seen.at(-1), later];""",
    )

    assert found == [1008, ["connectionError", 1008], "Connection closed"]
