import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { results } from "../../src/api/inspect.ts";
import { fileNameOf, fileNameOfRows } from "../../src/dataset/barrier.ts";
import { generate } from "../../src/dataset/generate.ts";
import { dataset } from "../../src/dataset/sources.ts";
import { limits } from "../../src/foundation/limits.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import { numbered, rejection, words } from "./numbered-rows.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-dataset-barriers-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
afterEach(() => vi.unstubAllEnvs());

const at = (name: string) => join(folder, name);

/** A file of these lines. */
function fileOf(name: string, ...lines: string[]): string {
  writeFileSync(at(name), lines.map((line) => `${line}\n`).join(""));
  return at(name);
}

const resultsOf = (output: string) => Array.fromAsync(results(output));
const idsOf = async (output: string) =>
  (await resultsOf(output)).map(({ id }) => Number(id)).sort((a, b) => a - b);

const model = { engine: "fake" } as const;

describe("a run behind steps that need all rows", () => {
  it("has the rows of its own earlier run if it is forked", async () => {
    const output = at("forked");
    const rows = (by: number) =>
      dataset
        .from(numbered(4))
        .map(({ id }) => ({ id: by * id }), { closure: { by } })
        .shuffle();
    await rows(1).run({ output });
    const { summary } = await rows(10).run({ output, fork: true });
    expect(summary.output).not.toBe(output);
    expect(await idsOf(summary.output)).toEqual([0, 10, 20, 30]);
  });

  it("leaves out broken rows of a file, as dead letters of the run before", async () => {
    const input = fileOf("broken.jsonl", '{"id":0}', '{"id":1,', '{"id":2}', '{"id":3}');
    const rows = dataset
      .jsonl(input)
      .shuffle({ seed: 1 })
      .map(({ id }) => ({ id: id! }));
    const output = at("sound");
    const notices: string[] = [];
    const onEvent = (event: RunEvent) => {
      if (event.type === "notice") notices.push(event.message);
    };
    for (let call = 0; call < 2; call++) {
      const { summary, before, exitCode, error } = await rows.run({ output, onEvent });
      expect([error, exitCode, summary.rows.total]).toEqual([undefined, 1, 3]);
      const failed = { rows: { total: 4, failed: 1 }, errors: { JSON_INVALID: 1 } };
      expect(before).toMatchObject([failed]);
    }
    expect(await idsOf(output)).toEqual([0, 2, 3]);
    expect(notices.join("\n")).toContain("1 row failed before shuffle");
    expect((await rejection(rows.take(9))).code).toBe("JSON_INVALID");
  });

  it("leaves out rows that do not fit their schema, and types the others", async () => {
    const input = fileOf("unfit.csv", "id,$type", "1,a", "x,b", "2,c");
    const rows = dataset.csv(input, z.object({ id: z.number(), $type: z.string() })).sample(2);
    const { before } = await rows.run({ output: at("fitting") });
    expect(before).toMatchObject([{ errors: { ROW_SCHEMA: 1 } }]);
    expect(await resultsOf(at("fitting"))).toEqual([
      { id: 1, $type: "a" },
      { id: 2, $type: "c" },
    ]);
  });

  it("is not planned before models behind which it lies have answered", async () => {
    const output = at("asked");
    const asked = dataset
      .from(numbered(3))
      .pipe(generate({ model, prompt: "{{ text }}" }))
      .shuffle();
    const error = await rejection(asked.plan({ output }));
    expect(error).toMatchObject({ code: "UNSUPPORTED" });
    expect(error.message).toContain("after shuffle");
    await asked.run({ output });
    expect((await asked.plan({ output })).rows).toBe(3);
  });

  it("is the earlier run if that stops, and goes on with it", async () => {
    const output = at("stopped");
    const stop = new AbortController();
    const rows = dataset
      .from(numbered(2000))
      .map((row) => {
        if (row.id === 20) stop.abort();
        return row;
      })
      .shuffle();
    const stopped = await rows.run({ output, signal: stop.signal });
    expect(stopped.error?.code).toBe("RUN_CANCELED");
    expect(stopped).toMatchObject({ before: [], exitCode: 75 });
    expect(stopped.summary.rows.total).toBe(2000);
    expect(existsSync(output)).toBe(false);
    const { error, summary } = await rows.run({ output, onEvent() {} });
    expect([error, summary.rows.answered]).toEqual([undefined, 2000]);
  });

  it("does not begin if it is canceled while the rows are read", async () => {
    const input = fileOf("many.jsonl", ...numbered(2000).map((row) => JSON.stringify(row)));
    const rows = dataset.jsonl(input).shuffle();
    const output = at("unread");
    const error = await rejection(rows.run({ output, signal: AbortSignal.abort() }));
    expect(error).toMatchObject({ code: "RUN_CANCELED" });
    const files = existsSync(`${output}.stages`) ? readdirSync(`${output}.stages`) : [];
    expect(files.filter((name) => name.endsWith(".jsonl"))).toEqual([]);
    const signal = AbortSignal.abort("enough");
    expect(await rejection(rows.take(1, { signal }))).toBe("enough");
  });

  it("tells what all stages did, numbered through", async () => {
    const rows = words(9)
      .shuffle()
      .map((row) => row)
      .mapBatches((batch) => batch, { name: "same" });
    const { stages } = await rows.run({ output: at("counted") });
    const counts = [stages, await rows.stats()];
    for (const states of counts) {
      expect(states.map(({ stage }) => stage)).toEqual([
        "1 filter, 2 flatMap",
        "3 map",
        "4 mapBatches same",
      ]);
      expect(states.map(({ rowsIn, rowsOut }) => [rowsIn, rowsOut])).toEqual([
        [9, 6],
        [6, 6],
        [6, 6],
      ]);
    }
  });

  it("keeps rows of files as they are behind a union, with a limit too", async () => {
    const own = '{"$type":"Date","value":0}';
    const [one, other] = [fileOf("own.jsonl", own, own), fileOf("other.jsonl", own)];
    const all = dataset.jsonl(one).limit(1).union(dataset.jsonl(other));
    expect(await all.takeAll()).toEqual([JSON.parse(own), JSON.parse(own)]);
    await all.writeJsonl(at("united.jsonl"));
    expect(readFileSync(at("united.jsonl"), "utf8")).toBe(`${own}\n${own}\n`);
    const mixed = dataset
      .jsonl(one)
      .limit(1)
      .union(dataset.from([{ at: new Date(1) }]));
    expect(await mixed.takeAll()).toEqual([JSON.parse(own), { at: new Date(1) }]);
  });

  it("gets large numbers as they were, and bigints as bigints", async () => {
    const row = { large: 1e20, whole: 2n ** 60n, list: [-(2 ** 60)] };
    const rows = dataset.from([row]).shuffle();
    expect(await rows.take(1)).toEqual([row]);
    const made = rows.map((each) => ({ ...each, more: each.large * 10 })).shuffle();
    expect(await made.take(1)).toEqual([{ ...row, more: 1e21 }]);
  });

  it("takes rows that are longer than a line of a file may be", async () => {
    const text = "x".repeat(limits.maxLineBytes);
    const rows = dataset.from([{ text }]).map((row) => row);
    const sizes = rows.shuffle().map((row) => ({ size: row.text.length }));
    const output = at("long");
    for (let call = 0; call < 2; call++) {
      const { summary } = await sizes.run({ output, onEvent() {} });
      expect(summary.rows).toMatchObject({ answered: 1, failed: 0 });
    }
  });

  it("keeps the names of its files", () => {
    for (const rows of [[], numbered(1), numbered(3000)]) {
      expect(fileNameOfRows(rows as never[])).toBe(fileNameOf("rows", rows));
    }
  });

  it("finds its places in the user's home", async () => {
    vi.stubEnv("HOME", folder);
    await dataset.from(numbered(3)).shuffle().run({ output: "~/at-home" });
    expect(existsSync(at("at-home.stages"))).toBe(true);
    expect(existsSync("~")).toBe(false);
    expect(await idsOf("~/at-home")).toEqual([0, 1, 2]);
  });
});
