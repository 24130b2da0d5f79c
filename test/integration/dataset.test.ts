import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { results, verify } from "../../src/api/inspect.ts";
import { dataset } from "../../src/dataset/sources.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import { journaledRows } from "../chaos/run-files.ts";
import { killQuietly, runSluice } from "../chaos/sluice-process.ts";
import { runCommandLine, startProgram } from "./dataset-program.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-integration-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** While it is there, each process of a stage holds its batches after so many. */
const hold = join(folder, "hold");
const holding = `
  import { existsSync as isThere, readFileSync } from "node:fs";
  const hold = ${JSON.stringify(hold)};
  let begun = 0;
  async function held() {
    const number = ++begun;
    while (isThere(hold) && number > Number(readFileSync(hold, "utf8"))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }`;

const stages = join(folder, "stages.ts");
writeFileSync(
  stages,
  `${holding}
  interface Row { id: number; text: string }
  export const isKept = ({ id }: Row) => id % 3 !== 0;
  export const words = ({ id, text }: Row) =>
    id % 2 === 0 ? [] : text.split(" ").map((word) => ({ id, word }));
  export class Sizes {
    readonly #unit: string;
    constructor(unit: string) { this.#unit = unit; }
    async call(batch: { id: number; word: string }[]) {
      await held();
      return batch.map((row) => ({ ...row, size: row.word.length + this.#unit }));
    }
  }
  export default class Exhausting {
    call(batch: Row[]) {
      if (batch.length > 4) {
        process.stderr.write("FATAL ERROR: JavaScript heap out of memory\\n");
        process.kill(process.pid, "SIGKILL");
      }
      return batch.map(({ id }) => ({ id }));
    }
  }`,
);

