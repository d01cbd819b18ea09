// Drives a server with the real JavaScript client and writes down what went over the wire.
//   node record.mjs --host 127.0.0.1:8787 --out DIR --pace 1 scenario ...
import { readFileSync } from "node:fs";
import { Recorder, setPace } from "./recorder.mjs";
import { scenarios } from "./scenarios.mjs";

const argv = process.argv.slice(2);
const option = (name) => argv.splice(argv.indexOf(name), 2)[1];
const host = option("--host");
const out = option("--out");
setPace(Number(option("--pace")));
const version = (name) =>
  JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version;

// The client's own warnings are a part of the record.
let current;
console.warn = (...args) => current?.add({ kind: "console.warn", text: args.join(" ") });
console.error = (...args) =>
  current?.add({ kind: "console.error", text: String(args[0]).slice(0, 200) });

const meta = { client: `agents ${version("agents")}, partysocket ${version("partysocket")}` };
for (const name of argv) {
  current = new Recorder(name, host);
  try {
    await scenarios[name](current);
  } catch (error) {
    current.add({ kind: "driver-error", message: String(error?.stack ?? error) });
  }
  await current.finish(out, meta);
}
process.exit(0);
