import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { JsonObject } from "../../src/foundation/json.ts";
import {
  type FakeServer,
  type ServerBehaviour,
  startFakeServer,
} from "../../src/testing/fake-server.ts";
import { killQuietly, pause, runSluice, startSluice } from "../chaos/sluice-process.ts";
import { runCommandLine } from "./dataset-program.ts";

const root = mkdtempSync(join(tmpdir(), "sluice-sampling-"));
let server: FakeServer;
let bodies: JsonObject[] = [];
/** Requests that the server holds back, and never answers. */
let isSilentFrom = Number.POSITIVE_INFINITY;
let behave: (body: JsonObject) => ServerBehaviour | undefined = () => undefined;
beforeAll(async () => {
  server = await startFakeServer({
    behave: ({ json }) => {
      // Looks at the load of a server have no body.
      if (json === undefined) return undefined;
      bodies.push(json);
      const behaviour = behave(json);
      if (behaviour) return behaviour;
      if (bodies.length > isSilentFrom) return { kind: "hang" };
      return { kind: "answer", text: `answer ${bodies.length}` };
    },
  });
});
beforeEach(() => {
  bodies = [];
  isSilentFrom = Number.POSITIVE_INFINITY;
  behave = () => undefined;
});
afterAll(async () => {
  await server.close();
  rmSync(root, { recursive: true, force: true });
});

let folders = 0;
const equalRows = 8;

function folderOfEqualRows(line: JsonObject = { text: "the same" }): string {
  const folder = join(root, `run-${folders++}`);
  mkdirSync(folder);
  writeFileSync(join(folder, "in.jsonl"), `${JSON.stringify(line)}\n`.repeat(equalRows));
  return folder;
}

function writeJob(folder: string, changes: JsonObject): void {
  const job = {
    input: "in.jsonl",
    prompt: "Say {{ text }}",
    model: { engine: "openai", name: "m", baseUrl: server.baseUrl, maxInFlight: 2 },
    output: "out.jsonl",
    ...{ shard: { rows: 4 }, workers: { max: 1 } },
    ...changes,
  };
  writeFileSync(join(folder, "job.json"), JSON.stringify(job));
}

async function succeed(folder: string, ...parameters: string[]): Promise<string> {
  const { code, stdout, stderr } = await runSluice([...parameters, "--quiet"], folder);
  expect(code, stderr).toBe(0);
  return stdout;
}

const answersIn = (folder: string, file = "out.jsonl") =>
  readFileSync(join(folder, file), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).answer as unknown);

const seedsSent = () => bodies.filter((body) => "seed" in body).map(({ seed }) => seed);

describe("equal rows", () => {
  it.each<[string, JsonObject, number]>([
    ["each its own request at a temperature", { generation: { temperature: 1 } }, equalRows],
    ["one request under a seed that is written", { generation: { temperature: 1, seed: 7 } }, 1],
    ["one request at temperature 0", {}, 1],
    ["each its own request with reuse: off", { reuse: "off" }, equalRows],
    ["each its own beside a cache", { generation: { temperature: 1 }, cache: "kept" }, equalRows],
  ])("send %s", async (_, job, expected) => {
    const folder = folderOfEqualRows();
    writeJob(folder, job);
    await succeed(folder, "run", "-c", "job.json");
    expect(bodies).toHaveLength(expected);
    expect(new Set(answersIn(folder)).size).toBe(expected);
    const written = (job.generation as JsonObject | undefined)?.seed;
    expect(seedsSent()).toEqual(written === undefined ? [] : [written]);
    // Nobody wrote how long an answer may get.
    for (const body of bodies) expect(body).not.toHaveProperty("max_tokens");
  });

  it("send each their own from joining workers, and after a kill", async () => {
    const folder = folderOfEqualRows();
    writeJob(folder, { generation: { temperature: 1 }, output: "out" });
    isSilentFrom = 5;
    const killed = startSluice(["run", "-c", "job.json", "--quiet"], folder);
    while (bodies.length <= isSilentFrom) await pause(20);
    killQuietly(-killed.pid, "SIGKILL");
    await killed.ended;
    isSilentFrom = Number.POSITIVE_INFINITY;
    const worker = await runSluice(["worker", "out", "--tasks", "0-1"], folder);
    expect(worker.code, worker.stderr).toBe(0);
    expect(seedsSent()).toEqual([]);
    const lines = (await runSluice(["results", "out"], folder)).stdout;
    const answers = lines
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line).answer);
    expect(new Set(answers).size).toBe(equalRows);
  });

  it("send each its own for every element of a list", async () => {
    const folder = folderOfEqualRows({ parts: ["the same", "the same"] });
    const prompt = { prompt: "Say {{ item }}", forEach: "parts" };
    writeJob(folder, { generation: { temperature: 1 }, prompt });
    await succeed(folder, "run", "-c", "job.json");
    expect(bodies).toHaveLength(2 * equalRows);
    expect(new Set(answersIn(folder).flat()).size).toBe(2 * equalRows);
  });

  it.each<[string, JsonObject, number]>([
    ["each its own request", { temperature: 1 }, equalRows],
    ["one request under their own seed", { temperature: 1, seed: 3 }, 1],
  ])("of a batch file send %s", async (_, sampling, expected) => {
    const body = { model: "m", messages: [{ role: "user", content: "hello" }], ...sampling };
    const line = { custom_id: "a", method: "POST", url: "/v1/chat/completions", body };
    const folder = folderOfEqualRows(line);
    const model = ["--model", "m", "--base-url", server.baseUrl];
    await succeed(folder, "run-batch", "-i", "in.jsonl", "-o", "out.jsonl", ...model);
    expect(bodies).toHaveLength(expected);
    expect(seedsSent()).toEqual(sampling.seed === undefined ? [] : [sampling.seed]);
  });

  it.each<[string, JsonObject, number]>([
    ["each its own request", { temperature: 1 }, equalRows],
    ["one request under a written seed", { temperature: 1, seed: 3 }, 1],
  ])("of a dataset send %s", async (_, generation, expected) => {
    const folder = folderOfEqualRows();
    const model = { engine: "openai", name: "m", baseUrl: server.baseUrl, maxInFlight: 2 };
    const options = { model, prompt: "Say {{ text }}", generation };
    writeFileSync(
      join(folder, "program.mjs"),
      `import { dataset, generate } from "sluice";
      const rows = dataset.jsonl(${JSON.stringify(join(folder, "in.jsonl"))});
      const asked = rows.pipe(generate(${JSON.stringify(options)}));
      await asked.writeJsonl(${JSON.stringify(join(folder, "out.jsonl"))}, { job: { workers: { max: 1 } } });`,
    );
    const { code, stderr } = await runCommandLine(join(folder, "program.mjs"));
    expect(code, stderr).toBe(0);
    expect(bodies).toHaveLength(expected);
    expect(new Set(answersIn(folder)).size).toBe(expected);
    expect(seedsSent()).toEqual(expected === 1 ? [3] : []);
  });
});

