import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { seededRandom } from "../../src/foundation/random.ts";
import type { ServeInput } from "../../src/serve/options.ts";
import { isRunning, killQuietly } from "../chaos/sluice-process.ts";
import { type Served, serveFolder, startServe } from "./served.ts";
import {
  begun,
  childrenOf,
  clientOf,
  idsOf,
  isOver,
  linesOf,
  rows,
  until,
  verified,
} from "./served-batches.ts";

const { TEST_SLUICE_SERVE_KILLS = "6", SLUICE_CHAOS_SEED = String(Date.now() % 2 ** 31) } =
  process.env;
const kills = Number(TEST_SLUICE_SERVE_KILLS);
const seed = Number(SLUICE_CHAOS_SEED);

const targets = ["server", "worker", "host"] as const;
const rowsOfBatch = 300;
const requestTimeoutMs = 8000;
/** Beyond it, a request hangs. The machine may be busy. */
const hangMs = requestTimeoutMs + 7000;
/** A little more than the predictor has room for: some requests are refused. */
const onlineIntervalMs = 50;

const predictor = `
  export async function predict(batch) {
    await new Promise((resolve) => setTimeout(resolve, 60));
    return batch.map(({ row }) => ({ heard: row.text }));
  }`;

type Asked = "predictor" | "chat";

/** What became of an online request. */
interface Outcome {
  asked: Asked;
  /** Undefined if its connection broke. */
  status: number | undefined;
  /** What is wrong with it. */
  violation: string | undefined;
}

/** A server, those that follow it after its deaths, and the requests at a steady rate. */
class Load {
  server: Served;
  readonly outcomes: Outcome[] = [];
  /** Deaths of servers, of which the last is over when `isUp`. */
  #deaths = 0;
  #isUp = true;
  #isOver = false;
  #sent = 0;
  readonly #open = new Set<Promise<Outcome>>();

  constructor(server: Served) {
    this.server = server;
  }

  async run(): Promise<void> {
    while (!this.#isOver) {
      for (const asked of ["predictor", "chat"] as const) {
        const request = this.#observed(asked).finally(() => this.#open.delete(request));
        this.#open.add(request);
      }
      await pause(onlineIntervalMs);
    }
    await Promise.all(this.#open);
  }

  stop(): void {
    this.#isOver = true;
  }

  async replaceServer(start: () => Promise<Served>): Promise<void> {
    this.#deaths++;
    this.#isUp = false;
    await this.server.end("SIGKILL");
    this.server = await start();
    this.#isUp = true;
  }

  /** Resolves when each model has answered a request that was sent from now on. */
  async recovered(): Promise<void> {
    const startMs = performance.now();
    for (const asked of ["predictor", "chat"] as const) {
      while ((await this.#observed(asked)).status !== 200) {
        if (performance.now() - startMs > 30_000) throw new Error(`${asked} does not recover`);
        await pause(50);
      }
    }
  }

  async #observed(asked: Asked): Promise<Outcome> {
    const outcome = await this.#outcome(asked);
    this.outcomes.push(outcome);
    return outcome;
  }

  async #outcome(asked: Asked): Promise<Outcome> {
    const [deaths, wasUp] = [this.#deaths, this.#isUp];
    const text = `word ${this.#sent++}`;
    try {
      const { status, body } = await post(this.server, asked, text);
      return { asked, status, violation: violationOf(asked, text, status, body) };
    } catch (error) {
      if ((error as Error).name === "TimeoutError") {
        return { asked, status: undefined, violation: `no end after ${hangMs} ms` };
      }
      const mayBreak = !wasUp || deaths !== this.#deaths;
      const violation = mayBreak ? undefined : `it broke while the server lived: ${error}`;
      return { asked, status: undefined, violation };
    }
  }
}

async function post({ baseUrl }: Served, asked: Asked, text: string) {
  const isChat = asked === "chat";
  const address = isChat ? `${baseUrl}/chat/completions` : baseUrl.replace("/v1", "/predictions/p");
  const body = isChat ? { model: "m", messages: [{ role: "user", content: text }] } : { text };
  const reply = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(hangMs),
  });
  return { status: reply.status, body: (await reply.json()) as Record<string, unknown> };
}

