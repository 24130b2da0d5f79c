import { createReadStream } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { InputStores } from "../../data/sources/open.ts";
import { schemeOf } from "../../data/storage/open.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { ProgramOfTask, ProgramPlaces, ProgramTry } from "../../engines/engine.ts";
import { asSluiceError, SluiceError } from "../../foundation/errors.ts";
import { sha256Hex, sha256Stream } from "../../foundation/hashing.ts";
import { sortableId } from "../../foundation/ids.ts";
import { type JsonObject, jsonObjectIn } from "../../foundation/json.ts";
import { lazily } from "../../foundation/lazily.ts";
import type { Processes, ProcessIdentity } from "../coordinate/processes.ts";
import { rowLogPath, stagedPath } from "../directory/layout.ts";
import { createOnce, readJson } from "../directory/records.ts";
import type { JobSpec } from "../job/schema.ts";
import { HashedFile, writeWhole } from "../output/hashed-file.ts";
import type { RunContext } from "../run-context.ts";
import { MountView, type ResultFile } from "./mount-view.ts";
import { ObjectCache, stagingFolder } from "./object-cache.ts";

/** A result that was staged out. */
interface StagedFile {
  mount: number;
  name: string;
  bytes: number;
  sha256: string;
}

/** Decides which try of a row gave the results: created once. */
interface StagedRecord {
  /** The try. */
  id: string;
  result: JsonObject;
  files: StagedFile[];
}

/** A try whose results do not count. */
interface Discarded extends Pick<StagedRecord, "id"> {
  files: readonly Pick<StagedFile, "mount" | "name">[];
}

type ProgramMount = Extract<JobSpec["model"], { engine: "program" }>["mounts"][number];

export interface ProgramPlacesOptions {
  context: RunContext;
  mounts: readonly Pick<ProgramMount, "path" | "location">[];
  inputs: InputStores;
  processes: Processes;
  /** Folder of this machine for copies of objects. */
  folder: string;
}

/**
 * The places of programs in a run. The log of each try is in the run directory. Objects of mounts
 * are copied to this machine before a program. Its results are stored beside their places, then one
 * record decides which try counts, and only then they get their names. So a name gets the results
 * of one try, and a program whose results were staged out does not run again.
 */
export function openProgramPlaces(options: ProgramPlacesOptions): ProgramPlaces {
  const { context, mounts, inputs, processes, folder } = options;
  const { storage, clock, random, worker, plan, openStorage } = context;
  const stages = mounts.map(({ path, location }) => ({
    path,
    storage: openStorage(location),
    cache: new ObjectCache(location, { inputs, clock, random, folder: join(folder, "objects") }),
  }));
  const outlet = new Outlet(storage, plan.generation, stages);
  const tries = join(folder, "tries");
  const ownPlace = lazily(() => ownFolder(tries, worker, processes));
  const begin = async ({ row }: ProgramOfTask, signal: AbortSignal): Promise<ProgramTry> => {
    const id = sortableId(clock, random);
    const done = stages.length > 0 ? await outlet.standing(row) : undefined;
    const views: MountView[] = [];
    const close = async () => {
      for (const view of views) await view.remove();
    };
    try {
      for (const [at, { cache }] of done ? [] : stages.entries()) {
        const place = join(await ownPlace(), `${id}-${at}`);
        views.push(await MountView.open(place, cache, signal));
      }
    } catch (error) {
      await close();
      throw signal.aborted ? signal.reason : mountFailed(error);
    }
    const path = rowLogPath(row, id);
    const appender = done ? undefined : await storage.appender(path, { isNew: true });
    return {
      ...{ worker, done },
      mounts: views.map((view, at) => ({ path: stages[at]!.path, place: view.folder })),
      log: async (line) => await appender?.append(Buffer.from(`${JSON.stringify(line)}\n`)),
      async succeed(result) {
        const whole = { ...result, log: path };
        if (stages.length === 0) return whole;
        try {
          return await outlet.stageOut(row, id, whole, views);
        } catch (error) {
          throw mountFailed(error);
        }
      },
      async close() {
        await appender?.close();
        await close();
      },
    };
  };
  const run = sha256Hex(`${storage.location} ${plan.runId}`).slice(0, 12);
  return { run, begin };
}

/**
 * The folder of a worker's tries. Those of workers that were killed are removed.
 *
 * @param tries folder of all workers of this machine.
 */
async function ownFolder(tries: string, worker: string, processes: Processes): Promise<string> {
  await mkdir(tries, { recursive: true });
  for (const name of await readdir(tries)) {
    const text = await readFile(join(tries, name, ownerName), "utf8").catch(() => "");
    const owner = jsonObjectIn(text) as ProcessIdentity | undefined;
    // One without an owner, or with a part of its name, is being made.
    if (owner === undefined || processes.look(owner) !== "dead") continue;
    await rm(join(tries, name), { recursive: true, force: true });
  }
  const own = join(tries, worker);
  const draft = join(tries, `.${worker}`);
  await mkdir(draft);
  await writeFile(join(draft, ownerName), JSON.stringify(processes.self()));
  await rename(draft, own);
  return own;
}

