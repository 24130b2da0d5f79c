import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, type TestContext } from "vitest";
import { jsonLinesIn } from "../integration/json-lines.ts";
import { type Served, serveFolder, startServe } from "../integration/served.ts";
import { anywhere, Place } from "../integration/torchserve-place.ts";

/** What a test needs beside a GPU. */
type Need = "torch" | "llama";

const { SLUICE_TORCH_PYTHON: python = "python3" } = process.env;
const { SLUICE_HOME: home = join(homedir(), ".cache/sluice") } = process.env;

function said(program: string, ...args: string[]): string | undefined {
  try {
    return execFileSync(program, args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}

/** A figure of the first GPU, as the driver has it. */
const figure = (column: string) =>
  Number(said("nvidia-smi", "-i", "0", `--query-gpu=${column}`, "--format=csv,noheader,nounits"));

/** Why a test cannot run here; undefined where it can. */
const missing: Record<Need | "gpu", string | undefined> = {
  gpu: /^GPU 0/m.test(said("nvidia-smi", "-L") ?? "") ? undefined : "nvidia-smi lists no GPU",
  torch:
    said(python, "-c", "import torch; print(torch.cuda.is_available())")?.trim() === "True"
      ? undefined
      : `${python} has no PyTorch that sees a GPU: set SLUICE_TORCH_PYTHON`,
  llama: namesIn("engines").some((name) => /^llama-.*-(cuda|vulkan)$/.test(name))
    ? undefined
    : `no package of llama for a GPU in ${home}: sluice engine add llama --hardware vulkan`,
};

function namesIn(folder: string): string[] {
  const path = join(home, folder);
  return existsSync(path) ? readdirSync(path) : [];
}

function needs(context: TestContext, need: Need): void {
  const reason = missing.gpu ?? missing[need];
  context.skip(reason !== undefined, reason);
}

const source = (name: string) => readFileSync(join(import.meta.dirname, name), "utf8");

/** Bytes in use on the first GPU come back to what they were: a little stays with the driver. */
async function expectMemoryBack(before: number): Promise<void> {
  const slackMebibytes = 64;
  await expect
    .poll(() => figure("memory.used"), { timeout: 20_000, interval: 250 })
    .toBeLessThan(before + slackMebibytes);
}

async function gauge({ addresses }: Served, name: string): Promise<number> {
  const text = await (await fetch(`${addresses.metrics}/metrics`)).text();
  return Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, "m").exec(text)?.[1]);
}

const asJson = { "content-type": "application/json" };
const posted = (address: string, body: unknown, signal?: AbortSignal) =>
  fetch(address, {
    ...{ method: "POST", headers: asJson, body: JSON.stringify(body) },
    ...(signal && { signal }),
  });

const chat = (tokens: number, at: number) => ({
  ...{ model: "m", max_tokens: tokens, temperature: 0, stream: true },
  messages: [{ role: "user", content: `Tell a long story of ${at} ships.` }],
});

/** The text of a streamed chat, or its status where that is not 200. */
async function streamed(address: string, body: unknown, signal?: AbortSignal) {
  const reply = await posted(`${address}/v1/chat/completions`, body, signal);
  if (reply.status !== 200) return reply.status;
  const events = (await reply.text()).split("\n").filter((line) => line.startsWith("data: {"));
  const pieces = events.map((line) => JSON.parse(line.slice("data: ".length)));
  return pieces.some(({ error }) => error !== undefined)
    ? "an error"
    : pieces.map(({ choices }) => choices[0]?.delta?.content ?? "").join("");
}

/** Processes that a process has started, of whatever depth. */
function descendants(pid: number): number[] {
  const parents = readdirSync("/proc").flatMap((name) => {
    try {
      const [, parent] = /^PPid:\t(\d+)$/m.exec(readFileSync(`/proc/${name}/status`, "utf8")) ?? [];
      return parent === undefined ? [] : [[Number(name), Number(parent)] as const];
    } catch {
      return [];
    }
  });
  const own = parents.filter(([, parent]) => parent === pid).map(([child]) => child);
  return own.flatMap((child) => [child, ...descendants(child)]);
}

