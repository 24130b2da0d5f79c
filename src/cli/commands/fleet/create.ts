import type { Command } from "commander";
import {
  type StoreOptions,
  storeFromEnvironment,
  storeVariables,
} from "../../../data/s3/store-options.ts";
import { looksSecret } from "../../../engines/secrets.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import { isJsonObject, type JsonObject } from "../../../foundation/json.ts";
import { textLogger } from "../../../foundation/logger.ts";
import type { RunDependencies } from "../../../run/dependencies.ts";
import type { FleetSpec } from "../../../run/fleet/fleet-schema.ts";
import { type CliIo, write, writeJson } from "../../io.ts";
import { collect } from "../../run-call.ts";
import { withStoreFlags } from "../../store-flags.ts";
import { secondsOf } from "../plan.ts";
import { planner, startDriver } from "./start.ts";
import { nextFlags, placeFlags, rootOf, type TargetFlags, withPlace } from "./target.ts";

/** The flags of a new fleet, by the keys of `fleet` in a job file. */
interface CreateFlags extends TargetFlags {
  config?: string;
  tasksFromLocalFile?: string;
  count?: string;
  tasks?: string;
  indexes?: string;
  tasksFrom?: string;
  image?: string;
  registrySecret?: string;
  maxScale?: string;
  cpu?: string;
  memory?: string;
  gpu?: string;
  mountDataStore?: readonly string[];
  dataStore?: readonly string[];
  command?: readonly string[];
  arg?: readonly string[];
  env?: readonly string[];
  retries?: string;
  timeout?: string;
  backend?: string;
  tasksStateStore?: string;
  subnetpoolName?: string;
  workerProfile?: string;
  wait?: boolean;
}

/** Declares what the tasks of a fleet are. */
export function withSource(command: Command): Command {
  return command
    .option("--tasks-from-local-file <file>", "commands as JSON lines: cmds, args, env, idx")
    .option("--count <tasks>", "tasks with the indexes 0, 1, …")
    .option("--tasks <tasks>", "the same")
    .option("--indexes <set>", "tasks with these indexes, such as 2-5,7")
    .option("--tasks-from <store:/prefix>", "a task for each object there")
    .option(
      "--data-store <name=place>",
      "place of a store: s3://BUCKET/PREFIX or a folder; also stores: of the job file",
      collect,
    );
}

/** `sluice fleet create`. */
export function register(fleet: Command, given: CliIo): void {
  const command = fleet.command("create").alias("run");
  const io = withStoreFlags(command, given);
  withSource(withPlace(command).description("Create a fleet, and carry it out in the background."))
    .option("-c, --config <file>", "job file with fleet: and stores:; flags go before it")
    .option("--name <name>", "name of the fleet; default: made from its id")
    .option("--image <image>", "container image of the programs; needs podman or docker here")
    .option("--registry-secret <name>", "secret with which a scheduler pulls the image")
    .option("--max-scale <programs>", "most programs side by side; default 10")
    .option("--cpu <cores>", "cores of each program; default 1")
    .option("--memory <size>", "memory of each program, such as 4G")
    .option("--gpu <family:count>", "GPUs of each program, such as l40s:1")
    .option(
      "--mount-data-store <path=store:/prefix>",
      "objects that programs find at this path",
      collect,
    )
    .option(
      "--command <word>",
      "the program, for lines without cmds; repeat it for more words",
      collect,
    )
    .option("--arg <word>", "an argument, for lines without args", collect)
    .option("--env <name=value>", "a variable; a name alone passes its value", collect)
    .option("--retries <number>", "further tries of a failed program; default 3")
    .option("--timeout <time>", "longest time of a program, such as 30m; then it is ended")
    .option("--backend <name>", "where programs run; default local")
    .option("--tasks-state-store <store>", "with backend code-engine: codeEngine.stateStore")
    .option("--subnetpool-name <name>", "with backend code-engine: codeEngine.subnetPool")
    .option("--worker-profile <name>", "with backend code-engine: codeEngine.workerProfile")
    .option("--wait", "carry it out in this process, with progress, to its end")
    .option("--json", "print JSON")
    .action((flags: CreateFlags) => create(flags, io));
}

