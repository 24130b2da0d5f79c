import { readFile, rm, rmdir, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { absoluteLocation, schemeOf } from "../../data/storage/open.ts";
import { removeAll } from "../../data/storage/remove-all.ts";
import type { Storage } from "../../data/storage/storage.ts";
import { insideImageVariable } from "../../engines/engine.ts";
import { looksSecret } from "../../engines/secrets.ts";
import { SluiceError, wordedError } from "../../foundation/errors.ts";
import { randomUuid, sortableId } from "../../foundation/ids.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { utf8Text } from "../../foundation/utf8-text.ts";
import type { RunDependencies } from "../dependencies.ts";
import { createOnce, readJson, recordBytes } from "../directory/records.ts";
import { runStorage } from "../directory/run-storage.ts";
import { jobFromValue } from "../job/from-value.ts";
import type { JobInput, JobSpec } from "../job/schema.ts";
import { readPlan } from "../plan/plan.ts";
import { objectName } from "../programs/object-cache.ts";
import {
  type CommandRow,
  commandLines,
  commandRows,
  countedCommands,
  indexedCommands,
  type ReadCommand,
  rangeOf,
} from "./commands.ts";
import {
  bookings,
  type FleetSpec,
  mountsOf,
  type StorePlace,
  type Stores,
  sourceOf,
  storePlace,
} from "./fleet-schema.ts";

/** Records of the fleets of a place, by their names: a listing of them reads nothing else. */
const recordPrefix = "_fleets/";

/** What a fleet is: created once, never changed. */
export interface FleetRecord {
  format: 1;
  id: string;
  name: string;
  /** ISO 8601. */
  createdAt: string;
  image?: string;
  registrySecret?: string;
  command: string[];
  args: string[];
  mounts: (StorePlace & { path: string })[];
  cpu: number;
  memory?: string;
  gpu?: string;
  maxScale: number;
  retries: number;
  timeoutMs?: number;
}

/** Commands that were given together: each batch has a run of its own. */
export interface FleetBatch {
  /** From 1. */
  number: number;
  /** Unique, so that a record identifies its writer. */
  writer: string;
  /** The file of its commands, below the fleet. */
  commands: string;
  /** The tasks as they were asked for, such as `count: 100`. */
  source: string;
  tasks: number;
}

export interface Fleet {
  record: FleetRecord;
  /** Its folder, or prefix. */
  location: string;
  storage: Storage;
  batches: FleetBatch[];
}

export interface FleetRequest {
  root: string;
  spec: FleetSpec;
  stores: Stores;
  /** The other keys of a job: backend, its settings, and so on. */
  job: JsonObject;
  workingDirectory: string;
  userDirectory?: string;
  timeoutMs?: number;
  /** Options by which another command looks at the same `root`, each after a space. */
  placeFlags?: string;
  /** Plans the run of a batch, and carries nothing out. */
  plan(job: JobSpec): Promise<void>;
}

export function runOfBatch({ location }: Pick<Fleet, "location">, { number }: FleetBatch): string {
  return `${location}/runs/${numbered(number)}`;
}

/** What a fleet has in its place. */
const fleetFolders = ["batches/", "commands/", "runs/"] as const;

const numbered = (number: number) => String(number).padStart(6, "0");
const batchPath = (number: number) => `batches/${numbered(number)}.json`;
const recordPath = (name: string) => `${recordPrefix}${name}.json`;

/**
 * Creates a fleet: its record, its commands in one form, and a planned run of them as an ordinary
 * job.
 *
 * @throws SluiceError `COMMAND_INVALID`, `USAGE`, `OUTPUT_OCCUPIED` if its name is taken, and
 *   errors of planning.
 */
export async function createFleet(
  request: FleetRequest,
  dependencies: RunDependencies,
): Promise<Fleet> {
  const { root, spec, stores, workingDirectory, placeFlags = "" } = request;
  const { clock, random, openStorage } = dependencies;
  const absolute = (location: string) => absoluteLocation(workingDirectory, location);
  const booked = bookings(spec);
  await assertDirectory(request);
  const id = randomUuid(random);
  const name = spec.name ?? `fleet-${id.slice(0, 8)}-1`;
  const places = openStorage(root);
  const location = `${places.location.replace(/\/+$/, "")}/${name}`;
  const mounts = mountsOf(spec, stores).map((mount) => ({
    ...mount,
    location: absolute(mount.location),
  }));
  const { image, registrySecret, command, args, cpu, memory, gpu, maxScale, retries } = spec;
  const { timeoutMs } = request;
  const record: FleetRecord = {
    ...{ format: 1, id, name, createdAt: new Date(clock.now()).toISOString() },
    ...{ image, registrySecret, command, args, mounts, cpu, maxScale, retries },
    ...{ memory, gpu, timeoutMs },
  };
  const fleet: Fleet = { record, location, storage: openStorage(location), batches: [] };
  const { env } = backendKeys(spec, request.job);
  const commands = await readCommands(request, dependencies, 0);
  let batch: WrittenBatch | undefined;
  let isOurs = false;
  try {
    await assertUnused(fleet, places);
    batch = await writeBatch(fleet, { ...commands, env }, new Set(), dependencies);
    const job = jobOfFleet(request, fleet, batch, booked);
    ({ won: isOurs } = await createOnce(places, recordPath(name), record, (it) => it.id));
    if (isOurs) return (await addBatch(fleet, batch, job, request.plan))!;
    const named = name + placeFlags;
    throw new SluiceError("OUTPUT_OCCUPIED", `there is a fleet ${name}`, {
      file: location,
      hint: `sluice fleet add --name ${named} gives it more tasks; or take another --name`,
    });
  } catch (error) {
    // So that the same command can be given again, corrected.
    if (isOurs) await deleteFleet(fleet, places).catch(() => {});
    else if (batch) await fleet.storage.remove(batch.record.commands).catch(() => {});
    await removeEmptyFolders(fleet, places);
    throw byFlags(error);
  }
}

/** The place of a fleet holds nothing else: it goes with the fleet. */
async function assertUnused({ record, location, storage }: Fleet, places: Storage): Promise<void> {
  for await (const { path } of storage.list("")) {
    // Of a call for the same name, or of a process that outlived a fleet.
    if (/^(commands\/\w+\.jsonl$|runs\/\d{6}\/_sluice\/)/.test(path)) continue;
    // A fleet of that name is refused in its own words.
    if (await places.stat(recordPath(record.name))) return;
    throw new SluiceError("OUTPUT_OCCUPIED", `it holds ${path}`, {
      file: location,
      hint: "take another --name, or another place of fleets: --fleets",
    });
  }
}

/** On other machines, programs may start elsewhere; here, a folder that is not there is a slip. */
async function assertDirectory({ spec, job, workingDirectory }: FleetRequest): Promise<void> {
  const { backend = "local" } = job;
  if (spec.workingDirectory === undefined || backend !== "local") return;
  const folder = resolve(workingDirectory, spec.workingDirectory);
  const facts = await stat(folder).catch(() => undefined);
  if (facts?.isDirectory()) return;
  const field = "fleet.workingDirectory";
  throw new SluiceError("JOB_INVALID", `there is no folder ${folder}`, { field });
}

/** An error about a place, by the flag that names it. */
function byFlags(error: unknown): unknown {
  if (!(error instanceof SluiceError) || error.code !== "DIRECTORY_NOT_SHARED") return error;
  const { code, hint, message, place, cause } = error;
  const { field = "" } = place;
  const flag = field.startsWith("model.mounts.") ? "--data-store" : "--fleets";
  return wordedError(code, message.replace(`field ${field}`, flag), { hint, cause });
}

export interface AddRequest
  extends Pick<FleetRequest, "spec" | "stores" | "workingDirectory" | "plan"> {}

/**
 * Gives a fleet more commands, as a further run beside the earlier ones. Indexes go on after those
 * that there are.
 *
 * @throws SluiceError as `createFleet`.
 */
export async function addToFleet(
  given: Fleet,
  request: AddRequest,
  dependencies: RunDependencies,
): Promise<Fleet> {
  const [first] = given.batches;
  const run = first && runStorage(dependencies.openStorage(runOfBatch(given, first)));
  const job = run && (await readPlan(run)).job;
  if (job?.model.engine !== "program") throw new SluiceError("RUN_DAMAGED", given.location);
  for (let fleet = given; ; fleet = { ...fleet, batches: await readBatches(fleet.storage) }) {
    const taken = new Set((await rowsOfFleet(fleet)).map(({ idx }) => idx));
    const next = taken.size === 0 ? 0 : rangeOf(taken).max + 1;
    const commands = await readCommands(request, dependencies, next);
    const { env } = job;
    const batch = await writeBatch(fleet, { ...commands, env }, taken, dependencies);
    const added: JobSpec = {
      ...job,
      input: [{ ...job.input[0]!, path: `${fleet.storage.location}/${batch.record.commands}` }],
      model: { ...job.model, array: batch.array },
    };
    const grown = await addBatch(fleet, batch, added, request.plan);
    if (grown) return grown;
    // Another call added tasks meanwhile, perhaps with the same indexes.
    await fleet.storage.remove(batch.record.commands);
  }
}

interface WrittenBatch {
  record: Omit<FleetBatch, "number">;
  array: ReturnType<typeof rangeOf>;
}

interface ReadCommands {
  commands: Iterable<ReadCommand>;
  source: string;
}

async function readCommands(
  { spec, stores, workingDirectory }: Pick<FleetRequest, "spec" | "stores" | "workingDirectory">,
  { inputs }: RunDependencies,
  firstIndex: number,
): Promise<ReadCommands> {
  const key = sourceOf(spec);
  switch (key) {
    case "count":
      return { commands: countedCommands(spec.count!, firstIndex), source: `count: ${spec.count}` };
    case "indexes":
      return { commands: indexedCommands(spec.indexes!), source: `indexes: ${spec.indexes}` };
    case "tasksFromLocalFile": {
      const file = spec.tasksFromLocalFile!;
      const bytes = await readFile(resolve(workingDirectory, file)).catch((cause: unknown) => {
        const hint = "check --tasks-from-local-file, or tasksFromLocalFile of the job file";
        throw new SluiceError("INPUT_MISSING", (cause as Error).message, { cause, hint });
      });
      const text = utf8Text(bytes, "COMMAND_INVALID", file);
      return { commands: commandLines(text, file, firstIndex), source: `file: ${basename(file)}` };
    }
    case "tasksFrom": {
      const given = storePlace(spec.tasksFrom!, stores, "--tasks-from").location;
      const place = absoluteLocation(workingDirectory, given);
      const objects: string[] = [];
      for await (const { path } of inputs.list(place)) {
        const object = objectName(place, path);
        if (object !== undefined) objects.push(object);
      }
      const commands = objects.sort().map((object, at) => ({
        command: { idx: String(firstIndex + at), env: { SLUICE_TASK_OBJECT: object } },
      }));
      return { commands, source: `objects: ${spec.tasksFrom}` };
    }
  }
}

async function writeBatch(
  { record: { id, command, image }, storage }: Fleet,
  { commands, source, env }: ReadCommands & Pick<JobSpec, "env">,
  taken: Set<string>,
  { clock, random }: RunDependencies,
): Promise<WrittenBatch> {
  const writer = sortableId(clock, random);
  const before = taken.size;
  const path = `commands/${writer}.jsonl`;
  const file = await storage.writer(path);
  const isInside = Object.hasOwn(env, insideImageVariable);
  const hasOwn = command.length > 0 || (image !== undefined && !isInside);
  try {
    for (const row of commandRows(commands, id, taken)) {
      const isNamed = row.cmds !== undefined || (row.args !== undefined && !isInside);
      if (!isNamed && !hasOwn) throw withoutCommand(row, isInside);
      await file.write(recordBytes(row));
    }
    await file.close();
  } catch (error) {
    await file.abort();
    throw error;
  }
  const record = { writer, commands: path, source, tasks: taken.size - before };
  return { record, array: rangeOf(taken) };
}

function withoutCommand({ idx }: CommandRow, isInside: boolean): SluiceError {
  const name = "name it with --command, or in each line as cmds";
  const hint = isInside ? `${name}: workers in the image do not know its entry point` : name;
  return new SluiceError("COMMAND_INVALID", `task ${idx} has no command`, { field: "cmds", hint });
}

/** Makes commands the next batch; undefined if another call was first. */
async function addBatch(
  fleet: Fleet,
  { record }: WrittenBatch,
  job: JobSpec,
  plan: FleetRequest["plan"],
): Promise<Fleet | undefined> {
  const { storage } = fleet;
  const batch: FleetBatch = { number: (fleet.batches.at(-1)?.number ?? 0) + 1, ...record };
  const { won } = await createOnce(storage, batchPath(batch.number), batch, (it) => it.writer);
  if (!won) return undefined;
  try {
    await plan({ ...job, output: { ...job.output, path: runOfBatch(fleet, batch) } });
  } catch (error) {
    // Nothing would ever run it.
    for (const path of [batchPath(batch.number), record.commands]) await storage.remove(path);
    throw error;
  }
  return { ...fleet, batches: [...fleet.batches, batch] };
}

/** The ordinary job that carries out a batch. */
function jobOfFleet(
  { spec, workingDirectory, userDirectory, timeoutMs, job: others }: FleetRequest,
  fleet: Fleet,
  { record, array }: WrittenBatch,
  { instances, workers }: ReturnType<typeof bookings>,
): JobSpec {
  const { record: facts, storage } = fleet;
  const { image, registrySecret } = facts;
  const mounts = facts.mounts.map(({ path, store, location }) => ({ path, location, store }));
  const job: JobInput = {
    ...(others as Partial<JobInput>),
    ...backendKeys(spec, others),
    name: facts.name,
    input: { path: `${storage.location}/${record.commands}`, format: "jsonl" },
    model: {
      ...{ engine: "program", name: facts.name, command: facts.command, args: facts.args },
      ...{ instances, cpu: facts.cpu, array, mounts, variables: Object.keys(spec.env) },
      workingDirectory: spec.workingDirectory ?? ".",
      ...{ gpus: facts.gpu === undefined ? undefined : true, timeoutMs, image, registrySecret },
    },
    shard: { rows: 1 },
    output: { path: fleet.location, field: "result" },
    workers,
    retries: { maxAttempts: facts.retries + 1 },
  };
  return jobFromValue(job, workingDirectory, userDirectory);
}

/**
 * The fleet of a name or an id.
 *
 * @throws SluiceError `NOT_A_RUN`.
 */
export async function openFleet(
  root: string,
  { name, id }: { name?: string | undefined; id?: string | undefined },
  { openStorage }: Pick<RunDependencies, "openStorage">,
): Promise<Fleet> {
  for await (const fleet of fleetsAt(root, { openStorage })) {
    if (fleet.record.name === name || fleet.record.id === id) return fleet;
  }
  throw new SluiceError("NOT_A_RUN", `no fleet ${name ?? id} in ${root}`, {
    hint: "sluice fleet list shows those there; --fleets names another place",
  });
}

/** All fleets of a place, by their names. */
export async function* fleetsAt(
  root: string,
  { openStorage }: Pick<RunDependencies, "openStorage">,
): AsyncGenerator<Fleet> {
  const places = openStorage(root);
  for await (const { path } of places.list(recordPrefix)) {
    const record = await readJson<FleetRecord>(places, path);
    if (record === undefined) continue;
    const location = `${places.location.replace(/\/+$/, "")}/${record.name}`;
    const storage = openStorage(location);
    yield { record, location, storage, batches: await readBatches(storage) };
  }
}

async function readBatches(storage: Storage): Promise<FleetBatch[]> {
  const batches: FleetBatch[] = [];
  for await (const { path } of storage.list("batches/")) {
    const batch = await readJson<FleetBatch>(storage, path);
    if (batch) batches.push(batch);
  }
  return batches.sort((a, b) => a.number - b.number);
}

/** The commands of a batch, which are the rows of its run. */
export async function rowsOfBatch(storage: Storage, batch: FleetBatch): Promise<CommandRow[]> {
  const text = Buffer.from(await storage.read(batch.commands)).toString();
  const lines = text.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as CommandRow);
}

