// A tap on the real client's sockets: writes down every frame, in order, as JSON Lines.
import { AgentClient } from "agents/client";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import WS from "ws";

// Short pauses stand for "until all has arrived", which takes longer on a busy machine.
let pace = 1;
export const setPace = (factor) => (pace = factor);
// What a message says of a limit that was made longer.
export const unpaced = (text) => text.replace(/after (\d+)ms/, (_, ms) => `after ${ms / pace}ms`);
export const sleep = (ms) => new Promise((r) => setTimeout(r, ms < 1000 ? ms * pace : ms));
export const run = Math.random().toString(36).slice(2, 8);

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi;
const STACK = /(\\n\s+at [^"]*)/g;

export class Recorder {
  constructor(scenario, host) {
    this.scenario = scenario;
    this.host = host;
    this.lines = [];
    this.ids = new Map();
    this.names = new Map();
    this.open = [];
  }
  // instance names are unique per run on the wire and stable in the transcript
  room(label = "room") {
    const real = `${this.scenario}-${label}-${run}`;
    this.names.set(real, label);
    return real;
  }
  scrub(text) {
    for (const [real, label] of this.names) text = text.replaceAll(real, label);
    text = text.replaceAll(this.host, "<host>");
    text = text.replace(UUID, (m) => this.placeholder(m, "uuid"));
    return text.replace(STACK, "\\n<stack>");
  }
  placeholder(value, kind) {
    if (!this.ids.has(value)) {
      const n = [...this.ids.values()].filter((v) => v.startsWith(`<${kind}-`)).length + 1;
      this.ids.set(value, `<${kind}-${n}>`);
    }
    return this.ids.get(value);
  }
  add(entry) {
    this.lines.push(this.scrub(JSON.stringify(entry)));
  }
  note(text) {
    this.add({ kind: "note", text });
  }
  payload(data, isBinary) {
    if (isBinary) return { base64: Buffer.from(data).toString("base64") };
    const text = data.toString();
    try {
      return { json: JSON.parse(text) };
    } catch {
      return { text };
    }
  }
  socketClass(who) {
    const recorder = this;
    return class Tapped extends WS {
      constructor(url, protocols) {
        super(url, protocols);
        recorder.add({ kind: "connect", who, url: String(url) });
        this.prependListener("open", () => recorder.add({ kind: "open", who }));
        this.prependListener("message", (data, isBinary) =>
          recorder.add({ kind: "recv", who, ...recorder.payload(data, isBinary) })
        );
        this.prependListener("unexpected-response", (_req, res) => {
          recorder.add({ kind: "upgrade-refused", who, status: res.statusCode });
          this.emit("error", new Error("Unexpected server response: " + res.statusCode));
        });
        this.prependListener("close", (code, reason) =>
          recorder.add({ kind: "close", who, code, reason: reason.toString() })
        );
      }
      send(data, ...rest) {
        recorder.add({ kind: "send", who, ...recorder.payload(data, typeof data !== "string") });
        return super.send(data, ...rest);
      }
    };
  }
  // the real AgentClient, unmodified, over a tapped socket
  client(who, agent, name, options = {}) {
    const call = (fn) => (...args) => this.add({ kind: "callback", who, name: fn, args });
    const client = new AgentClient({
      agent,
      ...(name === undefined ? {} : { name }),
      host: this.host,
      WebSocket: this.socketClass(who),
      onStateUpdate: call("onStateUpdate"),
      onStateUpdateError: call("onStateUpdateError"),
      onIdentityChange: call("onIdentityChange"),
      onConnectionError: (e) =>
        this.add({ kind: "callback", who, name: "onConnectionError", args: [{ name: e.name, code: e.code, reason: e.reason, message: e.message }] }),
      ...options
    });
    this.open.push(client);
    return client;
  }
  async connected(who, agent, name, options) {
    const c = this.client(who, agent, name, options);
    await c.ready;
    await sleep(60);
    return c;
  }
  async call(who, client, method, args = [], options) {
    // Agents take their time at the same pace.
    const limit = options?.timeout;
    const paced = limit ? { ...options, timeout: limit * pace } : options;
    try {
      const value = await client.call(method, args, paced);
      this.add({ kind: "result", who, method, ...(value === undefined ? { undefined: true } : { value }) });
      return value;
    } catch (e) {
      const message = limit ? unpaced(e.message) : e.message;
      this.add({ kind: "error", who, method, message });
    }
  }
  state(who, client) {
    this.add({ kind: "client.state", who, ...(client.state === undefined ? { undefined: true } : { value: client.state }) });
  }
  raw(who, path) {
    const ws = new (this.socketClass(who))(`ws://${this.host}${path}`);
    this.open.push(ws);
    ws.on("error", () => {});
    return new Promise((resolve) => {
      ws.once("open", () => setTimeout(() => resolve(ws), 80 * pace));
      ws.once("close", () => resolve(ws));
    });
  }
  async http(path, init = {}) {
    const r = await fetch(`http://${this.host}${path}`, init);
    const text = await r.text();
    let body = text;
    try {
      body = JSON.parse(text);
    } catch {
      body = text.split("\n")[0];
    }
    const keep = {};
    for (const [k, v] of r.headers)
      if (k.startsWith("access-control") || k === "content-type") keep[k] = v;
    this.add({
      kind: "http",
      request: { method: init.method ?? "GET", path, ...(init.body ? { body: init.body } : {}) },
      response: { status: r.status, headers: keep, body }
    });
  }
  async finish(dir, meta) {
    for (const c of this.open) {
      try {
        c.close();
      } catch {}
    }
    await sleep(60);
    mkdirSync(dir, { recursive: true });
    const head = JSON.stringify({ kind: "meta", scenario: this.scenario, ...meta });
    writeFileSync(join(dir, `${this.scenario}.jsonl`), [head, ...this.lines].join("\n") + "\n");
  }
}