/** The process that computes on the GPU. */
const hostOf = (server: number) =>
  descendants(server).find((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("host/main"),
  );

describe("a served model of llama", () => {
  const model = { engine: "llama", name: "smollm2-135m-instruct", sequences: 16 } as const;
  const generation = { ignoreEos: true };

  it("is described and measured on its GPU, and gives its memory back", async (context) => {
    needs(context, "llama");
    const before = figure("memory.used");
    const server = await startServe(serveFolder(), { models: { m: { model, generation } } });
    const [about] = (await (await fetch(`${server.addresses.management}/models/m`)).json()) as [
      { workers: unknown[] },
    ];
    expect(about).toMatchObject({ deviceType: "gpu", deviceIds: [0] });
    const pid = hostOf(server.pid);
    expect(about.workers).toMatchObject([{ gpu: true, gpuUsage: "gpuId::0", pid }]);
    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, at) => streamed(server.addresses.inference, chat(64, at))),
    );
    for (const answer of answers) expect(String(answer).length).toBeGreaterThan(20);
    expect(figure("memory.used")).toBeGreaterThan(before + 200);
    const used = () => gauge(server, "sluice_gpu_memory_used_bytes");
    await expect
      .poll(async () => Math.round((await used()) / 2 ** 20) - figure("memory.used"), {
        ...{ timeout: 15_000, interval: 500 },
      })
      .toBe(0);
    expect(await gauge(server, "sluice_gpu_memory_total_bytes")).toBe(
      figure("memory.total") * 2 ** 20,
    );
    await server.end("SIGKILL");
    await expectMemoryBack(before);
  });

  it("frees the places of clients that leave, and survives its host's death", async (context) => {
    needs(context, "llama");
    const server = await startServe(serveFolder(), { models: { m: { model, generation } } });
    const { inference } = server.addresses;
    const inFlight = () => gauge(server, "sluice_requests_in_flight");
    const leaving = new AbortController();
    const left = Array.from({ length: 16 }, (_, at) =>
      streamed(inference, chat(1900, at), leaving.signal).catch(() => "left"),
    );
    await expect.poll(inFlight, { timeout: 10_000 }).toBe(16);
    leaving.abort();
    expect(new Set(await Promise.all(left))).toEqual(new Set(["left"]));
    await expect.poll(inFlight, { timeout: 5000 }).toBe(0);
    const asked = Array.from({ length: 32 }, (_, at) =>
      streamed(inference, { ...chat(256, at), stream: true }),
    );
    await expect.poll(inFlight, { timeout: 10_000 }).toBeGreaterThan(0);
    process.kill(hostOf(server.pid)!, "SIGKILL");
    // Those of whose answer a part was sent cannot be sent again; all others are answered.
    const outcomes = await Promise.all(asked);
    for (const outcome of outcomes) {
      expect(typeof outcome === "string" || outcome >= 500, String(outcome)).toBe(true);
    }
    expect(String(await streamed(inference, chat(16, 99))).length).toBeGreaterThan(5);
  });
});