describe("the counts of a run", () => {
  const wordsOf = (body: JsonObject) => (body.messages as { content: string }[])[0]!.content;

  /** What summary, status and manifest say, which is the same; `verify` finds nothing wrong. */
  async function countsOf(folder: string, summary: JsonObject) {
    const status = JSON.parse((await runSluice(["status", "out", "--json"], folder)).stdout);
    const { manifest } = JSON.parse(readFileSync(join(folder, "out/_SUCCESS"), "utf8"));
    const sealed = JSON.parse(readFileSync(join(folder, "out", manifest), "utf8"));
    const { request_count: planned, response_count: answered, finish_reasons: ends } = summary;
    expect(sealed).toMatchObject({ requests: { planned, answered } });
    expect(status).toMatchObject({ requests: { planned, answered, journaled: 0 } });
    expect([sealed.cut, status.cut]).toEqual(Array(2).fill((ends as JsonObject).length));
    expect(summary.prompt_tokens).toBe(sealed.usage.promptTokens);
    expect(status.usage).toEqual(sealed.usage);
    const verified = await runSluice(["verify", "out"], folder);
    expect(verified.code, verified.stdout + verified.stderr).toBe(0);
    return { planned, answered, ends };
  }

  async function call(folder: string, ...parameters: string[]) {
    const { stdout, stderr } = await runSluice(parameters, folder);
    return { summary: JSON.parse(stdout.trimEnd().split("\n").at(-1)!) as JsonObject, stderr };
  }

  it("are what the server answered, after each of three retries", async () => {
    const folder = join(root, `run-${folders++}`);
    mkdirSync(folder);
    const rows = [0, 1, 2, 3, 4, 5].map((id) => ({ id, parts: ["a", "b", "c"] }));
    writeFileSync(join(folder, "in.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    writeJob(folder, { prompt: { prompt: "{{ id }}{{ item }}", forEach: "parts" }, output: "out" });
    let refused: string[] = [];
    const answered = new Set<string>();
    behave = (body) => {
      if (refused.includes(wordsOf(body))) return { kind: "status", status: 400 };
      answered.add(wordsOf(body));
      return undefined;
    };
    for (const now of [["0c", "2c", "5c"], ["0c", "2c", "5c"], ["2c"], []]) {
      refused = now;
      const isFirst = answered.size === 0;
      const parameters = isFirst ? ["run", "-c", "job.json"] : ["retry", "out"];
      const { summary } = await call(folder, ...parameters, "--quiet");
      const counts = await countsOf(folder, summary);
      expect(counts).toMatchObject({ planned: 18, answered: 18 - refused.length });
      expect(answered.size).toBe(counts.answered);
    }
  });

  it("tell of cut answers, with a command that processes them again with more tokens", async () => {
    const folder = join(root, `run-${folders++}`);
    mkdirSync(folder);
    const needed = [10, 10, 30, 50, 10, 10];
    const lines = needed.map((tokens) => `${JSON.stringify({ tokens })}\n`);
    writeFileSync(join(folder, "in.jsonl"), lines.join(""));
    const generation = { maxNewTokens: 20, temperature: 1 };
    writeJob(folder, { prompt: "{{ tokens }}", generation, output: "out" });
    behave = (body) => {
      const isCut = Number(wordsOf(body)) > (body.max_tokens as number);
      return { kind: "answer", finishReason: isCut ? "length" : "stop" };
    };
    let parameters = ["run", "-c", "job.json"];
    for (const cut of [2, 1, 0]) {
      const { summary, stderr } = await call(folder, ...parameters);
      const { ends, answered } = await countsOf(folder, summary);
      expect(answered).toBe(needed.length);
      expect(ends).toEqual({ stop: needed.length - cut, length: cut });
      const advice = /sluice (retry .*finish_reason=length.*)/;
      const told = [stderr, (await runSluice(["status", "out"], folder)).stdout];
      const commands = told.map((text) => advice.exec(text)?.[1]?.split(/\s+(?=processes)/)[0]);
      expect(commands.map((command) => command !== undefined)).toEqual([cut > 0, cut > 0]);
      parameters = commands[1]?.split(" ") ?? [];
    }
    expect(bodies).toHaveLength(6 + 2 + 1);
  });
});