async function rowsOfFleet({ storage, batches }: Fleet): Promise<CommandRow[]> {
  const rows: CommandRow[] = [];
  for (const batch of batches) rows.push(...(await rowsOfBatch(storage, batch)));
  return rows;
}

/** The folders that a refused fleet made. Those with anything in them stay. */
async function removeEmptyFolders({ location }: Fleet, places: Storage): Promise<void> {
  if (schemeOf(location) !== undefined) return;
  const made = [`${location}/commands`, location, `${places.location}/${recordPrefix}`];
  for (const folder of [...made, places.location]) await rmdir(folder).catch(() => {});
}

/** Removes everything of a fleet, and nothing else. The caller has seen that nobody works on it. */
export async function deleteFleet({ record, storage }: Fleet, places: Storage): Promise<void> {
  const isLocal = schemeOf(storage.location) === undefined;
  for (const folder of fleetFolders) {
    const paths: string[] = [];
    for await (const { path } of storage.list(folder)) paths.push(path);
    await removeAll(storage, paths);
    // A storage knows no folders.
    if (isLocal) await rm(join(storage.location, folder), { recursive: true, force: true });
  }
  if (isLocal) await rmdir(storage.location).catch(() => {});
  // Last: until then, the same command removes the rest.
  await places.remove(recordPath(record.name));
}