async function create(flags: CreateFlags, io: CliIo): Promise<void> {
  const [{ createFleet }, { runDependencies }, asked] = await Promise.all([
    import("../../../run/fleet/fleet.ts"),
    import("../../../api/run-dependencies.ts"),
    specOf(flags, io),
  ]);
  const logger = textLogger((line) => void io.stderr.write(line));
  const store = (asked.job.store ?? {}) as StoreOptions;
  const own = { ...secretsIn(asked.spec), ...storeVariables(store, io.environment) };
  const driving = { ...io, environment: { ...io.environment, ...own } };
  const dependencies: RunDependencies = runDependencies(driving, logger);
  const { timeout } = asked.spec;
  const created = await createFleet(
    {
      ...asked,
      root: rootOf(flags, io),
      workingDirectory: io.workingDirectory,
      userDirectory: io.process.userDirectory,
      ...(timeout !== undefined && { timeoutMs: 1000 * timeoutSeconds(timeout) }),
      placeFlags: placeFlags(flags, driving),
      plan: planner(driving, dependencies, logger, !flags.wait),
    },
    dependencies,
  );
  const { record, batches } = created;
  if (batches[0]!.tasks === 0) {
    logger.log("warn", "the fleet has no tasks; sluice fleet add gives it some");
  }
  if (flags.json) await writeJson(io, record);
  else await tellNext(created, flags, driving);
  if (!flags.wait) return await startDriver(created, batches[0]!, flags, driving);
  const { resumeFleet } = await import("./resume.ts");
  const { fleets } = flags;
  await resumeFleet({ ...(fleets !== undefined && { fleets }), id: record.id }, driving);
}

/** Values that no file keeps: the process that carries a fleet out gets them from this one. */
function secretsIn({ env }: FleetSpec): Record<string, string> {
  const given = Object.entries(env).filter(
    (each): each is [string, string] => each[1] !== null && looksSecret(each[0], each[1]),
  );
  return Object.fromEntries(given);
}

async function tellNext(
  fleet: Parameters<typeof nextFlags>[1],
  flags: TargetFlags,
  io: CliIo,
): Promise<void> {
  const { id, name } = fleet.record;
  const get = nextFlags("--id", fleet, flags, io);
  const list = nextFlags("--fleet-id", fleet, flags, io);
  const lines = [
    `Successfully created fleet with name '${name}' and ID '${id}'`,
    `Run 'sluice fleet get ${get}' to check the fleet status.`,
    `Run 'sluice fleet worker list ${list}' to retrieve a list of provisioned workers.`,
    `Run 'sluice fleet task list ${list}' to retrieve a list of tasks.`,
    "OK",
  ];
  await write(io, `${lines.join("\n")}\n`);
}

function timeoutSeconds(timeout: string | number): number {
  if (/^\d+(\.\d+)?$/.test(String(timeout)) && Number(timeout) > 0) return Number(timeout);
  return secondsOf("--timeout", String(timeout));
}

/** The fleet of flags over a job file, and what else that file says. */
export async function specOf(
  flags: CreateFlags,
  io: CliIo,
): Promise<{ spec: FleetSpec; stores: Record<string, string>; job: JsonObject }> {
  const { readFleetFile, checkFleet } = await import("../../../run/fleet/fleet-file.ts");
  const file = await readFleetFile(flags.config, io);
  const given: JsonObject = {
    ...(file.fleet as JsonObject),
    ...sourceFlags(flags),
    ...pick(flags, ["name", "image", "registrySecret", "memory", "gpu", "timeout"]),
    ...numbers(flags, ["maxScale", "cpu", "retries"]),
    ...(flags.command && { command: [...flags.command] }),
    ...(flags.arg && { args: [...flags.arg] }),
    ...(flags.mountDataStore && { mountDataStore: [...flags.mountDataStore] }),
  };
  if (flags.env) given.env = { ...(given.env as JsonObject), ...variables(flags.env) };
  const stores = { ...(file.stores as JsonObject), ...namedPlaces(flags.dataStore ?? []) };
  const job = { ...file.job, ...(flags.backend !== undefined && { backend: flags.backend }) };
  const more = { ...storeOf(file.job, io), ...codeEngineOf(flags, job) };
  return { ...checkFleet(given, stores, file), job: { ...job, ...more } };
}