describe("an archive with a handler in Python", () => {
  it("gets GPUs by its own table, else in turn, and is described so", async (context) => {
    needs(context, "torch");
    const place = new Place();
    onTestFinished(() => place.close());
    place.write("handler.py", source("gpu_handler.py"));
    place.write("setup_config.json", '{"cuda_id": {"own": 0}}');
    await place.archive("plain", "handler.py");
    await place.archive("own", "handler.py", "--extra-files", "setup_config.json");
    place.write("config.properties", `${anywhere}default_startup_timeout=300\n`);
    place.write("serve.yaml", JSON.stringify({ archives: { python } }));
    const models = ["--models", "plain=plain.mar", "own=own.mar"];
    await place.start(
      ...["--model-store", "store", "--ts-config", "config.properties", "-c", "serve.yaml"],
      ...models,
    );
    const { inference, management } = place.addresses as { inference: string; management: string };
    const described = async (name: string) =>
      (
        (await (await fetch(`${management}/models/${name}`)).json()) as { workers: unknown[] }[]
      )[0]!;
    const asked = async (name: string, n: number) =>
      (await (await posted(`${inference}/predictions/${name}`, { n })).json()) as {
        [key in "sum" | "gpu" | "rows" | "pid"]: number;
      } & { device: string };
    for (const name of ["plain", "own"]) {
      expect(await described(name)).toMatchObject({
        ...{ deviceType: "gpu", workers: [{ gpu: true, gpuUsage: "gpuId::0" }] },
      });
      expect(await asked(name, 1)).toMatchObject({ gpu: 0, device: "cuda:0", rows: 1 });
    }
    const put = (query: string) =>
      fetch(`${management}/models/plain?${query}&synchronous=true`, { method: "PUT" });
    expect((await put("min_worker=2")).status).toBe(200);
    expect((await described("plain")).workers).toMatchObject([{ gpu: true }, { gpu: true }]);
    const answers = await Promise.all(Array.from({ length: 64 }, (_, n) => asked("plain", n)));
    expect(new Set(answers.map(({ pid }) => pid)).size).toBe(2);
    expect(answers.map(({ sum }) => sum > 0)).toEqual(answers.map((_, n) => n > 0));
    expect((await put("min_worker=1")).status).toBe(200);
    expect((await described("plain")).workers).toHaveLength(1);
    expect(await asked("plain", 2)).toMatchObject({ device: "cuda:0" });
  });
});

describe("a predictor whose rows fill the memory of the GPU, or stop it", () => {
  const model = (maxBatchRows: number) => ({
    ...{
      engine: "command",
      command: python,
      args: [join(import.meta.dirname, "gpu_predictor.py")],
    },
    ...{ devices: "all", maxBatchRows },
  });
  const tooLarge = new Set([7, 63, 90]);
  const rows = Array.from({ length: 96 }, (_, at) => ({
    ...{ id: at, share: tooLarge.has(at) ? 2 : 0.06 },
    ...(at === 41 && { assert: true }),
  }));

  it("answers each row once in a run, apart from those that do not fit alone", async (context) => {
    needs(context, "torch");
    const place = new Place();
    onTestFinished(() => place.close());
    place.write("rows.jsonl", rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const job = { input: "rows.jsonl", output: "out", model: model(32), workers: { max: 1 } };
    place.write("job.json", JSON.stringify(job));
    const { code, stderr } = await place.sluice("run", "-c", "job.json");
    expect(code, stderr).toBe(1);
    const out = join(place.folder, "out");
    const answered = jsonLinesIn(out) as { id: number; answer: { rows: number; device: string } }[];
    const failed = jsonLinesIn(join(out, "_dead-letters")) as { index: number; code: string }[];
    expect(Object.fromEntries(failed.map(({ index, code: name }) => [index, name]))).toEqual({
      ...{ 7: "OUT_OF_MEMORY", 63: "OUT_OF_MEMORY", 90: "OUT_OF_MEMORY" },
      41: "ROW_KILLS_ENGINE",
    });
    expect(answered.map(({ id }) => id)).toEqual(
      rows.map(({ id }) => id).filter((id) => !tooLarge.has(id) && id !== 41),
    );
    expect(new Set(answered.map(({ answer }) => answer.device))).toEqual(new Set(["cuda:0"]));
    // 16 of them have 0.96 of the memory, which the driver needs a part of.
    expect(Math.max(...answered.map(({ answer }) => answer.rows))).toBeLessThan(17);
    expect((await place.sluice("verify", "out")).code).toBe(0);
  });

  it("is asked again by a server, which refuses only such rows", async (context) => {
    needs(context, "torch");
    // What was beside the faulty one at two deaths is asked alone by its third try.
    const options = { models: { m: model(32) }, limits: { maxTries: 3 } };
    const server = await startServe(serveFolder(), options);
    const address = `${server.addresses.inference}/predictions/m`;
    const replies = await Promise.all(rows.map((row) => posted(address, row)));
    const statuses = replies.map(({ status }) => status);
    const refused = rows.filter((_, at) => statuses[at] !== 200).map(({ id }) => id);
    expect(refused, JSON.stringify(statuses)).toEqual([7, 41, 63, 90]);
    expect((await posted(address, { id: 0, share: 0.06 })).status).toBe(200);
  });
});