type Asked = Pick<FleetSpec, "image" | "registrySecret" | "env">;

/** A backend that starts workers in the fleet's image. */
interface Bringer {
  key: "kubernetes" | "codeEngine" | "sky";
  /** The settings for an image, over which those of the job file go. */
  settings(fleet: Asked & { image: string }, own: JsonObject): JsonObject;
  /** The image that its settings name, as a fleet names it. */
  imageOf(settings: JsonObject): string | undefined;
}

const text = (value: unknown) => (typeof value === "string" ? value : undefined);

const plainImage: Bringer["imageOf"] = ({ image }) => text(image);

/** Backends whose workers run in the image, by their names. */
const bringers: Readonly<Record<string, Bringer>> = {
  kubernetes: {
    key: "kubernetes",
    settings: ({ image, registrySecret }, own) => ({
      image,
      ...(registrySecret !== undefined && { imagePullSecrets: [registrySecret] }),
      ...own,
    }),
    imageOf: plainImage,
  },
  "code-engine": {
    key: "codeEngine",
    settings: ({ image, registrySecret }, own) => ({
      image,
      ...(registrySecret !== undefined && { registrySecret }),
      ...own,
    }),
    imageOf: plainImage,
  },
  sky: {
    key: "sky",
    settings: ({ image }, { resources = {}, ...own }) => ({
      ...own,
      resources: { imageId: `docker:${image}`, ...(resources as JsonObject) },
    }),
    imageOf: ({ resources }) =>
      text((resources as JsonObject | undefined)?.imageId)?.replace(/^docker:/, ""),
  },
};

