// What the real JavaScript client is made to do: one function per recording.
//
// Pauses are long enough for a server that writes to disk before it answers; where the reference's
// recording ends a moment after a client's write, they leave time for an echo.
import { agentFetch } from "agents/client";
import { sleep, unpaced } from "./recorder.mjs";
import { stateScenarios } from "./state_scenarios.mjs";

export const scenarios = {
  ...stateScenarios,
  async "rpc-ok"(r) {
    const a = await r.connected("A", "RpcAgent", r.room());
    await r.call("A", a, "add", [2, 3]);
    await r.call("A", a, "later", [20]);
    await r.call("A", a, "nothing");
    await r.call("A", a, "returnsNull");
    await r.call("A", a, "returnsDate");
    r.note("stub proxy");
    r.add({ kind: "result", who: "A", method: "stub.add", value: await a.stub.add(4, 5) });
    r.note("no argument check: missing and surplus arguments are passed as they come");
    await r.call("A", a, "add", [1]);
    await r.call("A", a, "add", [1, 2, 3]);
  },
  async "rpc-errors"(r) {
    const a = await r.connected("A", "RpcAgent", r.room());
    await r.call("A", a, "fail", ["Something went wrong"]);
    await r.call("A", a, "failWithString");
    await r.call("A", a, "noSuchMethod");
    await r.call("A", a, "secret");
    await r.call("A", a, "computed");
    await r.call("A", a, "setState", [{ value: 1 }]);
    await r.call("A", a, "constructor");
    await r.call("A", a, "__proto__");
    await r.call("A", a, "returnsBigInt");
    r.note("still usable");
    await r.call("A", a, "add", [1, 1]);
  },
  async "rpc-stream"(r) {
    const a = await r.connected("A", "RpcAgent", r.room());
    const stream = {
      onChunk: (c) => r.add({ kind: "callback", who: "A", name: "onChunk", args: [c] }),
      onDone: (c) => r.add({ kind: "callback", who: "A", name: "onDone", args: [c ?? null] }),
      onError: (e) => r.add({ kind: "callback", who: "A", name: "onError", args: [unpaced(e)] })
    };
    await r.call("A", a, "streamNumbers", [3], { stream });
    r.note("old style: callbacks at the top level");
    await r.call("A", a, "streamNumbers", [1], stream);
    await r.call("A", a, "streamNoFinal", [], { stream });
    await r.call("A", a, "streamThrows", [], { stream });
    await r.call("A", a, "streamGraceful", [], { stream });
    await r.call("A", a, "streamDoubleClose", [], { stream });
    r.note("a streaming method that returns without end(): only the caller's timeout ends the wait");
    await r.call("A", a, "streamNeverEnds", [], { stream, timeout: 200 });
    r.note("timeout in mid stream; later chunks are discarded by the client");
    await r.call("A", a, "streamSlow", [["a", "b", "c"], 60], { stream, timeout: 100 });
    await sleep(250);
    r.note("a streaming method called without stream callbacks resolves with the final chunk");
    await r.call("A", a, "streamNumbers", [2]);
  },
  async "rpc-timeouts"(r) {
    const a = await r.connected("A", "RpcAgent", r.room(), { defaultCallTimeout: 150 });
    await r.call("A", a, "hang");
    await r.call("A", a, "later", [300], { timeout: 50 });
    await r.call("A", a, "later", [300], { timeout: 0 });
    await sleep(100);
  },
  async "rpc-concurrent"(r) {
    const a = await r.connected("A", "RpcAgent", r.room());
    await Promise.all([
      r.call("A", a, "later", [120]),
      r.call("A", a, "later", [10]),
      r.call("A", a, "add", [1, 2])
    ]);
  },
  async "destroy"(r) {
    const a = await r.connected("A", "TaskAgent", r.room());
    await r.call("A", a, "increment");
    await r.call("A", a, "destroyMe");
    while (a.identified) await sleep(20);
    r.add({ kind: "client", who: "A", identified: a.identified, shouldReconnect: a.shouldReconnect });
    await a.ready;
    await sleep(150);
    r.state("A", a);
  },
  async "hibernate"(r) {
    const a = await r.connected("A", "TaskAgent", r.room());
    await r.call("A", a, "note", ["before"]);
    await r.call("A", a, "increment");
    await r.call("A", a, "withDate");
    await r.call("A", a, "lifetime");
    r.note("nothing happens for 20 s");
    await sleep(20000);
    await r.call("A", a, "lifetime");
    await r.call("A", a, "describe");
    await r.call("A", a, "increment");
  },
  async "sql"(r) {
    const a = await r.connected("A", "SqlAgent", r.room());
    for (const method of ["roundtrip", "bindBoolean", "bindUndefined", "bindObject", "syntaxError", "bigInteger", "tables"])
      await r.call("A", a, method);
  },
  async "session-status-frames"(r) {
    const a = await r.connected("A", "ChatSessionAgent", r.room());
    r.note("a session made with Session.create(agent) broadcasts a status frame per append");
    await r.call("A", a, "append", ["loud", 0, 2]);
    await sleep(80);
    r.note("a session made with a bare provider does not");
    await r.call("A", a, "append", ["quiet", 100, 2]);
    await sleep(80);
    await r.call("A", a, "historyLength", ["quiet"]);
  },
  async "malformed-frames"(r) {
    const ws = await r.raw("A", `/agents/echo-agent/${r.room()}`);
    for (const text of [
      "this is not json {{{", "null", "[]", "{}", "", '"rpc"', "12",
      '{"type":"unknown"}',
      '{"type":"rpc","method":"closes","args":[]}',
      '{"type":"rpc","id":"x1","args":[]}',
      '{"type":"rpc","id":"x2","method":"closes"}',
      '{"type":"rpc","id":"x3","method":"closes","args":null}',
      '{"type":"rpc","id":7,"method":"closes","args":[]}',
      '{"type":"cf_agent_state"}',
      '{"type":"rpc","id":"ok","method":"closes","args":[],"extra":{"ignored":true}}'
    ]) {
      ws.send(text);
      await sleep(150);
    }
    r.note("binary frames reach onMessage untouched");
    ws.send(Buffer.from([1, 2, 3, 255]));
    await sleep(60);
    r.note("an exception in onMessage: nothing is sent, the socket stays open");
    ws.send("throw");
    await sleep(150);
    ws.send('{"type":"rpc","id":"after","method":"closes","args":[]}');
    await sleep(100);
    ws.close(4321, "bye");
    await sleep(150);
    const b = await r.raw("B", `/agents/echo-agent/${r.names.keys().next().value}`);
    b.send('{"type":"rpc","id":"closes","method":"closes","args":[]}');
    await sleep(100);
    r.note("drop without a close frame");
    b.terminate();
    await sleep(200);
    const c = await r.raw("C", `/agents/echo-agent/${r.names.keys().next().value}`);
    c.send('{"type":"rpc","id":"closes2","method":"closes","args":[]}');
    await sleep(100);
    r.note("close without a code");
    c.close();
    await sleep(150);
    const d = await r.raw("D", `/agents/echo-agent/${r.names.keys().next().value}`);
    d.send('{"type":"rpc","id":"closes3","method":"closes","args":[]}');
    await sleep(100);
  },
  async "readonly"(r) {
    const room = r.room();
    const w = await r.connected("W", "ReadonlyAgent", room);
    const ro = await r.connected("R", "ReadonlyAgent", room, { query: { readonly: "true" } });
    ro.setState({ count: 999 });
    await sleep(100);
    r.state("R", ro);
    await r.call("R", ro, "getState");
    await r.call("R", ro, "increment");
    await r.call("W", w, "increment");
    await sleep(100);
    r.note("flip at run time");
    const id = await r.call("R", ro, "me");
    await r.call("W", w, "setReadonly", [id, false]);
    await r.call("R", ro, "increment");
    await sleep(60);
    await r.call("W", w, "setReadonly", [id, true]);
    await r.call("R", ro, "increment");
  },
  async "no-protocol"(r) {
    const room = r.room();
    const p = await r.connected("P", "ProtocolAgent", room);
    const n = r.client("N", "ProtocolAgent", room, { query: { protocol: "false" } });
    await sleep(200);
    r.add({ kind: "client", who: "N", identified: n.identified });
    await r.call("N", n, "increment");
    await sleep(100);
    await r.call("P", p, "increment");
    await sleep(100);
    r.note("a state frame from a no-protocol client is obeyed, and broadcast() still reaches it");
    n.setState({ count: 50 });
    await sleep(100);
    await r.call("P", p, "shout", [{ type: "custom", hello: "all" }]);
    await sleep(100);
    const both = r.client("B", "ProtocolAgent", room, { query: { protocol: "false", readonly: "true" } });
    await sleep(200);
    both.setState({ count: 1 });
    await sleep(100);
    r.note("the readonly refusal is sent even to a no-protocol connection");
  },
  async "reconnect-after-server-close"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    await r.call("A", a, "increment");
    const t0 = Date.now();
    const pending = r.call("A", a, "slowIncrement", [4000]);
    await sleep(50);
    const helper = await r.connected("H", "CounterAgent", room);
    await r.call("H", helper, "closeAll", [1012, "service restart"]);
    helper.close();
    await pending;
    r.note("a transmitted call is rejected at the close; the client waits about 3 s and connects again with the same _pk");
    while (!a.identified && Date.now() - t0 < 9000) await sleep(50);
    const waited = Date.now() - t0;
    r.add({ kind: "measured", what: "reconnect delay at least 3000 ms", value: waited >= 3000 });
    await sleep(150);
    r.state("A", a);
  },
  async "reconnect-by-client"(r) {
    const a = await r.connected("A", "CounterAgent", r.room());
    const inFlight = r.call("A", a, "slowIncrement", [3000]);
    a.reconnect();
    await inFlight;
    r.note("calls and states given while down are kept and flushed in order before the open event");
    const buffered = r.call("A", a, "increment");
    a.setState({ count: 70 });
    const second = r.call("A", a, "increment");
    await buffered;
    await second;
    await sleep(150);
    r.state("A", a);
    await r.call("A", a, "getState");
  },
  async "reconnect-stale-write"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    const b = await r.connected("B", "CounterAgent", room);
    a.close();
    await sleep(60);
    r.note("A is down; B moves the state on; then A's buffered write lands, undoes B's, and A is told B's value");
    await r.call("B", b, "setCount", [500]);
    a.setState({ count: 1 });
    a.reconnect();
    await a.ready;
    await sleep(500);
    r.state("A", a);
    r.state("B", b);
    await r.call("B", b, "getState");
  },
  async "terminal-close"(r) {
    for (const [code, reason] of [[1008, "policy"], [4001, "gone away for good"], [4999, ""], [1011, "transient"]]) {
      const who = "A" + code;
      const a = await r.connected(who, "CounterAgent", r.room("room" + code));
      await r.call(who, a, "closeAll", [code, reason]);
      await sleep(200);
      r.add({ kind: "client", who, shouldReconnect: a.shouldReconnect, connectionError: a.connectionError ? a.connectionError.code : null });
      if (!a.shouldReconnect) await r.call(who, a, "increment");
      a.close();
    }
  },
  async "same-connection-id"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room, { id: "shared-id" });
    const b = await r.connected("B", "CounterAgent", room, { id: "shared-id" });
    const c = await r.connected("C", "CounterAgent", room);
    a.setState({ count: 5 });
    await sleep(150);
    r.note("B shares A's connection id, so it is left out of the broadcast too");
    r.state("B", b);
    r.state("C", c);
    await r.call("C", c, "connectionIds");
    await r.call("C", c, "lookup", ["shared-id"]);
  },
  async "throws-on-connect"(r) {
    const ws = await r.raw("A", `/agents/throws-on-connect-agent/${r.room()}`);
    await sleep(200);
    ws.close();
  },
  async "routing-http"(r) {
    const room = r.room();
    await r.http(`/agents/counter-agent/${room}/state`);
    await r.http(`/agents/counter-agent/${room}/deep/er/echo?x=1`, { method: "POST", body: "hello" });
    await r.http(`/agents/counter-agent/${room}`);
    await r.http(`/agents/counter-agent/${room}/throw`);
    await r.http(`/agents/game-agent/${room}`);
    await r.http(`/agents/no-such-agent/${room}`);
    await r.http(`/agents/CounterAgent/${room}/state`);
    await r.http(`/agents/counter-agent`);
    await r.http(`/agents/counter-agent/`);
    await r.http(`/agents/`);
    await r.http(`/elsewhere`);
    await r.http(`/agents/loud-agent/${room}`);
    await r.http(`/agents/counter-agent/${room}/state`, { method: "OPTIONS" });
    await r.http(`/custom-counter/${room}/state`);
    await r.http(`/agents/counter-agent/a%20b%2Fc/state`);
    const res = await agentFetch({ agent: "CounterAgent", name: room, host: r.host, protocol: "http", path: "state" });
    r.add({ kind: "agentFetch", url: res.url, status: res.status, body: await res.json() });
  },
  async "routing-ws"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room, { path: "some/sub/path", query: { token: "t", empty: null, n: 5 } });
    a.close();
    const b = r.client("B", "Ignored", undefined, { basePath: `custom-counter/${room}` });
    await b.ready;
    r.add({ kind: "client", who: "B", name: b.name, agent: b.agent });
    b.close();
    const c = r.client("C", "Ignored", undefined, { basePath: "user" });
    await c.ready;
    r.add({ kind: "client", who: "C", name: c.name, agent: c.agent });
    c.close();
    const d = await r.connected("D", "LOUD_AGENT", room);
    r.add({ kind: "client", who: "D", name: d.name, agent: d.agent });
    d.close();
    r.note("an unknown agent refuses the upgrade with 400, and the client keeps trying");
    const e = r.client("E", "NoSuchAgent", room);
    await sleep(300);
    r.add({ kind: "client", who: "E", shouldReconnect: e.shouldReconnect });
    e.close();
    r.note("spaces and slashes in names");
    const f = await r.connected("F", "CounterAgent", `${room} x`);
    r.add({ kind: "client", who: "F", name: f.name });
  },
  async "slow-connect"(r) {
    r.note("the upgrade is answered only after onConnect; the client gives up after 4 s and starts again");
    const a = r.client("A", "SlowConnectAgent", r.room(), { query: { ms: "1500" } });
    await a.ready;
    await sleep(100);
    a.close();
    const b = r.client("B", "SlowConnectAgent", r.room("room2"), { query: { ms: "6000" } });
    b.addEventListener("close", (e) => r.add({ kind: "callback", who: "B", name: "close event", args: [e.code, e.reason ?? ""] }));
    b.addEventListener("error", (e) => r.add({ kind: "callback", who: "B", name: "error event", args: [e.message] }));
    await sleep(9000);
    r.add({ kind: "client", who: "B", identified: b.identified, shouldReconnect: b.shouldReconnect });
  },
  async "identity-change"(r) {
    let n = 0;
    const query = async () => ({ who: String(++n) });
    const a = r.client("A", "Ignored", undefined, { basePath: "by-query", query });
    await a.ready;
    await sleep(60);
    a.reconnect();
    await a.ready;
    await sleep(150);
    a.close();
    r.note("without onIdentityChange the client warns");
    const b = r.client("B", "Ignored", undefined, { basePath: "by-query", query, onIdentityChange: undefined });
    await b.ready;
    await sleep(60);
    b.reconnect();
    await b.ready;
    await sleep(150);
  },
  async "use-agent"(r) {
    const { useAgent, React, mount } = await import("./react_page.mjs");
    const room = r.room();
    let agent;
    const seen = [];
    function App() {
      agent = useAgent({
        agent: "CounterAgent",
        name: room,
        host: r.host,
        WebSocket: r.socketClass("A"),
        onStateUpdate: (s, source) => r.add({ kind: "callback", who: "A", name: "onStateUpdate", args: [s, source] }),
        onStateUpdateError: (e) => r.add({ kind: "callback", who: "A", name: "onStateUpdateError", args: [e] }),
        onIdentity: (name, kind) => r.add({ kind: "callback", who: "A", name: "onIdentity", args: [name, kind] }),
        onMcpUpdate: (m) => r.add({ kind: "callback", who: "A", name: "onMcpUpdate", args: [m] })
      });
      seen.push(agent.state ?? null);
      return React.createElement("p", null, JSON.stringify(agent.state ?? null));
    }
    const app = await mount(App);
    await agent.ready;
    await sleep(200);
    r.add({ kind: "rendered", who: "A", html: app.html() });
    agent.setState({ count: 10 });
    await sleep(100);
    r.add({ kind: "rendered", who: "A", html: app.html() });
    r.add({ kind: "result", who: "A", method: "increment", value: await agent.call("increment") });
    r.add({ kind: "result", who: "A", method: "stub.increment", value: await agent.stub.increment() });
    await sleep(100);
    r.add({ kind: "rendered", who: "A", html: app.html() });
    r.add({ kind: "client", who: "A", name: agent.name, agent: agent.agent, identified: agent.identified, path: agent.path, httpUrl: agent.getHttpUrl() });
    await app.unmount();
    await sleep(200);
  }
};