/** An answer is that of its request; a refusal has the form of its wire. */
function violationOf(asked: Asked, text: string, status: number, body: Record<string, unknown>) {
  const shown = `${status} ${JSON.stringify(body)}`;
  if (status === 200) {
    const isRight = asked === "chat" ? body.object === "chat.completion" : body.heard === text;
    return isRight ? undefined : `wrong answer to ${text}: ${shown}`;
  }
  if (status !== 429 && status < 500) return `unexpected status: ${shown}`;
  const refusal = asked === "chat" ? (body.error as object | undefined) : body;
  const hasForm = typeof (refusal as { message?: unknown } | undefined)?.message === "string";
  return hasForm ? undefined : `not in the form of its wire: ${shown}`;
}

/** Begins a batch where none is in progress, and waits until a worker sends its rows. */
async function assureBatch({ server }: Load, ids: string[]): Promise<void> {
  const client = clientOf(server);
  const last = ids.at(-1);
  if (last === undefined || isOver(await client.batches.retrieve(last))) {
    ids.push((await begun(client, rows(rowsOfBatch))).id);
  }
  const hasWorker = () => childrenOf(server.pid).some(({ batchToken }) => batchToken);
  await until(client, ids.at(-1)!, (batch) => isOver(batch) || hasWorker());
}

/** Kills the workers of batches, or the engine hosts; resolves to their number. */
function killChildren({ server }: Load, target: "worker" | "host"): number {
  const victims = childrenOf(server.pid).filter(
    ({ pid, batchToken }) => isRunning(pid) && (batchToken !== undefined) === (target === "worker"),
  );
  // One may have left since it was looked for.
  for (const { pid } of victims) killQuietly(pid, "SIGKILL");
  return victims.length;
}

/** Each row is once in the results, and the run is clean. */
async function expectWhole({ server }: Load, folder: string, id: string): Promise<void> {
  const client = clientOf(server);
  const batch = await until(client, id, isOver);
  expect(batch, JSON.stringify(batch.errors)).toMatchObject({
    status: "completed",
    request_counts: { total: rowsOfBatch, completed: rowsOfBatch, failed: 0 },
  });
  expect(idsOf(await linesOf(client, batch.output_file_id))).toEqual(idsOf(rows(rowsOfBatch)));
  await verified(folder, batch);
}

it("kill -9 of server, worker and host breaks no other request, loses no row", async (context) => {
  context.skip(process.platform !== "linux", "processes are found by /proc");
  console.log(`SLUICE_CHAOS_SEED=${seed} draws the same ${kills} moments`);
  const random = seededRandom(seed);
  const folder = serveFolder();
  writeFileSync(join(folder, "predict.mjs"), predictor);
  const options: ServeInput = {
    models: {
      m: { engine: "fake", capacity: 4, latencyMs: 40 },
      p: { engine: "predictor", module: "./predict.mjs", maxBatchRows: 1 },
    },
    limits: { requestTimeoutMs, maxQueueWaitMs: 1000 },
    accessLog: false,
  };
  const start = () => startServe(folder, options);
  const load = new Load(await start());
  const running = load.run();
  const ids: string[] = [];
  const killed = { server: 0, worker: 0, host: 0 };
  for (let kill = 0; kill < kills; kill++) {
    // The first three are one of each.
    const at = kill < targets.length ? kill : Math.floor(random.next() * targets.length);
    const target = targets[at]!;
    // A batch that is over by the moment of the kill has no worker any more.
    for (let victims = 0; victims === 0; killed[target] += victims) {
      await assureBatch(load, ids);
      await pause(random.next() * 700);
      if (target === "server") await load.replaceServer(start);
      victims = target === "server" ? 1 : killChildren(load, target);
    }
    await load.recovered();
  }
  for (const id of ids) await expectWhole(load, folder, id);
  load.stop();
  await running;
  const tally = Object.groupBy(load.outcomes, ({ asked, status }) => `${asked} ${status ?? "-"}`);
  const counts = Object.entries(tally).map(([kind, all]) => `${kind}: ${all!.length}`);
  console.log(`killed ${JSON.stringify(killed)}, ${ids.length} batches; ${counts.join(", ")}`);
  expect(load.outcomes.flatMap(({ violation }) => violation ?? [])).toEqual([]);
  for (const target of targets) expect(killed[target], target).toBeGreaterThan(0);
});
