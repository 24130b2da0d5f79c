import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { RequestLog } from "../../../src/engines/fake/request-log.ts";
import { chatRequest } from "../engine-context.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-asks-"));
});
afterEach(() => rm(folder, { recursive: true }));

const linesOf = async (path: string) => (await readFile(path, "utf8")).split("\n").slice(0, -1);

const source = (path: string) =>
  JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);

/** Asks rows from `first` on and kills its own process after `count` answers. */
const askingProgram = (path: string, first: number, count: number) => `
  import { openFake } from ${source("engines/fake/engine.ts")};
  import { modelOptions } from ${source("engines/model-options.ts")};
  import { systemClock } from ${source("foundation/clock.ts")};
  import { writeSync } from "node:fs";
  const options = { engine: "fake", countFile: ${JSON.stringify(path)}, capacity: 8 };
  const engine = openFake(modelOptions.parse(options), { clock: systemClock });
  const signal = new AbortController().signal;
  let answered = 0;
  for (let index = ${first}; index < ${first} + 8; index++) ask(index);
  async function ask(index) {
    const parameters = { maxNewTokens: 5, seed: 0, stop: [] };
    await engine.infer({ prompt: "x" + index, parameters, origin: { index, promptName: "p" } }, signal);
    writeSync(1, index + "\\n");
    if (++answered === ${count}) process.kill(process.pid, "SIGKILL");
    ask(index + 8);
  }
`;

async function killedAsker(path: string, first: number, count: number): Promise<string[]> {
  const options = ["--input-type=module", "-e", askingProgram(path, first, count)];
  const child = spawn(process.execPath, options, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  const [, signal] = await once(child, "close");
  expect(signal).toBe("SIGKILL");
  return output.trim().split("\n");
}

describe("RequestLog", () => {
  it("writes a line an ask, before a microtask that is queued later", async () => {
    const path = join(folder, "asks");
    const log = new RequestLog(path);
    log.record({ ...chatRequest(4), origin: { index: 4, promptName: "answer", element: 2 } });
    log.record(chatRequest(5));
    await Promise.resolve();
    expect(await linesOf(path)).toEqual(["4 answer 2", "5 answer -"]);
    log.close();
  });

  it("appends to what is there", async () => {
    const path = join(folder, "asks");
    for (const index of [1, 2]) {
      const log = new RequestLog(path);
      log.record(chatRequest(index));
      log.close();
    }
    expect(await linesOf(path)).toEqual(["1 answer -", "2 answer -"]);
  });

  it("holds every answered ask of processes that were killed, each on a whole line", async () => {
    const path = join(folder, "asks");
    const answered = await Promise.all([
      killedAsker(path, 0, 500),
      killedAsker(path, 100_000, 501),
    ]);
    const lines = await linesOf(path);
    expect(lines.filter((line) => !/^\d+ p -$/.test(line))).toEqual([]);
    const asked = new Set(lines.map((line) => line.split(" ")[0]!));
    expect(asked.size).toBe(lines.length);
    expect(answered.flat().filter((index) => !asked.has(index))).toEqual([]);
    expect(answered.flat().length).toBe(1001);
  });

  it("names the file when it cannot be opened", () => {
    expect(() => new RequestLog(join(folder, "none", "asks"))).toThrow(/model.countFile.*ENOENT/);
  });

  it("says on flush when it could not write", async (context) => {
    context.skip(!existsSync("/dev/full"), "this system has no /dev/full");
    const log = new RequestLog("/dev/full");
    log.record(chatRequest(1));
    await Promise.resolve();
    expect(() => log.flush()).toThrow(expect.objectContaining({ code: "STORE_FAILED" }));
  });
});
