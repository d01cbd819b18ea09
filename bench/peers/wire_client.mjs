// Times live clients with the real JavaScript client, on any server that speaks the wire.
// Run with the driver's folder as working directory: HOST is host:port, SCALE multiplies the counts.
// Prints one JSON object a measurement: {name, milliseconds} or {name, perSecond}.
import { AgentClient } from "agents/client";
import WS from "ws";

const host = process.env.HOST;
const scale = Number(process.env.SCALE ?? "1");
const run = Math.random().toString(36).slice(2, 8);
const clients = [];

async function connect(agent, name, more = {}) {
  const client = new AgentClient({ agent, name, host, WebSocket: WS, ...more });
  clients.push(client);
  while (!client.identified) await new Promise((resolve) => setTimeout(resolve, 2));
  return client;
}

function report(name, samples) {
  const sorted = [...samples].sort((a, b) => a - b);
  console.log(JSON.stringify({ name, milliseconds: sorted[Math.floor(sorted.length / 2)] }));
}

async function timed(times, work) {
  const samples = [];
  for (let i = 0; i < times; i++) {
    const start = performance.now();
    await work(i);
    samples.push(performance.now() - start);
  }
  return samples;
}

async function rate(name, count, work) {
  const start = performance.now();
  await work();
  console.log(JSON.stringify({ name, perSecond: (count / (performance.now() - start)) * 1000 }));
}

const many = Math.round(200 * scale);

report(
  "a new agent's first state",
  await timed(Math.round(20 * scale), (i) => new Promise((resolve) => {
    clients.push(new AgentClient({
      agent: "CounterAgent", name: `first-${run}-${i}`, host, WebSocket: WS, onStateUpdate: resolve
    }));
  }))
);

const caller = await connect("RpcAgent", `rpc-${run}`);
await timed(10, () => caller.call("add", [1, 2]));
report("a call that touches no state", await timed(many, (i) => caller.call("add", [i, 1])));

const counter = await connect("CounterAgent", `seq-${run}`);
await timed(10, () => counter.call("increment"));
report("a call that sets the state", await timed(many, () => counter.call("increment")));

let seen;
const writer = await connect("CounterAgent", `peer-${run}`);
await connect("CounterAgent", `peer-${run}`, { onStateUpdate: (state) => seen?.(state) });
report("a client's state, until another has it", await timed(many, (i) => new Promise((resolve) => {
  seen = (state) => state.count === i + 1 && resolve();
  writer.setState({ count: i + 1 });
})));

const rounds = Math.max(1, Math.round(10 * scale));
await rate("50 calls in flight that set the state, one socket", rounds * 50, async () => {
  for (let round = 0; round < rounds; round++) {
    await Promise.all(Array.from({ length: 50 }, () => counter.call("increment")));
  }
});

const agents = await Promise.all(
  Array.from({ length: 50 }, (_, i) => connect("CounterAgent", `many-${run}-${i}`))
);
await rate("50 agents, a call each that sets the state", rounds * 50, async () => {
  for (let round = 0; round < rounds; round++) {
    await Promise.all(agents.map((agent) => agent.call("increment")));
  }
});

clients.forEach((client) => client.close());
