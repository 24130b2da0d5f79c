import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { localStorage as openStorage } from "../../../src/data/storage/local.ts";
import { memoryStorage } from "../../../src/data/storage/memory.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import type { Manifest } from "../../../src/run/seal/manifest.ts";
import type { Seal } from "../../../src/run/seal/seals.ts";
import { verifyRun } from "../../../src/run/seal/verify.ts";
import {
  carriedOut,
  copyOf,
  filesOf,
  preparedRun,
  retried,
  scratchFolder,
  type WholeRun,
} from "../whole-run.ts";

const folders: string[] = [];
let parts: WholeRun;
let merged: WholeRun;
let again: WholeRun;

/** Runs that every test damages a copy of. */
beforeAll(async () => {
  const folder = () => {
    folders.push(mkdtempSync(join(tmpdir(), "sluice-verify-")));
    return folders.at(-1)!;
  };
  parts = preparedRun(folder());
  merged = preparedRun(folder(), undefined, {}, "y.jsonl");
  again = preparedRun(folder());
  for (const run of [parts, merged, again]) await carriedOut(run);
  await retried(again, "Say {{ text | default('nothing') }}");
});

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const mergedName = "y.jsonl";

/** A copy of a run in memory, for damaging it and looking what verify says. */
class Copy {
  readonly files = new Map<string, Buffer>();

  constructor(run: WholeRun) {
    const { directory, outside, mergedFile } = run.location;
    for (const path of filesOf(run)) this.files.set(path, readFileSync(join(directory, path)));
    if (mergedFile) this.files.set(mergedName, readFileSync(join(outside, mergedName)));
  }

  text(path: string): string {
    return this.files.get(path)!.toString();
  }

  put(path: string, content: string | Buffer): void {
    this.files.set(path, Buffer.from(content));
  }

  lines(path: string): string[] {
    return this.text(path).trimEnd().split("\n");
  }

  putLines(path: string, lines: readonly string[]): void {
    this.put(path, lines.map((line) => `${line}\n`).join(""));
  }

  /** Changes the manifest, and makes the seal vouch for it, as somebody who cheats would. */
  reseal(change: (manifest: Manifest) => void): void {
    const sealPath = [...this.files.keys()].findLast((path) => path.startsWith("_sluice/seals/"))!;
    const seal = JSON.parse(this.text(sealPath)) as Seal;
    const { manifest: published, generation } = JSON.parse(this.text("_SUCCESS"));
    const manifest = JSON.parse(this.text(published)) as Manifest;
    change(manifest);
    const text = `${JSON.stringify(manifest, null, 1)}\n`;
    const sha256 = sha256Hex(text);
    for (const path of [published, seal.manifest!.path]) this.put(path, text);
    this.put("_SUCCESS", `${JSON.stringify({ generation, manifest: published, sha256 })}\n`);
    this.put(sealPath, `${JSON.stringify({ ...seal, manifest: { ...seal.manifest, sha256 } })}\n`);
  }

  async damages() {
    const [inside, outside] = [memoryStorage(), memoryStorage()];
    for (const [path, bytes] of this.files) {
      await (path === mergedName ? outside : inside).replace(path, bytes);
    }
    return (await verifyRun(inside, outside)).damages;
  }

  /** The files that verify finds at fault. */
  async found(): Promise<string[]> {
    return [...new Set((await this.damages()).map(({ file }) => file))];
  }
}

describe("verifyRun passes", () => {
  it.each([
    ["parts", () => parts],
    ["a merged file", () => merged],
    ["a retried run", () => again],
  ])("%s, where they were made and moved", async (_name, run) => {
    for (const { location } of [run(), copyOf(run())]) {
      const storages = [location.directory, location.outside].map((it) => openStorage(it));
      const { damages, checked, manifest } = await verifyRun(storages[0]!, storages[1]!);
      expect(damages).toEqual([]);
      expect(checked).toMatchObject({ tasks: 5, rows: 23 });
      expect(manifest?.rows.failed).toBe(run() === again ? 1 : 4);
    }
  });

  it("nothing that is no run, and names an unsealed one", async () => {
    const folder = scratchFolder();
    await expect(verifyRun(openStorage(folder), openStorage(folder))).rejects.toMatchObject({
      code: "NOT_A_RUN",
    });
    const run = new Copy(parts);
    for (const path of run.files.keys()) {
      if (/^_SUCCESS|^_sluice\/seals/.test(path)) run.files.delete(path);
    }
    expect(await run.damages()).toEqual([
      { file: "_SUCCESS", problem: "it is missing: the run is not sealed" },
    ]);
  });
});

