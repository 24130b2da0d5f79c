import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { type FakeServer, startFakeServer } from "../../src/testing/fake-server.ts";
import type { DrawnJob, DrawnRow } from "./drawn-job.ts";
import { rowLine } from "./expected-run.ts";

/**
 * How a program of the job answers: `echo` with the prompt. It writes a line for each row that it
 * is asked, and minds the file that says that the server is mended.
 */
const answering = `
import { appendFileSync, existsSync } from "node:fs";
export const answerOf = ({ messages }) => {
  appendFileSync("asked.txt", "asked\\n");
  const prompt = messages.at(-1).content;
  const has = (fate) => prompt.endsWith(fate) && !existsSync("server-is-mended");
  if (has("[deadly]")) process.exit(1);
  if (has("[refused]")) return undefined;
  return { text: "echo: " + prompt, finishReason: has("[cut]") ? "length" : "stop" };
};
export const pause = () => new Promise((resolve) => setTimeout(resolve, 10));
`;

const predictor = `
import { answerOf, pause } from "./answering.mjs";
export const predict = async (batch) => {
  await pause();
  return batch.map((item) => answerOf(item)?.text ?? new Error("refused"));
};
`;

const program = `
import { createInterface } from "node:readline";
import { answerOf, pause } from "./answering.mjs";
const say = (message) => console.log(JSON.stringify(message));
say({ ready: 1 });
for await (const line of createInterface({ input: process.stdin })) {
  const { batch, items } = JSON.parse(line);
  await pause();
  say({ batch, results: items.map((item) => answerOf(item) ?? { error: "refused" }) });
}
`;

/** The files of a job, and whoever answers it. */
export class JobFolder {
  readonly path: string;
  readonly #job: DrawnJob;
  readonly #server: FakeServer | undefined;

  private constructor(path: string, job: DrawnJob, server: FakeServer | undefined) {
    this.path = path;
    this.#job = job;
    this.#server = server;
  }

  static async make(path: string, job: DrawnJob): Promise<JobFolder> {
    const server = job.engine === "openai" ? await answeringServer(path, job) : undefined;
    const folder = new JobFolder(path, job, server);
    folder.write("answering.mjs", answering);
    folder.write("predictor.mjs", predictor);
    folder.write("program.mjs", program);
    folder.write("asked.txt", "");
    folder.writeRows(job.rows);
    folder.write("job.yaml", JSON.stringify(folder.#jobFile(), undefined, 1));
    return folder;
  }

  /** Requests that somebody got, whatever became of them. */
  get asked(): number {
    const lines = readFileSync(join(this.path, "asked.txt"), "utf8");
    return lines.split("\n").length - 1;
  }

  write(name: string, content: string | Uint8Array): void {
    writeFileSync(join(this.path, name), content);
  }

  mendServer(): void {
    this.write("server-is-mended", "");
  }

  /** The whole input, in place of what there is. */
  writeRows(rows: readonly DrawnRow[]): void {
    const { input } = this.#job;
    const lines = rows.map(rowLine);
    if (input === "jsonl") this.write("rows.jsonl", `${lines.join("\n")}\n`);
    if (input === "json") this.write("rows.json", `[${lines.join(",\n")}]`);
    if (input === "csv") this.write("rows.csv", csvText(rows));
    if (input === "parquet") this.write("rows.parquet", parquetBytes(rows));
  }

  appendRows(rows: readonly DrawnRow[]): void {
    const text = rows.map((row) => `${rowLine(row)}\n`).join("");
    appendFileSync(join(this.path, "rows.jsonl"), text);
  }

  async close(): Promise<void> {
    await this.#server?.close();
  }

  #jobFile(): Record<string, unknown> {
    const { engine, input, output, sampling, prefixes, rowsPerTask, workers } = this.#job;
    const templates = Object.entries(prefixes).map(([name, prefix]) => {
      return [name, { prompt: `${prefix}{{ text }} / {{ number }} [{{ fate }}]` }] as const;
    });
    const models = {
      openai: { engine, name: "m", baseUrl: this.#server?.baseUrl },
      command: { engine, command: process.execPath, args: ["program.mjs"], maxBatchRows: 4 },
      predictor: { engine, module: "./predictor.mjs", maxBatchRows: 4 },
      fake: { engine, countFile: "asked.txt", latencyMs: { mean: 10 }, capacity: 4 },
    };
    return {
      input: { path: `rows.${input}`, id: "id" },
      shard: { rows: rowsPerTask },
      model: models[engine],
      ...(templates.length > 1
        ? { prompts: Object.fromEntries(templates) }
        : { prompt: templates[0]![1] }),
      generation: sampling,
      output: { path: output },
      workers: { max: workers },
    };
  }
}

/** Each answer of a sampled request is its own: the number of the request is behind it. */
function answeringServer(path: string, { sampling }: DrawnJob): Promise<FakeServer> {
  const isSampled = sampling.temperature > 0 && sampling.seed === undefined;
  return startFakeServer({
    delayMs: 5,
    behave: ({ path: url, json, earlier, number }) => {
      if (!url.endsWith("/chat/completions")) return undefined;
      appendFileSync(join(path, "asked.txt"), "asked\n");
      const messages = json!.messages as { content: string }[];
      const prompt = messages.at(-1)!.content;
      const fate = prompt.slice(prompt.lastIndexOf("[") + 1, -1);
      const isMended = existsSync(join(path, "server-is-mended"));
      if (fate === "refused" && !isMended) return { kind: "status", status: 400 };
      if (fate === "flaky" && earlier === 0) return { kind: "status", status: 503 };
      const headers = { "retry-after": "0" };
      if (fate === "busy" && earlier === 0) return { kind: "status", status: 429, headers };
      const text = `echo: ${prompt}${isSampled ? ` #${number}` : ""}`;
      return {
        kind: "answer",
        text,
        finishReason: fate === "cut" && !isMended ? "length" : "stop",
      };
    },
  });
}

function csvText(rows: readonly DrawnRow[]): string {
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const lines = rows.map(({ id, text, number, fate }) =>
    [id, quoted(text), number, fate].join(","),
  );
  return `id,text,number,fate\n${lines.join("\n")}\n`;
}

function parquetBytes(rows: readonly DrawnRow[]): Uint8Array {
  const column = (name: "id" | "text" | "fate") => ({
    name,
    data: rows.map((row) => row[name]),
    type: "STRING" as const,
  });
  const number = { name: "number", data: rows.map((row) => BigInt(row.number)), type: "INT64" };
  const columnData = [column("id"), column("text"), number as never, column("fate")];
  return new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize: 7 }));
}