/**
 * The keys of a job by which its backend gives programs the fleet's image, secret and variables:
 * settings of the backend, and `env`.
 *
 * @throws SluiceError `USAGE` for a registry secret that nothing uses.
 */
function backendKeys(
  fleet: Asked,
  job: JsonObject,
): JsonObject & { env: Record<string, string | null> } {
  const { image, registrySecret, env } = fleet;
  const backend = text(job.backend) ?? "local";
  const bringer = Object.hasOwn(bringers, backend) ? bringers[backend] : undefined;
  if (registrySecret !== undefined) assertPullsBy(backend, image);
  if (bringer === undefined) return { env };
  const { key, settings, imageOf } = bringer;
  const own = (job[key] ?? {}) as JsonObject;
  const brought = image === undefined ? own : settings({ ...fleet, image }, own);
  if (key !== "sky" && imageOf(brought) === undefined) {
    throw new SluiceError("USAGE", `backend ${backend} needs --image`, {
      hint: "name an image with Node.js and Sluice: sluice image builds one",
    });
  }
  const isInside = image !== undefined && imageOf(brought) === image;
  const all = key === "sky" ? passedOn(fleet, brought) : brought;
  return {
    ...(Object.keys(all).length > 0 && { [key]: all }),
    env: { ...env, ...(isInside && { [insideImageVariable]: image }) },
  };
}

/** SkyPilot takes variables of the caller by their names. */
function passedOn({ env }: Asked, settings: JsonObject): JsonObject {
  const { secrets = [], envs = {} } = settings as { secrets?: string[]; envs?: JsonObject };
  const names = Object.entries(env)
    .filter(([name, value]) => value === null || looksSecret(name, value))
    .map(([name]) => name)
    .filter((name) => !secrets.includes(name) && !Object.hasOwn(envs, name));
  return names.length === 0 ? settings : { ...settings, secrets: [...secrets, ...names] };
}

function assertPullsBy(backend: string, image: string | undefined): void {
  if (image === undefined) {
    throw new SluiceError("USAGE", "--registry-secret has no effect without --image");
  }
  if (backend === "kubernetes" || backend === "code-engine") return;
  const hint =
    backend === "sky"
      ? "name its login by sky.secrets: [SKYPILOT_DOCKER_USERNAME, SKYPILOT_DOCKER_PASSWORD, SKYPILOT_DOCKER_SERVER]"
      : "leave it out: podman login or docker login opens a registry, on each machine with programs";
  throw new SluiceError("USAGE", `--registry-secret has no effect with backend ${backend}`, {
    hint,
  });
}