describe("verifyRun names the file of a result that is damaged:", () => {
  const part = "part-00002.jsonl";
  const damages: [string, (lines: string[]) => string[]][] = [
    ["a row dropped", ([, ...rest]) => rest],
    ["a row doubled", ([first, ...rest]) => [first!, first!, ...rest]],
    ["two rows swapped", ([first, second, ...rest]) => [second!, first!, ...rest]],
    ["an answer changed", ([first, ...rest]) => [first!.replace("row", "raw"), ...rest]],
    ["a number's digits", ([first, ...rest]) => [first!.replace('"id":10', '"id":10.0'), ...rest]],
  ];

  it.each(damages)("%s", async (_name, change) => {
    const run = new Copy(parts);
    run.putLines(part, change(run.lines(part)));
    expect(await run.found()).toEqual([part]);
  });

  it.each(damages)("%s in a merged file, with its task", async (_name, change) => {
    const run = new Copy(merged);
    const lines = run.lines(mergedName);
    // Rows 10 to 13 of task 2 are results 8 to 11: two rows before them failed.
    const changed = [...lines.slice(0, 8), ...change(lines.slice(8, 12)), ...lines.slice(12)];
    run.putLines(mergedName, changed);
    const problems = await run.damages();
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({ file: "y.jsonl" });
    expect(problems[0]!.problem).toContain("rows of task 2 are not as committed");
  });

  it("rows moved from one part to another", async () => {
    const run = new Copy(parts);
    const [first, ...rest] = run.lines(part);
    run.putLines(part, rest);
    run.putLines("part-00003.jsonl", [...run.lines("part-00003.jsonl"), first!]);
    expect(await run.found()).toEqual([part, "part-00003.jsonl"]);
  });

  it("a part exchanged for another, and the end of a line lost", async () => {
    const run = new Copy(parts);
    run.put(part, run.text("part-00001.jsonl"));
    run.put("part-00003.jsonl", run.text("part-00003.jsonl").trimEnd());
    expect(await run.found()).toEqual([part, "part-00003.jsonl"]);
  });

  it("a part that no commit knows, also beside a merged file", async () => {
    for (const original of [parts, merged]) {
      const run = new Copy(original);
      run.put("part-00005.jsonl", "{}\n");
      expect(await run.found()).toEqual(["part-00005.jsonl"]);
    }
  });
});

describe("verifyRun names every file", () => {
  /** Nothing is stated of these: who led, who worked, what was said, and what clean removes. */
  const unsealed =
    /^_sluice\/(coordinators|workers|events|probe|attempts\/(.*(part|dead-let)|\w+\/g2))/;
  const sealed = (run: WholeRun) =>
    filesOf(run).filter((path) => !unsealed.test(path) && !isRetryDraft(path));
  const isRetryDraft = (path: string) =>
    /^_sluice\/generations\/\d\/(ready|\w+\/(part|dead-letters|merged))/.test(path) ||
    path === "_manifest.json";

  it("that is removed", async () => {
    const paths = sealed(parts);
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) {
      const run = new Copy(parts);
      run.files.delete(path);
      expect(await run.found(), path).toContain(path);
    }
    const run = new Copy(merged);
    run.files.delete(mergedName);
    expect(await run.found()).toEqual(["y.jsonl"]);
  });

  it("of which one byte is flipped", async () => {
    for (const original of [parts, again]) {
      for (const path of sealed(original)) {
        const whole = new Copy(original).files.get(path)!;
        for (const at of [0, Math.floor(whole.length / 2), whole.length - 1]) {
          const run = new Copy(original);
          const bytes = Buffer.from(whole);
          bytes[at]! ^= 1;
          run.put(path, bytes);
          expect(await run.found(), `${path} at ${at}`).toContain(path);
        }
      }
    }
  });
});