/** The object store of the job file, below that of flags and variables. */
function storeOf({ store = {} }: JsonObject, { environment }: CliIo): JsonObject {
  const given = Object.entries(storeFromEnvironment(environment));
  const asked = given.filter(([, value]) => value !== undefined);
  if (!isJsonObject(store) || asked.length === 0) return {};
  return { store: { ...store, ...Object.fromEntries(asked) } };
}

/** Flags of the tutorial that only Code Engine itself has a use for, by their keys. */
const codeEngineFlags = [
  ["tasksStateStore", "stateStore", "--tasks-state-store"],
  ["subnetpoolName", "subnetPool", "--subnetpool-name"],
  ["workerProfile", "workerProfile", "--worker-profile"],
] as const;

function codeEngineOf(
  flags: CreateFlags,
  { backend = "local", codeEngine = {} }: JsonObject,
): JsonObject {
  const given = codeEngineFlags.filter(([flag]) => flags[flag] !== undefined);
  if (given.length === 0) return {};
  if (backend !== "code-engine") {
    throw new SluiceError("USAGE", `${given[0]![2]} has no effect with backend ${backend}`, {
      hint: "leave it out, or give --backend code-engine; what tasks did is kept in --fleets",
    });
  }
  const settings = given.map(([flag, key]) => [key, flags[flag]!]);
  return { codeEngine: { ...(codeEngine as JsonObject), ...Object.fromEntries(settings) } };
}

/** A source in flags takes the place of one in the file. */
export function sourceFlags(flags: CreateFlags): JsonObject {
  const none = { tasksFromLocalFile: null, count: null, indexes: null, tasksFrom: null };
  const { tasks } = numbers(flags, ["tasks"]);
  if (tasks !== undefined && flags.count !== undefined) {
    throw new SluiceError("USAGE", "--count and --tasks are the same: give one of them");
  }
  const own = {
    ...pick(flags, ["tasksFromLocalFile", "indexes", "tasksFrom"]),
    ...(tasks !== undefined && { count: tasks }),
    ...numbers(flags, ["count"]),
  };
  return Object.keys(own).length === 0 ? {} : { ...none, ...own };
}

type TextFlag = "name" | "image" | "registrySecret" | "memory" | "gpu" | "timeout";
type NumberFlag = "maxScale" | "cpu" | "retries" | "count" | "tasks";

function pick(
  flags: CreateFlags,
  keys: readonly (TextFlag | "tasksFromLocalFile" | "indexes" | "tasksFrom")[],
): JsonObject {
  const given = keys.flatMap((key) => (flags[key] === undefined ? [] : [[key, flags[key]]]));
  return Object.fromEntries(given);
}

function numbers(flags: CreateFlags, keys: readonly NumberFlag[]): JsonObject {
  const given = keys.flatMap((key) => {
    const text = flags[key];
    if (text === undefined) return [];
    if (text.trim() !== "" && Number.isFinite(Number(text))) return [[key, Number(text)]];
    const flag = key.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new SluiceError("USAGE", `--${flag} must be a number, not "${text}"`);
  });
  return Object.fromEntries(given);
}

function variables(pairs: readonly string[]): JsonObject {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      return at < 0 ? [pair, null] : [pair.slice(0, at), pair.slice(at + 1)];
    }),
  );
}

/** The places of stores by name. @throws SluiceError `USAGE`. */
export function namedPlaces(pairs: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)];
      throw new SluiceError("USAGE", `--data-store ${pair} is not NAME=PLACE`);
    }),
  );
}
