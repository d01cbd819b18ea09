// Recordings of connecting and of state; see scenarios.mjs.
import { sleep } from "./recorder.mjs";

export const stateScenarios = {
  async "connect-initial-state"(r) {
    const a = r.client("A", "CounterAgent", r.room());
    r.state("A", a);
    await a.ready;
    r.note("what the client shows when ready resolves");
    r.state("A", a);
    await sleep(100);
    r.state("A", a);
    a.close();
    await sleep(100);
  },
  async "connect-default-name"(r) {
    const a = await r.connected("A", "CounterAgent", undefined);
    r.add({ kind: "client", who: "A", name: a.name, agent: a.agent, identified: a.identified });
  },
  async "connect-no-state"(r) {
    const a = await r.connected("A", "NoStateAgent", r.room());
    r.state("A", a);
    await r.call("A", a, "read");
  },
  async "connect-no-identity"(r) {
    const a = r.client("A", "NoIdentityAgent", r.room());
    await sleep(300);
    r.add({ kind: "client", who: "A", identified: a.identified });
  },
  async "client-set-state"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    const b = await r.connected("B", "CounterAgent", room);
    a.setState({ count: 5, extra: [1, { deep: true }] });
    await sleep(150);
    await r.call("A", a, "getState");
    r.note("the sender got no state frame; a late joiner sees the replaced state");
    const c = await r.connected("C", "CounterAgent", room);
    r.state("C", c);
    b.setState({ unrelated: "shape is not checked" });
    await sleep(500);
  },
  async "server-set-state"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    const b = await r.connected("B", "CounterAgent", room);
    await r.call("A", a, "increment");
    await sleep(100);
    await r.call("B", b, "increment");
    await sleep(100);
    await r.call("A", a, "setCount", [1]);
    await sleep(100);
    r.note("setting an equal value is still broadcast");
    await r.call("A", a, "setCount", [1]);
    await sleep(100);
  },
  async "lost-update-two-clients"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    const b = await r.connected("B", "CounterAgent", room);
    r.note("both clients read count 0 and write count + 1 without waiting");
    a.setState({ count: a.state.count + 1 });
    b.setState({ count: b.state.count + 1 });
    await sleep(200);
    await r.call("A", a, "getState");
  },
  async "lost-update-async-method"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    await Promise.all([
      r.call("A", a, "slowIncrement", [40]),
      r.call("A", a, "slowIncrement", [40])
    ]);
    await r.call("A", a, "getState");
  },
  async "sender-left-behind"(r) {
    const room = r.room();
    const a = await r.connected("A", "CounterAgent", room);
    const b = await r.connected("B", "CounterAgent", room);
    r.note("A stops reading; B sets 100; A sends 7 before it has read 100");
    a._ws._socket.pause();
    await r.call("B", b, "setCount", [100]);
    a.setState({ count: 7 });
    await sleep(150);
    a._ws._socket.resume();
    await sleep(500);
    r.state("A", a);
    r.state("B", b);
    await r.call("B", b, "getState");
    r.note("A shows 100 while the agent and B hold 7, and nothing corrects A");
  },
  async "set-state-before-open"(r) {
    const room = r.room();
    const a = r.client("A", "CounterAgent", room);
    a.setState({ count: 33 });
    r.state("A", a);
    await a.ready;
    await sleep(500);
    r.state("A", a);
    await r.call("A", a, "getState");
  },
  async "rejected-update"(r) {
    const room = r.room();
    const a = await r.connected("A", "ValidatedAgent", room);
    const b = await r.connected("B", "ValidatedAgent", room);
    a.setState({ score: -1 });
    await sleep(150);
    r.state("A", a);
    await r.call("A", a, "getState");
    r.note("the same rule hit from the server side surfaces as an RPC error with its own text");
    await r.call("A", a, "setScore", [-5]);
    r.note("a failing onStateChanged does not undo or hide the update");
    await r.call("B", b, "setScore", [13]);
    await sleep(100);
    await r.call("A", a, "getErrors");
    a.setState({ score: 4 });
    await sleep(500);
  },
  async "validator-reads-state"(r) {
    const room = r.room();
    r.note("validateStateChange reads this.state while initialState is not yet stored");
    const ws = await r.raw("A", `/agents/validator-reads-state-agent/${room}`);
    await sleep(200);
    ws.close();
  },
  async "game-example"(r) {
    const room = r.room();
    const a = await r.connected("A", "GameAgent", room);
    const b = await r.connected("B", "GameAgent", room);
    a.setState({ ...a.state, players: ["Alice"] });
    await sleep(100);
    r.note("the second client update makes the hook call setState");
    b.setState({ ...b.state, players: [...b.state.players, "Bob"] });
    await sleep(150);
    r.note("an update by the server does not trigger the hook's branch");
    await r.call("A", a, "addPlayer", ["Carol"]);
    await sleep(100);
  },
  async "hook-order"(r) {
    const room = r.room();
    const a = await r.connected("A", "HookAgent", room);
    await r.call("A", a, "run");
    await sleep(100);
    await r.call("A", a, "getLog");
    a.setState({ n: 9 });
    await sleep(500);
    await r.call("A", a, "getLog");
  },
  async "odd-values"(r) {
    for (const kind of ["null", "zero", "false", "empty", "date", "undefinedKey", "nan", "array"]) {
      const room = r.room(kind);
      const a = await r.connected("A-" + kind, "NoStateAgent", room);
      await r.call("A-" + kind, a, "write", [kind]);
      await sleep(60);
      await r.call("A-" + kind, a, "read");
      const late = await r.connected("L-" + kind, "NoStateAgent", room);
      a.close();
      late.close();
    }
    const c = await r.connected("C", "NoStateAgent", r.room("circular"));
    await r.call("C", c, "writeCircular");
    const d = await r.connected("D", "NoStateAgent", r.room("reset"));
    r.note("reset and merge on an agent without initialState");
    await r.call("D", d, "reset");
    await r.call("D", d, "read");
    await r.call("D", d, "merge", [{ a: { x: 1, y: 2 }, list: [1, 2] }]);
    await r.call("D", d, "merge", [{ a: { x: 9 }, list: [3], gone: null }]);
    await r.call("D", d, "read");
    r.note("merge into an array state");
    await r.call("D", d, "write", ["array"]);
    await r.call("D", d, "merge", [{ k: 1 }]);
    await r.call("D", d, "read");
  },
  async "client-set-state-odd"(r) {
    const a = await r.connected("A", "NoStateAgent", r.room());
    r.note("undefined vanishes from the frame, so the frame is no state update at all");
    a.setState(undefined);
    await sleep(100);
    await r.call("A", a, "read");
    a.setState(null);
    await sleep(100);
    await r.call("A", a, "read");
  },
  async "sets-state-on-connect"(r) {
    const room = r.room();
    await r.raw("A", `/agents/sets-state-on-connect-agent/${room}`);
    await sleep(100);
    r.note("the same as a readonly connection, on a fresh instance");
    await r.raw("B", `/agents/sets-state-on-connect-agent/${r.room("room2")}?readonly=true`);
    await sleep(200);
  },
  async "hook-loop"(r) {
    const a = await r.connected("A", "LoopAgent", r.room());
    const kept = r.lines.length;
    await a.call("kick").catch((e) => r.add({ kind: "error", who: "A", method: "kick", message: e.message }));
    await sleep(1500);
    const stateFrames = r.lines.filter((l) => l.includes('"recv"') && l.includes("cf_agent_state")).length;
    r.lines = r.lines.slice(0, kept);
    r.note("onStateChanged sets state without looking at source; frames left out, counted below");
    const report = await a.call("report");
    r.lines = r.lines.slice(0, kept + 1);
    r.add({ kind: "measured", what: "more than 100 state frames from one setState", value: stateFrames > 100 });
    r.add({ kind: "measured", what: "errors handed to onError", value: [...new Set(report.errors)] });
  },
  async "large-state"(r) {
    const a = await r.connected("A", "CounterAgent", r.room());
    const kept = r.lines.length;
    const rows = [];
    for (const size of [100000, 1000000, 1900000, 2200000, 5000000]) {
      const pad = "x".repeat(size);
      const outcome = await a.call("replace", [{ pad }]).then(() => "stored", (e) => e.message);
      const now = await a.call("getState").then((s) => s?.pad?.length ?? s?.count ?? null, (e) => e.message);
      rows.push({ kind: "measured", what: `state of ${size} characters`, value: outcome, stateAfterwards: now });
    }
    r.lines = r.lines.slice(0, kept);
    r.note("frames left out");
    rows.forEach((x) => r.add(x));
  }
};