describe("verifyRun recomputes the manifest", () => {
  /** Every number in a value, as a path of keys. */
  function numbersIn(value: unknown, path: string[] = []): string[][] {
    if (typeof value === "number") return [path];
    if (typeof value !== "object" || value === null) return [];
    return Object.entries(value).flatMap(([key, inner]) => numbersIn(inner, [...path, key]));
  }

  function raise(value: unknown, path: string[]): void {
    let target = value as Record<string, unknown>;
    for (const key of path.slice(0, -1)) target = target[key] as Record<string, unknown>;
    const last = path.at(-1)!;
    target[last] = (target[last] as number) + 1;
  }

  it("so that a changed number is found even where _SUCCESS vouches for it", async () => {
    for (const original of [parts, merged, again]) {
      const name = original === again ? "_manifest.g2.json" : "_manifest.json";
      const manifest = JSON.parse(new Copy(original).text(name));
      // The engine's own choices are what it said of itself; `format` has no other value yet; what
      // of the bill follows from no commit is taken as it stands.
      const unchecked = /^(engine|format|bill\.wallSeconds$|bill\.paidTwice\.lost\.answers$)/;
      const paths = numbersIn(manifest).filter((path) => !unchecked.test(path.join(".")));
      expect(paths.length).toBeGreaterThan(40);
      const run = new Copy(original);
      for (const path of paths) {
        const change = (it: unknown) => raise(it, path);
        const before = new Map(run.files);
        run.reseal(change);
        expect(await run.found(), path.join(".")).not.toEqual([]);
        for (const [file, bytes] of before) run.files.set(file, bytes);
      }
    }
  });

  it("and says what it is and what it should be", async () => {
    const run = new Copy(parts);
    run.reseal((manifest) => {
      manifest.rows.failed = 3;
    });
    const damages = await run.damages();
    expect(damages).toHaveLength(1);
    expect(damages[0]!.file).toBe("_manifest.json");
    expect(damages[0]!.problem).toMatch(/^rows is \{.*"failed":3.*by the commits \{.*"failed":4/);
  });

  it("and finds results that were changed together with their checksum", async () => {
    const run = new Copy(parts);
    const part = run.text("part-00001.jsonl").replace("row", "raw");
    run.put("part-00001.jsonl", part);
    const sha256 = sha256Hex(part);
    run.reseal(({ tasks }) => {
      tasks[1]!.part!.sha256 = sha256;
    });
    expect(await run.damages()).toMatchObject([
      { file: "_manifest.json", problem: expect.stringContaining("part of task 1") },
    ]);
  });

  it("and survives a manifest that lacks half of itself", async () => {
    const whole = JSON.parse(new Copy(parts).text("_manifest.json"));
    for (const key of Object.keys(whole)) {
      const run = new Copy(parts);
      run.reseal((manifest) => {
        delete (manifest as unknown as Record<string, unknown>)[key];
      });
      const unchecked = ["format", "engine", "sealedAt", "name", "merged", "bill"];
      const files = await run.found();
      if (!unchecked.includes(key)) expect(files, key).toContain("_manifest.json");
    }
    for (const text of ["[]", "null", "7", "{", ""]) {
      const run = new Copy(parts);
      run.put("_manifest.json", text);
      expect(await run.found(), text).toContain("_manifest.json");
    }
  });
});

it("names a commit of a task that was never planned", async () => {
  const run = new Copy(parts);
  const first = [...run.files.keys()].find((path) => path.startsWith("_sluice/commits/1."))!;
  run.put(first.replace("/1.", "/5."), run.text(first));
  expect(await run.found()).toEqual(["_sluice/commits/5.*"]);
});
