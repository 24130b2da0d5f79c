import { fstatSync } from "node:fs";
import { parseArgs } from "node:util";
import { startFakeServer } from "./fake-server.ts";
import { behaviourOf, type FaultScript } from "./fault-script.ts";

/**
 * The stand-in server as a process of its own, so that a benchmark measures a client alone, and a
 * test can kill it: `node src/testing/fake-server-main.ts --delay-ms 100` prints
 * `{"port":…,"baseUrl":…}` and serves until it is killed, or the pipe that is its standard input
 * ends. `--faults` takes a `FaultScript` as JSON.
 */
const { values } = parseArgs({
  options: {
    "delay-ms": { type: "string", default: "0" },
    port: { type: "string", default: "0" },
    faults: { type: "string", default: '{"faults":[]}' },
  },
});
const server = await startFakeServer({
  delayMs: Number(values["delay-ms"]),
  port: Number(values.port),
  behave: behaviourOf(JSON.parse(values.faults) as FaultScript),
  countBodies: false,
});
console.log(JSON.stringify({ port: server.port, baseUrl: server.baseUrl }));
// A benchmark that dies takes its server along.
const input = fstatSync(0);
if (input.isFIFO() || input.isSocket()) {
  process.stdin.resume().on("end", () => void server.close());
}
