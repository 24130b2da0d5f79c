import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { expect, onTestFinished } from "vitest";
import type { CatalogEntry } from "../../../src/engines/models/catalog.ts";
import type { FetchTask } from "../../../src/engines/models/fetch-outcome.ts";
import type { ModelContext } from "../../../src/engines/models/model-context.ts";
import { systemClock } from "../../../src/foundation/clock.ts";
import { sha256Hex } from "../../../src/foundation/hashing.ts";
import { silentLogger } from "../../../src/foundation/logger.ts";
import { mix32, seededRandom } from "../../../src/foundation/random.ts";

/** A folder that is removed when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** A context with a home of its own; waits between tries are a thousandth of the real ones. */
export async function modelContext(
  environment: Record<string, string> = {},
): Promise<ModelContext & { homeDirectory: string }> {
  return {
    clock: {
      ...systemClock,
      schedule: (delayMs, callback) => systemClock.schedule(delayMs / 1000, callback),
    },
    random: seededRandom(1),
    logger: silentLogger,
    environment,
    homeDirectory: await temporaryFolder(),
  };
}

/** Bytes that begin as a GGUF file does. */
export function ggufBytes(length: number, seed = 1): Buffer {
  const bytes = Buffer.from(
    Array.from({ length }, (_, index) => mix32(seed * 65_536 + index) % 256),
  );
  bytes.write("GGUF", 0, "latin1");
  return bytes;
}

/** A catalog of one model, whose file is `file`. */
export function catalogOf(file: Buffer, mirrors: CatalogEntry["mirrors"]): [CatalogEntry] {
  return [
    {
      name: "tiny",
      description: "for tests",
      file: "tiny.gguf",
      bytes: file.length,
      sha256: sha256Hex(file),
      licence: "Apache-2.0",
      page: "about:blank",
      quantisation: "none",
      contextTokens: 8,
      mirrors,
    },
  ];
}

/** A PATH on which `name` is a shell script. */
export async function pathWithProgram(name: string, script: string): Promise<string> {
  const folder = join(await temporaryFolder(), "bin");
  await mkdir(folder);
  await writeFile(join(folder, name), `#!/bin/sh\n${script}\n`);
  await chmod(join(folder, name), 0o755);
  return [folder, "/usr/bin", "/bin"].join(delimiter);
}

/** A `python3` whose pip "downloads" a wheel that holds `content`. */
export async function pythonWithWheel(content: Buffer): Promise<string> {
  const folder = await temporaryFolder();
  await writeFile(join(folder, "content"), content);
  const program = [
    "import sys, zipfile",
    "wheel = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)",
    "wheel.write(sys.argv[2], 'tiny/tiny.gguf')",
  ].join("\n");
  const zipped = join(folder, "tiny.whl");
  expect(spawnSync("python3", ["-c", program, zipped, join(folder, "content")]).status).toBe(0);
  const script = `while [ "$1" != "-d" ]; do shift; done; cp ${zipped} "$2/tiny-1-any.whl"`;
  return pathWithProgram("python3", script);
}

/** The fetch of one file into an empty folder, whose lock is held. */
export async function fetchTask(
  more: Partial<FetchTask> = {},
  environment: Record<string, string> = {},
): Promise<FetchTask> {
  const context = await modelContext(environment);
  const part = join(context.homeDirectory, "tiny.gguf.part");
  const calls = { assertHeld: () => {}, onProgress: () => {} };
  return { name: "tiny", part, expected: {}, context, hasOtherMirror: true, ...calls, ...more };
}
