import { rmSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import type { Storage } from "../../../src/data/storage/storage.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { SluiceError } from "../../../src/foundation/errors.ts";
import {
  firstResults,
  type ResultsOptions,
  resultChunks,
} from "../../../src/run/status/results.ts";
import { watchedReaders } from "../run-fixture.ts";
import {
  carriedOut,
  filesOf,
  preparedRun,
  putText,
  retried,
  scratchFolder,
  textOf,
  type WholeRun,
} from "../whole-run.ts";

async function read({ location }: WholeRun, options: Partial<ResultsOptions> = {}) {
  const chunks = resultChunks(openStorage(location.directory), openStorage(location.outside), {
    failed: false,
    follow: false,
    clock: systemClock,
    ...options,
  });
  let text = "";
  for (;;) {
    const next = await chunks.next();
    if (next.done) return { text, ...next.value };
    text += Buffer.from(next.value).toString();
  }
}

/** Takes the seal and the commit of one task away, as if the run still went on. */
function unseal(run: WholeRun, task: number): { path: string; commit: string } {
  const path = filesOf(run).find((it) => it.startsWith(`_sluice/commits/${task}.`))!;
  const commit = textOf(run, path);
  for (const gone of ["_SUCCESS", "_manifest.json", "_sluice/seals", path]) {
    rmSync(join(run.location.directory, gone), { recursive: true });
  }
  return { path, commit };
}

/** A storage whose files of attempts go away once some bytes, or the first file, were read. */
function cleanedMeanwhile(inner: Storage, tearsAt: "bytes" | "file") {
  const found = { torn: 0, storage: inner };
  let opened = 0;
  const open: Storage["open"] = async (path) => {
    const reader = await inner.open(path);
    if (!path.startsWith("_sluice/attempts/")) return reader;
    const isFirst = opened++ === 0;
    const read = async (offset: number, length: number) => {
      if (tearsAt === "file" && isFirst) return await reader.read(offset, length);
      if (tearsAt === "bytes" && offset === 0) return await reader.read(0, 10);
      found.torn++;
      throw new SluiceError("NOT_FOUND", "", { file: path });
    };
    return { bytes: reader.bytes, read, close: () => reader.close() };
  };
  found.storage = new Proxy(inner, {
    get: (target, name: keyof Storage) => {
      const value = name === "open" ? open : target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return found;
}

const idsIn = (text: string) =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line).id as number);

const answered = [0, 1, 2, 3, 5, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 21, 22];

describe("resultChunks", () => {
  it("holds no file once its reader has left, in whatever form", async () => {
    for (const output of ["out", "y.jsonl", "y.csv"]) {
      const run = preparedRun(scratchFolder(), undefined, {}, output);
      await carriedOut(run);
      const { directory, outside } = run.location;
      const [here, beside] = [directory, outside].map((at) => watchedReaders(openStorage(at)));
      const options = { failed: false, follow: false, clock: systemClock };
      for await (const _ of resultChunks(here!.storage, beside!.storage, options)) break;
      expect([here!.open, beside!.open], output).toEqual([[], []]);
    }
  });

  it("gives a sealed run in input order, from parts and from a merged file", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = preparedRun(scratchFolder(), undefined, {}, output);
      await carriedOut(run);
      const { text, gap } = await read(run);
      expect({ ids: idsIn(text), gap }).toEqual({ ids: answered, gap: undefined });
    }
  });

  it("gives the dead letters instead", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const { text } = await read(run, { failed: true });
    const letters = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(letters.map(({ index, code }) => [index, code])).toEqual([
      [4, "JSON_INVALID"],
      [6, "VARIABLE_MISSING"],
      [13, "VARIABLE_MISSING"],
      [20, "VARIABLE_MISSING"],
    ]);
  });

  it("ends at the first task that is not committed, and says which", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = preparedRun(scratchFolder(), undefined, {}, output);
      await carriedOut(run);
      unseal(run, 2);
      const { text, gap, tasks } = await read(run);
      expect({ ids: idsIn(text), gap, tasks }).toEqual({
        ids: answered.filter((id) => id < 10),
        gap: 2,
        tasks: 5,
      });
    }
  });

  it("waits for a task when it follows, and goes on once it is committed", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const { path, commit } = unseal(run, 2);
    const waited: number[] = [];
    const onWait = (task: number) => {
      waited.push(task);
      putText(run, path, commit);
    };
    const { text, gap } = await read(run, { follow: true, onWait });
    expect({ ids: idsIn(text), gap, waited }).toEqual({
      ids: answered,
      gap: undefined,
      waited: [2],
    });
  });

  it("ends its waiting when it is told to", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    unseal(run, 0);
    const stop = new AbortController();
    const { gap } = await read(run, {
      follow: true,
      signal: stop.signal,
      onWait: () => stop.abort(),
    });
    expect(gap).toBe(0);
  });

  it("gives what a retry put in the place of failures, in its place", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    await retried(run, "Say {{ text | default('nothing') }}");
    expect(idsIn((await read(run)).text)).toEqual([...Array(23).keys()].filter((id) => id !== 4));
    const { text } = await read(run, { failed: true });
    expect(JSON.parse(text).code).toBe("JSON_INVALID");
  });

  it("reads on in what is published where a cleaning takes sources away meanwhile", async () => {
    for (const output of ["out", "y.jsonl"]) {
      const run = preparedRun(scratchFolder(), undefined, {}, output);
      await carriedOut(run);
      for (const failed of [false, true]) {
        const whole = await read(run, { failed });
        const isOfLines = output === "y.jsonl" && !failed;
        const directory = openStorage(run.location.directory);
        const cleaned = cleanedMeanwhile(directory, isOfLines ? "file" : "bytes");
        const options = { failed, follow: false, clock: systemClock };
        const chunks = await Array.fromAsync(
          resultChunks(cleaned.storage, openStorage(run.location.outside), options),
        );
        expect(Buffer.concat(chunks).toString()).toBe(whole.text);
        expect(cleaned.torn).toBeGreaterThan(0);
      }
    }
  });

  it("refuses what is no run", async () => {
    await expect(
      read({ location: { directory: "/nowhere/out", outside: "/nowhere" } } as WholeRun),
    ).rejects.toMatchObject({ code: "NOT_A_RUN" });
  });
});

describe("firstResults", () => {
  it("reads no more than it was asked for", async () => {
    const run = preparedRun(scratchFolder());
    await carriedOut(run);
    const { directory, outside } = run.location;
    const storages = [openStorage(directory), openStorage(outside)] as const;
    expect(await firstResults(...storages, 2, systemClock)).toMatchObject([{ id: 0 }, { id: 1 }]);
    expect(await firstResults(...storages, 99, systemClock)).toHaveLength(19);
  });
});