const ownerName = "owner.json";

interface Stage {
  storage: Storage;
}

/** Brings results to their places. */
class Outlet {
  readonly #run: Storage;
  readonly #generation: number;
  readonly #stages: readonly Stage[];

  constructor(run: Storage, generation: number, stages: readonly Stage[]) {
    this.#run = run;
    this.#generation = generation;
    this.#stages = stages;
  }

  #recordOf(row: number): string {
    return stagedPath(row, { generation: this.#generation });
  }

  /** The result of a try that counts, whose files all have their names now. */
  async standing(row: number): Promise<JsonObject | undefined> {
    const record = await readJson<StagedRecord>(this.#run, this.#recordOf(row));
    if (record) await this.#publish(record);
    return record?.result;
  }

  /** @returns the result that counts, which is another one's if that was first. */
  async stageOut(
    row: number,
    id: string,
    result: JsonObject,
    views: readonly MountView[],
  ): Promise<JsonObject> {
    const found: (ResultFile & { mount: number })[] = [];
    for (const [mount, view] of views.entries()) {
      for (const file of await view.results()) found.push({ mount, ...file });
    }
    if (found.length === 0) return result;
    const files: StagedFile[] = [];
    try {
      for (const file of found) files.push(await this.#store(file.mount, file, id));
    } catch (error) {
      await this.#discard({ id, files: found }).catch(() => {});
      throw error;
    }
    const own: StagedRecord = {
      id,
      result: { ...result, files: files.map((each) => ({ ...each })) },
      files,
    };
    const { won, record } = await createOnce(this.#run, this.#recordOf(row), own, (it) => it.id);
    if (!won) await this.#discard(own);
    await this.#publish(record);
    return record.result;
  }

  async #store(mount: number, { name, file, bytes }: ResultFile, id: string): Promise<StagedFile> {
    const { storage } = this.#stages[mount]!;
    const path = stagedName(id, name);
    const { sha256 } = await writeWhole(await HashedFile.open(storage, path), async (stored) => {
      for await (const chunk of createReadStream(file)) await stored.write(chunk as Buffer);
    });
    await assertStored(storage, path, { bytes, sha256 });
    return { mount, name, bytes, sha256 };
  }

  /** Gives files their names; what an earlier process has done is left. */
  async #publish({ id, files }: StagedRecord): Promise<void> {
    for (const { mount, name } of files) {
      const { storage } = this.#stages[mount]!;
      const staged = stagedName(id, name);
      try {
        await storage.publish(staged, name);
        await storage.remove(staged);
      } catch (error) {
        // Published and removed before; a later task may have written the same name since.
        const isThere = (await storage.stat(name)) !== undefined;
        if (asSluiceError(error).code !== "NOT_FOUND" || !isThere) throw error;
      }
    }
    await this.#removeFolders(id);
  }

  async #discard({ id, files }: Discarded): Promise<void> {
    for (const { mount, name } of files) {
      await this.#stages[mount]!.storage.remove(stagedName(id, name));
    }
    await this.#removeFolders(id);
  }

  /** A storage knows no folders, but those of this machine would stay. */
  async #removeFolders(id: string): Promise<void> {
    for (const { storage } of this.#stages) {
      if (schemeOf(storage.location) !== undefined) continue;
      const staging = join(storage.location, stagingFolder);
      await rm(join(staging, id), { recursive: true, force: true });
      // Others may be staging.
      await rmdir(staging).catch(() => {});
    }
  }
}

const stagedName = (id: string, name: string) => `${stagingFolder}${id}/${name}`;

/** Reads a stored file back. @throws SluiceError `MOUNT_FAILED` if it is another. */
async function assertStored(
  storage: Storage,
  path: string,
  { bytes, sha256 }: { bytes: number; sha256: string },
): Promise<void> {
  const reader = await storage.open(path);
  const digest = sha256Stream();
  let offset = 0;
  try {
    for (;;) {
      const chunk = await reader.read(offset, readBackBytes);
      if (chunk.length === 0) break;
      digest.update(chunk);
      offset += chunk.length;
    }
  } finally {
    await reader.close();
  }
  if (offset === bytes && digest.digest("hex") === sha256) return;
  const detail = `the store has ${offset} of ${bytes} bytes, or others`;
  throw new SluiceError("MOUNT_FAILED", detail, { file: `${storage.location}/${path}` });
}

const readBackBytes = 4 * 1024 * 1024;

function mountFailed(error: unknown): SluiceError {
  const cause = asSluiceError(error);
  if (cause.code === "MOUNT_FAILED" || cause.code === "STORE_FULL") return cause;
  return new SluiceError("MOUNT_FAILED", cause.message, { cause, hint: cause.hint });
}
