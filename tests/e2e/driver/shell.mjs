// Runs snippets that drive the real client, one per line of standard input: {"id", "host", "code"}.
// Answers each with a line {"id", "value"} or {"id", "error"}.
import { AgentClient, agentFetch } from "agents/client";
import { createInterface } from "node:readline";
import WS from "ws";

const open = [];
const warnings = [];
const kept = {};
console.warn = (...args) => warnings.push(args.join(" "));
console.error = (...args) => warnings.push(args.join(" "));

// A client that notes what its callbacks were given.
function connector(host) {
  return (agent, name, options = {}) => {
    const seen = [];
    const note = (kind) => (...args) => seen.push([kind, ...args]);
    const client = new AgentClient({
      agent,
      ...(name === undefined ? {} : { name }),
      host,
      WebSocket: WS,
      onStateUpdate: note("state"),
      onStateUpdateError: note("refused"),
      onIdentity: note("identity"),
      onIdentityChange: note("identityChange"),
      onConnectionError: note("connectionError"),
      ...options
    });
    client.seen = seen;
    open.push(client);
    return client;
  };
}

// Waits until something is so, and returns it.
async function until(check, milliseconds = 60_000) {
  const end = Date.now() + milliseconds;
  for (;;) {
    const found = check();
    if (found) return found;
    if (Date.now() > end) throw new Error("did not become so: " + check);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function failure(promise) {
  return promise.then(
    (value) => "no error: " + JSON.stringify(value),
    (error) => error.message
  );
}

function closeAll() {
  for (const client of open.splice(0)) client.close();
  warnings.length = 0;
  for (const name of Object.keys(kept)) delete kept[name];
}

const page = () => import("./react_page.mjs");
const Snippet = Object.getPrototypeOf(async () => {}).constructor;
const names = ["host", "connect", "until", "failure", "closeAll", "kept", "warnings", "agentFetch", "page", "WS"];

createInterface({ input: process.stdin }).on("line", async (line) => {
  const { id, host, code } = JSON.parse(line);
  let answer;
  try {
    const run = new Snippet(...names, code);
    const tools = [host, connector(host), until, failure, closeAll, kept, warnings, agentFetch, page, WS];
    answer = { id, value: (await run(...tools)) ?? null };
  } catch (error) {
    answer = { id, error: String(error?.stack ?? error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