const rowCount = 240;
const rows = Array.from({ length: rowCount }, (_, id) => ({ id, text: `row ${id}` }));
const input = join(folder, "rows.jsonl");
writeFileSync(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

const expected = rows
  .filter(({ id }) => id % 3 !== 0 && id % 2 !== 0)
  .flatMap(({ id, text }) =>
    text.split(" ").map((word) => ({ id, word, size: `${word.length}c` })),
  );

/** The pipeline of the kill test as a program of a user's. */
const program = join(folder, "program.ts");
writeFileSync(
  program,
  `import { dataset } from "sluice";
  const stages = ${JSON.stringify(stages)};
  const { summary, error } = await dataset
    .jsonl(${JSON.stringify(input)})
    .filter(stages + "#isKept")
    .flatMap(stages + "#words")
    .mapBatches(stages + "#Sizes", { batchSize: 4, concurrency: 2, constructorArgs: ["c"] })
    .run({ output: process.argv[2]!, job: { shard: { rows: 24 } } });
  if (error) throw error;
  console.log(JSON.stringify(summary.rows));`,
);

function resultsIn(output: string): unknown[] {
  return readdirSync(output)
    .filter((name) => name.startsWith("part-"))
    .sort()
    .flatMap((name) => readFileSync(join(output, name), "utf8").split("\n"))
    .filter(Boolean)
    .map((line) => JSON.parse(line) as unknown);
}

/** Each ten rows of the input: those that are kept, folded into one row and one for each third. */
const folds = join(folder, "folds.ts");
const mended = join(folder, "mended");
writeFileSync(
  folds,
  `${holding}
  import { existsSync, writeFileSync } from "node:fs";
  interface Row { id: number }
  const mended = ${JSON.stringify(mended)};
  export const checked = (row: Row) => {
    if (row.id === 31 && !existsSync(mended)) throw new Error("no good");
    return row;
  };
  export const isKept = ({ id }: Row) => id % 4 !== 0;
  export default async function fold(batch: Row[]) {
    const ids = batch.map(({ id }) => id);
    await held();
    if (ids.includes(55) && !existsSync(mended)) throw new Error("no good batch");
    if (ids.includes(85) && !existsSync(mended)) process.exit(3);
    const once = mended + "-once";
    if (ids.includes(121) && !existsSync(once)) {
      writeFileSync(once, "");
      process.exit(3);
    }
    return [
      { first: ids[0], count: ids.length },
      ...ids.filter((id) => id % 3 === 1).map((third) => ({ third })),
    ];
  }`,
);

/** What `folds.ts` makes of the batch that begins with a row, without some of its rows. */
function folded(start: number, ...without: number[]): unknown[] {
  const ids = Array.from({ length: 10 }, (_, at) => start + at).filter(
    (id) => id % 4 !== 0 && !without.includes(id),
  );
  return [
    { first: ids[0], count: ids.length },
    ...ids.filter((id) => id % 3 === 1).map((third) => ({ third })),
  ];
}

const starts = Array.from({ length: rowCount / 10 }, (_, at) => at * 10);

const folding = join(folder, "folding.ts");
writeFileSync(
  folding,
  `import { dataset } from "sluice";
  const folds = ${JSON.stringify(folds)};
  const { summary, error } = await dataset
    .jsonl(${JSON.stringify(input)})
    .map(folds + "#checked")
    .filter(folds + "#isKept")
    .mapBatches(folds, { rows: "any", batchSize: 10, concurrency: 2 })
    .run({ output: process.argv[2]!, job: { shard: { rows: 60 } } });
  if (error) throw error;
  console.log(JSON.stringify(summary.rows));`,
);

/** Starts a program that holds its batches after so many, and kills it when rows have answers. */
async function killHeld(file: string, output: string, batches: number, answered: number) {
  writeFileSync(hold, String(batches));
  const running = startProgram(file, [output]);
  let hasEnded = false;
  void running.ended.then(() => {
    hasEnded = true;
  });
  const attempts = join(output, "_sluice/attempts");
  while (!hasEnded && journaledRows(attempts).size < answered) await wait(5);
  killQuietly(-running.pid, "SIGKILL");
  const { signal, stderr } = await running.ended;
  rmSync(hold);
  expect(signal, stderr).toBe("SIGKILL");
}

describe("a stage whose batches become any number of rows", () => {
  it("gives the results of each batch once, whatever is killed", async () => {
    writeFileSync(mended, "");
    for (const batches of [1, 2]) {
      const output = join(folder, `folded-${batches}`);
      await killHeld(folding, output, batches, batches);
      const { code, stdout, stderr } = await runCommandLine(folding, [output]);
      expect(code, stderr).toBe(0);
      const wanted = starts.flatMap((start) => folded(start));
      expect(resultsIn(output)).toEqual(wanted);
      expect(JSON.parse(stdout)).toMatchObject({
        ...{ total: rowCount, answered: 24, filtered: 216, failed: 0, results: wanted.length },
      });
      expect((await verify(output)).damages).toEqual([]);
    }
  });

  it("fails a batch as a whole, rows before it alone, and forms it again in a retry", async () => {
    rmSync(mended, { force: true });
    rmSync(`${mended}-once`, { force: true });
    const output = join(folder, "folded-failing");
    const { code, stdout, stderr } = await runCommandLine(folding, [output]);
    expect(code, stderr).toBe(0);
    // Rows that were filtered before their batch failed are of it all the same.
    expect(JSON.parse(stdout)).toMatchObject({ total: rowCount, failed: 21, answered: 22 });
    const letters: unknown[] = [];
    for await (const { index, code: why } of results(output, { failed: true })) {
      letters.push([index, why]);
    }
    const batch = (start: number, why: string) =>
      Array.from({ length: 10 }, (_, at) => [start + at, why]);
    expect(letters).toEqual([
      [31, "STAGE_FAILED"],
      ...batch(50, "STAGE_FAILED"),
      ...batch(80, "ROW_KILLS_ENGINE"),
    ]);
    const others = starts.filter((start) => start !== 50 && start !== 80);
    expect(resultsIn(output)).toEqual(others.flatMap((start) => folded(start, 31)));
    writeFileSync(mended, "");
    const retry = await runSluice(["retry", output, "--where", "failed"], folder);
    expect(retry.code, retry.stderr).toBe(0);
    expect(resultsIn(output)).toEqual(
      starts.flatMap((start) =>
        start === 30 ? [...folded(30, 31), { first: 31, count: 1 }, { third: 31 }] : folded(start),
      ),
    );
    expect((await verify(output)).damages).toEqual([]);
  });

  it("shows the same rows without a run", async () => {
    writeFileSync(mended, "");
    const fold = dataset
      .jsonl(input)
      .filter(`${folds}#isKept`)
      .mapBatches<{ count: number }>(folds, { rows: "any", batchSize: 10 });
    expect(await fold.take(7)).toEqual([...folded(0), ...folded(10)].slice(0, 7));
  });
});

describe("a pipeline of modules", () => {
  it("loses and doubles nothing when all its processes are killed", async () => {
    for (const batches of [5, 15]) {
      const output = join(folder, `killed-${batches}`);
      // A batch has the words of two rows.
      await killHeld(program, output, batches, 2 * batches);
      const { code, stdout, stderr } = await runCommandLine(program, [output]);
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({
        ...{ total: rowCount, answered: 80, filtered: 160, failed: 0, results: 160 },
      });
      expect(resultsIn(output)).toEqual(expected);
      expect((await verify(output)).damages).toEqual([]);
    }
  });

  it("is a job that the command line runs as well", async () => {
    const job = dataset
      .jsonl(input)
      .filter(`${stages}#isKept`)
      .flatMap(`${stages}#words`)
      .mapBatches(`${stages}#Sizes`, { batchSize: 4, constructorArgs: ["c"] })
      .job({ output: join(folder, "by-command") });
    // JSON is YAML as well.
    writeFileSync(join(folder, "job.yaml"), JSON.stringify(job));
    const { code, stderr } = await runSluice(["run", "-c", "job.yaml", "--json"], folder);
    expect(code, stderr).toBe(0);
    expect(resultsIn(join(folder, "by-command"))).toEqual(expected);
    const events = stderr
      .split("\n")
      .filter(Boolean)
      .map((line) => JSON.parse(line) as RunEvent);
    const last = events.findLast((event) => event.type === "task-end");
    expect(last?.stages).toMatchObject([
      { stage: "1 filter isKept, 2 flatMap words", waiting: 0, rowsIn: rowCount, rowsOut: 160 },
      { stage: "3 mapBatches Sizes", waiting: 0, rowsIn: 160, rowsOut: 160, replicas: 1 },
    ]);
    const status = await runSluice(["status", "by-command"], folder);
    expect(status.stdout).toContain("80 answered, 160 filtered, 0 failed, 0 open, 240 in all");
    const retry = await runSluice(["retry", "by-command", "--where", "failed"], folder);
    expect(retry.stderr).toContain("there is nothing to do");
  });

  it("asks failed rows again, also with stages that were mended meanwhile", async () => {
    const failing = join(folder, "failing.ts");
    const stageOf = (failed: number) => `export const repeated = ({ id }: { id: number }) => {
      if (id % 5 === 1 && id < ${failed}) throw new Error("not yet");
      return Array.from({ length: id % 3 }, (_, n) => ({ id, n }));
    };`;
    const lines = (failed: number) =>
      rows.slice(0, 40).flatMap(({ id }) => {
        if (id % 5 === 1 && id < failed) return [];
        return Array.from({ length: id % 3 }, (_, n) => ({ id, n }));
      });
    const retries = [
      ["retried", [20, 0]],
      ["retried.jsonl", [0]],
    ] as const;
    for (const [output, steps] of retries) {
      writeFileSync(failing, stageOf(100));
      const read = dataset.jsonl(input).limit(40).flatMap(`${failing}#repeated`);
      const path = join(folder, output);
      const { summary } = await read.run({ output: path, job: { shard: { rows: 16 } } });
      expect(summary.rows).toMatchObject({ failed: 8, results: lines(100).length });
      for (const failed of steps) {
        writeFileSync(failing, stageOf(failed));
        const { code, stderr } = await runSluice(["retry", output, "--quiet"], folder);
        expect(code, stderr).toBe(failed === 0 ? 0 : 1);
        const { manifest, damages } = await verify(path);
        expect(damages).toEqual([]);
        expect(manifest?.rows.results).toBe(lines(failed).length);
        expect(await Array.fromAsync(results(path))).toEqual(lines(failed));
      }
    }
  });

  it("does not ask rows of functions again, which went with their program", async () => {
    const failing = dataset.from([{ id: 1 }]).map((row): typeof row => {
      throw new Error(`no ${row.id}`);
    });
    await failing.run({ output: join(folder, "of-functions") });
    const { stderr } = await runSluice(["retry", "of-functions"], folder);
    expect(stderr).toContain("stage 1 is a function of the program of this run");
  });

  it("names the row that ends its process, and its stage, when it is only read", async () => {
    const killing = join(folder, "killing.ts");
    writeFileSync(
      killing,
      `export const killing = (batch: { id: number }[]) => {
        if (batch.some(({ id }) => id === 13)) process.kill(process.pid, "SIGKILL");
        return batch;
      };`,
    );
    const read = dataset.from(rows.slice(0, 30)).mapBatches(`${killing}#killing`, { batchSize: 8 });
    const retries = { job: { retries: { maxAttempts: 2 } } };
    await expect(read.count(retries)).rejects.toThrow(
      /^stage 1 mapBatches killing: the engine ended unexpectedly: .*SIGKILL.* \(row 14\)$/,
    );
  });

  it("goes on with smaller batches where a process dies for want of memory", async () => {
    const output = join(folder, "exhausted");
    const { summary, error } = await dataset
      .from(rows.slice(0, 40))
      .mapBatches<{ id: number }>(stages, { batchSize: 16 })
      .run({ output });
    expect(error).toBeUndefined();
    expect(summary.rows).toMatchObject({ answered: 40, failed: 0 });
    expect(resultsIn(output)).toEqual(rows.slice(0, 40).map(({ id }) => ({ id })));
  });

  it("starts three replicas of five CPUs on sixteen, and says that eight were wanted", async () => {
    const notices: string[] = [];
    const pids = await dataset
      .from(rows)
      .mapBatches<{ pid: number }>(`${pidModule()}#Pids`, {
        ...{ batchSize: 8, numCpus: 5, concurrency: 8 },
      })
      .run({
        output: join(folder, "sixteen"),
        resources: { cpus: 16 },
        onEvent: (event) => {
          if (event.type === "notice") notices.push(event.message);
        },
      });
    expect(pids.stages[0]).toMatchObject({ replicas: 3 });
    expect(notices.join()).toMatch(/concurrency 8 runs with 3 replicas: each takes 5 of 16 CPUs/);
    const found = resultsIn(join(folder, "sixteen")) as { pid: number }[];
    expect(new Set(found.map(({ pid }) => pid)).size).toBe(3);
  });
});

function pidModule(): string {
  const path = join(folder, "pids.ts");
  writeFileSync(
    path,
    `export class Pids {
      async call(batch: object[]) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        return batch.map(() => ({ pid: process.pid }));
      }
    }`,
  );
  return path;
}
