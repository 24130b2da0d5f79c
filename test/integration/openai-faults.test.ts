import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { verify } from "../../src/api/inspect.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import type { ServerBehaviour } from "../../src/testing/fake-server.ts";
import type { FaultScript } from "../../src/testing/fault-script.ts";
import { journaledRows } from "../chaos/run-files.ts";
import { pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { freePort, freePorts } from "../free-ports.ts";
import { killServerProcesses, startServerProcess } from "./server-process.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-faults-"));
afterEach(killServerProcesses);
afterAll(() => rmSync(root, { recursive: true, force: true }));
let folders = 0;

const rows = 300;
/** Rows that servers refuse, and rows that make them fail, each time. */
const refused = [17, 117, 217];
const choking = [67, 267];

function folderWithJob(
  baseUrls: readonly string[],
  model: JsonObject = {},
  maxAttempts = 2,
): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  const lines = Array.from({ length: rows }, (_, id) => {
    const kind = refused.includes(id) ? " refused" : choking.includes(id) ? " choking" : "";
    return `${JSON.stringify({ id, text: `row ${id}${kind}` })}\n`;
  });
  writeFileSync(join(folder, "rows.jsonl"), lines.join(""));
  const endpoints = baseUrls.map((baseUrl) => ({ baseUrl }));
  const job = {
    input: { path: "rows.jsonl", id: "id" },
    model: { engine: "openai", name: "m", endpoints, maxInFlight: 8, timeoutMs: 2000, ...model },
    prompt: "Say {{ text }}",
    generation: { maxNewTokens: 16, seed: 1 },
    shard: { rows: 60 },
    workers: { max: 2 },
    retries: { maxAttempts },
    maxFailedRows: rows - 1,
    output: { path: "out", include: ["attempts"] },
  };
  writeFileSync(join(folder, "job.json"), JSON.stringify(job));
  return folder;
}

const sluiceRun = ["run", "-c", "job.json", "--json"];

