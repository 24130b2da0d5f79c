import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStorage } from "../../../src/data/storage/open.ts";
import { verifyRun } from "../../../src/run/seal/verify.ts";
import {
  carriedOut,
  copyOf,
  filesOf,
  preparedRun,
  putText,
  resealed,
  retried,
  scratchFolder,
  textOf,
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

const verified = ({ location }: WholeRun) =>
  verifyRun(openStorage(location.directory), openStorage(location.outside));

/** The files that verify finds at fault after a damage. */
async function found(run: WholeRun): Promise<string[]> {
  const { damages } = await verified(run);
  return [...new Set(damages.map(({ file }) => file))];
}

const linesOf = (run: WholeRun, path: string) => textOf(run, path).trimEnd().split("\n");
const commitOf = (run: WholeRun, task: number) =>
  filesOf(run).find((path) => path.startsWith(`_sluice/commits/${task}.`))!;
const putLines = (run: WholeRun, path: string, lines: string[]) =>
  putText(run, path, lines.map((line) => `${line}\n`).join(""));

describe("verifyRun passes", () => {
  it.each([
    ["parts", () => parts],
    ["a merged file", () => merged],
    ["a retried run", () => again],
  ])("%s, where they were made and moved", async (_name, run) => {
    for (const place of [run(), copyOf(run())]) {
      const { damages, checked, manifest } = await verified(place);
      expect(damages).toEqual([]);
      expect(checked).toMatchObject({ tasks: 5, rows: 23 });
      expect(manifest?.rows.failed).toBe(run() === again ? 1 : 4);
    }
  });

  it("nothing that is no run, and names an unsealed one", async () => {
    const folder = scratchFolder();
    await expect(verifyRun(openStorage(folder), openStorage(folder))).rejects.toThrow(
      expect.objectContaining({ code: "NOT_A_RUN" }),
    );
    const run = copyOf(parts);
    rmSync(join(run.location.directory, "_SUCCESS"));
    expect((await verified(run)).damages).toEqual([
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
    const run = copyOf(parts);
    putLines(run, part, change(linesOf(run, part)));
    expect(await found(run)).toEqual([part]);
  });

  it.each(damages)("%s in a merged file, with its task", async (_name, change) => {
    const run = copyOf(merged);
    const path = join(run.location.outside, "y.jsonl");
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    // Rows 10 to 13 of task 2 are results 8 to 11: two rows before them failed.
    const changed = [...lines.slice(0, 8), ...change(lines.slice(8, 12)), ...lines.slice(12)];
    writeFileSync(path, changed.map((line) => `${line}\n`).join(""));
    const { damages: problems } = await verified(run);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatchObject({ file: "y.jsonl" });
    expect(problems[0]!.problem).toContain("rows of task 2 are not as committed");
  });

  it("rows moved from one part to another", async () => {
    const run = copyOf(parts);
    const [first, ...rest] = linesOf(run, part);
    putLines(run, part, rest);
    putLines(run, "part-00003.jsonl", [...linesOf(run, "part-00003.jsonl"), first!]);
    expect(await found(run)).toEqual([part, "part-00003.jsonl"]);
  });

  it("a part exchanged for another, and the end of a line lost", async () => {
    const run = copyOf(parts);
    putText(run, part, textOf(run, "part-00001.jsonl"));
    putText(run, "part-00003.jsonl", textOf(run, "part-00003.jsonl").trimEnd());
    expect(await found(run)).toEqual([part, "part-00003.jsonl"]);
  });

  it("a part that no commit knows, also beside a merged file", async () => {
    for (const original of [parts, merged]) {
      const run = copyOf(original);
      putText(run, "part-00005.jsonl", "{}\n");
      expect(await found(run)).toEqual(["part-00005.jsonl"]);
    }
  });
});

describe("verifyRun names every file", () => {
  /** Nothing is stated of these: who ruled, who worked, what was said, and what clean removes. */
  const unsealed =
    /^_sluice\/(coordinators|workers|events|probe|attempts\/(.*(part|dead-let)|\w+\/g2))/;
  const sealed = (run: WholeRun) =>
    filesOf(run).filter((path) => !unsealed.test(path) && !isRetryDraft(path));
  const isRetryDraft = (path: string) =>
    /^_sluice\/generations\/\d\/(part|dead-letters|ready|merged)/.test(path) ||
    path === "_manifest.json";

  it("that is removed", async () => {
    const paths = sealed(parts);
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) {
      const run = copyOf(parts);
      rmSync(join(run.location.directory, path));
      expect(await found(run), path).toContain(path);
    }
    const run = copyOf(merged);
    rmSync(join(run.location.outside, "y.jsonl"));
    expect(await found(run)).toEqual(["y.jsonl"]);
  });

  it("of which one byte is flipped", async () => {
    for (const original of [parts, again]) {
      for (const path of sealed(original)) {
        const whole = Buffer.from(textOf(original, path), "utf8");
        for (const at of [0, Math.floor(whole.length / 2), whole.length - 1]) {
          const run = copyOf(original);
          const bytes = Buffer.from(whole);
          bytes[at]! ^= 1;
          putText(run, path, bytes);
          expect(await found(run), `${path} at ${at}`).toContain(path);
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
    let target = value as Record<string, never>;
    for (const key of path.slice(0, -1)) target = target[key]!;
    (target[path.at(-1)!] as number)++;
  }

  it("so that a changed number is found even where _SUCCESS vouches for it", async () => {
    for (const original of [parts, merged, again]) {
      const name = original === again ? "_manifest.g2.json" : "_manifest.json";
      const manifest = JSON.parse(textOf(original, name));
      // The engine's own choices are what it said of itself; `format` has no other value yet.
      const paths = numbersIn(manifest).filter(([key]) => key !== "engine" && key !== "format");
      expect(paths.length).toBeGreaterThan(40);
      const run = copyOf(original);
      for (const path of paths) {
        const change = (it: unknown) => raise(it, path);
        const [before, success] = [textOf(run, name), textOf(run, "_SUCCESS")];
        resealed(run, change);
        expect(await found(run), path.join(".")).not.toEqual([]);
        putText(run, name, before);
        putText(run, "_SUCCESS", success);
      }
    }
  });

  it("and says what it is and what it should be", async () => {
    const run = copyOf(parts);
    resealed(run, (manifest) => {
      manifest.rows.failed = 3;
    });
    const { damages } = await verified(run);
    expect(damages).toHaveLength(1);
    expect(damages[0]!.file).toBe("_manifest.json");
    expect(damages[0]!.problem).toMatch(/^rows is \{.*"failed":3.*by the commits \{.*"failed":4/);
  });

  it("and finds results that were changed together with their checksum", async () => {
    const run = copyOf(parts);
    const part = textOf(run, "part-00001.jsonl").replace("row", "raw");
    putText(run, "part-00001.jsonl", part);
    const { createHash } = await import("node:crypto");
    const sha256 = createHash("sha256").update(part).digest("hex");
    resealed(run, ({ tasks }) => {
      tasks[1]!.part!.sha256 = sha256;
    });
    expect((await verified(run)).damages).toMatchObject([
      { file: "_manifest.json", problem: expect.stringContaining("part of task 1") },
    ]);
  });

  it("and survives a manifest that lacks half of itself", async () => {
    const whole = JSON.parse(textOf(parts, "_manifest.json"));
    for (const key of Object.keys(whole)) {
      const run = copyOf(parts);
      resealed(run, (manifest) => {
        delete (manifest as unknown as Record<string, unknown>)[key];
      });
      const unchecked = ["format", "engine", "sealedAt", "name", "merged"];
      const files = await found(run);
      if (!unchecked.includes(key)) expect(files, key).toContain("_manifest.json");
    }
    for (const text of ["[]", "null", "7", "{", ""]) {
      const run = copyOf(parts);
      putText(run, "_manifest.json", text);
      expect(await found(run), text).toContain("_manifest.json");
    }
  });
});

it("names a commit of a task that was never planned", async () => {
  const run = copyOf(parts);
  putText(run, commitOf(run, 1).replace("/1.", "/5."), textOf(run, commitOf(run, 1)));
  expect(await found(run)).toEqual(["_sluice/commits/5.*"]);
});