/** The most memory that a process has had; 0 when it is gone. */
function peakBytesOf(pid: number): number {
  try {
    const [, kilobytes] =
      /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
    return Number(kilobytes ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** The lines of the files of a folder, in the order of their names. */
function linesIn(folder: string): JsonObject[] {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const parts = names.filter((name) => name.startsWith("part-"));
  return parts.toSorted().flatMap((name) =>
    readFileSync(join(folder, name), "utf8")
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line) as JsonObject),
  );
}

/** Answers by row, and codes of those that failed; the run's files prove that they are complete. */
async function outcomeOf(folder: string) {
  expect((await verify(join(folder, "out"))).damages).toEqual([]);
  const results = linesIn(join(folder, "out"));
  const answers = new Map(results.map(({ id, answer }) => [id, answer]));
  const tries = results.map(({ answerMetadata }) => (answerMetadata as JsonObject[])[0]!.attempts);
  const letters = linesIn(join(folder, "out/_dead-letters"));
  const codes = Object.fromEntries(letters.map(({ index, code }) => [String(index), code]));
  return { answers, codes, tries };
}

let kept: ReturnType<typeof answersWithoutFaults> | undefined;
/** What the rows that no server refuses are answered, by a server without faults. */
const undisturbed = () => (kept ??= answersWithoutFaults());

async function answersWithoutFaults(): Promise<Map<unknown, unknown>> {
  const server = await startServerProcess();
  const folder = folderWithJob([server.baseUrl]);
  expect((await runSluice(sluiceRun, folder)).code).toBe(0);
  return (await outcomeOf(folder)).answers;
}

const poison: FaultScript["faults"] = [
  { behaviour: { kind: "status", status: 400, body: "not that" }, containing: "refused" },
  { behaviour: { kind: "status", status: 500, body: "out of luck" }, containing: "choking" },
];

const shareOf = (share: number, ...behaviours: ServerBehaviour[]) =>
  behaviours.map((behaviour) => ({ behaviour, share: share / behaviours.length }));

describe("a server with faults of all kinds", () => {
  const faults: FaultScript = {
    seed: 5,
    faults: [
      ...poison,
      ...shareOf(
        0.3,
        { kind: "status", status: 500 },
        { kind: "status", status: 503, body: "overloaded" },
        { kind: "reset", when: "before-reply" },
        { kind: "reset", when: "in-reply" },
        { kind: "malformed-json" },
        { kind: "half-body" },
        { kind: "html" },
        { kind: "status", status: 200, body: "a text" },
        { kind: "empty-choices" },
      ),
      { behaviour: { kind: "hang" }, share: 0.005 },
      {
        behaviour: { kind: "status", status: 429, headers: { "retry-after-ms": "100" } },
        ...{ from: 60, until: 90 },
      },
      { behaviour: { kind: "status", status: 429 }, share: 0.05 },
    ],
  };

  it("answers every row or says why it has none", async () => {
    const expected = await undisturbed();
    const server = await startServerProcess({ faults });
    const folder = folderWithJob([server.baseUrl], {}, 6);
    const ended = await runSluice(sluiceRun, folder);
    const { answers, codes } = await outcomeOf(folder);
    expect(ended.code).toBe(0);
    expect(answers.size + Object.keys(codes).length).toBe(rows);
    for (const id of refused) expect(codes[id]).toBe("REQUEST_REFUSED");
    for (const id of choking) expect(codes[id]).toBe("SERVER_ERROR");
    // Some other may have met with a fault in each of its six tries.
    expect(Object.keys(codes).length).toBeLessThanOrEqual(refused.length + choking.length + 5);
    for (const [id, answer] of answers) expect(answer).toBe(expected.get(id));
  });
});

describe("a server that tells its first request to wait for three years", () => {
  it("answers all rows, that one too", async () => {
    const expected = await undisturbed();
    const behaviour: ServerBehaviour = {
      ...{ kind: "status", status: 429, headers: { "retry-after": "99999999" } },
    };
    const faults: FaultScript = {
      // No 500: were such a row the one that tries the endpoint again, it would be down for good.
      faults: [...poison.slice(0, 1), { behaviour, until: 1 }],
    };
    const server = await startServerProcess({ faults });
    const model = { maxInFlight: 1, firstAnswerMs: 0, maxEndpointDownMs: 1500 };
    const folder = folderWithJob([server.baseUrl], model);
    const ended = await runSluice(sluiceRun, folder);
    expect(ended.stderr).toContain("the endpoint is paused");
    expect(ended.code).toBe(0);
    const { answers } = await outcomeOf(folder);
    expect(answers.size).toBe(rows - refused.length);
    for (const [id, answer] of answers) expect(answer).toBe(expected.get(id));
  });
});

describe("a server of giant replies", () => {
  const replies = 40;
  const reply = Buffer.from(
    JSON.stringify({
      choices: [{ index: 0, message: { content: "x".repeat(12 * 1024 * 1024) } }],
    }),
  );

  it("fills no memory, however many come at once", async ({ skip }) => {
    skip(process.platform !== "linux", "only Linux tells the peak of a process");
    // All are answered at once, when the last of them is there; one that is asked again, at once.
    const held: ServerResponse[] = [];
    let asked = 0;
    const server = createServer((request, response) => {
      request.resume().on("end", () => {
        held.push(response);
        asked += 1;
        if (asked >= replies) for (const each of held.splice(0)) each.end(reply);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const model = { maxInFlight: replies, firstAnswerMs: 0, timeoutMs: 300_000 };
    const folder = folderWithJob([`http://127.0.0.1:${port}/v1`], model);
    const limits = [
      "--limit",
      String(replies),
      "--set",
      "workers.max=1",
      "--set",
      `shard.rows=${replies}`,
    ];
    const run = startSluice([...sluiceRun, ...limits], folder);
    let peakBytes = 0;
    while (!run.hasEnded()) {
      for (const worker of run.workers) peakBytes = Math.max(peakBytes, peakBytesOf(worker));
      await pause(50);
    }
    const { code, stderr } = await run.ended;
    if (asked > replies) console.warn(`${asked} requests for ${replies} rows:`, stderr);
    expect(code).toBe(0);
    server.close();
    // Bounded by the requests alone it would be 1,120 MB.
    expect(peakBytes).toBeGreaterThan(100e6);
    expect(peakBytes).toBeLessThan(900e6);
  });
});

describe("one of two servers that dies", () => {
  it("costs no row anything, and is asked again when it comes back", async () => {
    const expected = await undisturbed();
    const faults = { faults: poison };
    const port = await freePort();
    // Together they have no answer for the last rows, so that the run is not over before both died.
    const answering = (most: number): FaultScript => ({
      faults: [{ behaviour: { kind: "hang" }, from: most }, ...poison],
    });
    const first = await startServerProcess({ delayMs: 150, faults: answering(60), port });
    const second = await startServerProcess({ delayMs: 150, faults: answering(230) });
    const folder = folderWithJob([first.baseUrl, second.baseUrl], { timeoutMs: 60_000 });
    const run = startSluice(sluiceRun, folder);
    const journaled = () => journaledRows(join(folder, "out")).size;
    const atLeast = async (count: number) => {
      while (journaled() < count && !run.hasEnded()) await pause(50);
      expect(run.hasEnded()).toBe(false);
    };
    await atLeast(40);
    await first.kill();
    // A row that both lose has cost a try: those that the first one had are answered by then.
    await atLeast(200);
    // From here on nothing goes on without the one that comes back.
    second.stall();
    const back = await startServerProcess({ faults, port: first.port });
    await second.kill();
    const ended = await run.ended;
    const { answers, codes, tries } = await outcomeOf(folder);
    expect(ended.code).toBe(0);
    expect(answers.size).toBe(rows - refused.length - choking.length);
    expect(new Set(tries)).toEqual(new Set([1]));
    for (const [id, answer] of answers) expect(answer).toBe(expected.get(id));
    expect(Object.values(codes).toSorted()).toEqual([
      ...refused.map(() => "REQUEST_REFUSED"),
      ...choking.map(() => "SERVER_ERROR"),
    ]);
    expect(ended.stderr).toContain("the endpoint is paused");
    expect(back.port).toBe(first.port);
    expect(ended.stderr).toContain("the endpoint answers again");
  });

  it("ends the run, resumable, when the other dies as well", async () => {
    // Each answers a hundred requests, so that the run is not over before both die.
    const faults: FaultScript = { faults: [{ behaviour: { kind: "hang" }, from: 100 }] };
    const ports = await freePorts(2);
    const servers = await Promise.all(
      ports.map((port) => startServerProcess({ delayMs: 40, faults, port })),
    );
    const baseUrls = servers.map(({ baseUrl }) => baseUrl);
    const folder = folderWithJob(baseUrls, { maxEndpointDownMs: 1000, timeoutMs: 60_000 });
    const run = startSluice(sluiceRun, folder);
    while (journaledRows(join(folder, "out")).size < 40) await pause(50);
    for (const server of servers) await server.kill();
    expect(await run.ended).toMatchObject({ code: 69 });
    const kept = journaledRows(join(folder, "out")).size;
    expect(kept).toBeLessThan(rows);
    await startServerProcess({ port: servers[1]!.port });
    expect((await runSluice(sluiceRun, folder)).code).toBe(0);
    const { answers, codes } = await outcomeOf(folder);
    expect([answers.size, codes]).toEqual([rows, {}]);
  });
});
