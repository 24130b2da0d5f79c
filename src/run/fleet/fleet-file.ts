import { dirname, resolve } from "node:path";
import { absoluteLocation } from "../../data/storage/open.ts";
import { isJsonObject, type Json, type JsonObject } from "../../foundation/json.ts";
import { shown } from "../../foundation/suggest.ts";
import { readJobFile } from "../job/job-file.ts";
import { type Origin, type Problem, problemsError, schemaProblems } from "../job/problem.ts";
import { type FleetSpec, fleetSchema, type Stores, storesSchema } from "./fleet-schema.ts";

/** A job file of a fleet: its own keys, and those of an ordinary job. */
export interface FleetFile {
  fleet: JsonObject;
  stores: JsonObject;
  job: JsonObject;
  origin: Origin;
}

/** Keys of a job that a fleet sets itself. */
const ownKeys = [
  ...["name", "input", "dataset", "prompt", "prompts", "model", "shard", "output", "workers"],
  ...["env", "retries"],
];

/**
 * Reads a job file with `fleet` and `stores`; without a file all is empty.
 *
 * @throws SluiceError `JOB_INVALID`, `ENV_MISSING`.
 */
export async function readFleetFile(
  file: string | undefined,
  {
    environment,
    workingDirectory,
  }: {
    environment: Readonly<Record<string, string | undefined>>;
    workingDirectory: string;
  },
): Promise<FleetFile> {
  const none: FleetFile = { fleet: {}, stores: {}, job: {}, origin: { from: "default" } };
  if (file === undefined) return none;
  const { value, origin, problems } = await readJobFile(file, environment, workingDirectory);
  const { fleet = {}, stores = {}, ...job } = value;
  const fault = (key: string, message: string): Problem => ({
    ...{ code: "JOB_INVALID", path: [key], message, origin },
  });
  for (const [key, part] of Object.entries({ fleet, stores })) {
    if (!isJsonObject(part)) problems.push(fault(key, `must be an object, not ${shown(part)}`));
  }
  for (const key of ownKeys) {
    if (key in job) problems.push(fault(key, "a fleet sets it: use the keys of fleet instead"));
  }
  if (problems.length > 0) throw problemsError(problems);
  const folder = dirname(resolve(workingDirectory, file));
  const absolute = (value: Json) =>
    typeof value === "string" ? absoluteLocation(folder, value) : value;
  const inFolder = (object: JsonObject, keys: readonly string[]) => {
    const moved = keys.flatMap((key) => (key in object ? [[key, absolute(object[key]!)]] : []));
    return { ...object, ...Object.fromEntries(moved) };
  };
  return {
    fleet: inFolder(fleet as JsonObject, ["tasksFromLocalFile", "workingDirectory"]),
    stores: inFolder(stores as JsonObject, Object.keys(stores as JsonObject)),
    job,
    origin,
  };
}

/**
 * Checks a fleet and its stores; a key with null counts as not given.
 *
 * @throws SluiceError `JOB_INVALID`, with every problem.
 */
export function checkFleet(
  fleet: JsonObject,
  stores: JsonObject,
  { origin }: Pick<FleetFile, "origin">,
): { spec: FleetSpec; stores: Stores } {
  const given = Object.fromEntries(Object.entries(fleet).filter(([, value]) => value !== null));
  const spec = fleetSchema.safeParse(given, { jitless: true });
  const places = storesSchema.safeParse(stores, { jitless: true });
  const problems = [
    ...problemsOf(spec, "fleet", origin, Object.keys(fleetSchema.shape)),
    ...problemsOf(places, "stores", origin, []),
  ];
  if (!spec.success || !places.success) throw problemsError(problems);
  return { spec: spec.data, stores: places.data };
}

function problemsOf(
  parsed: ReturnType<typeof fleetSchema.safeParse> | ReturnType<typeof storesSchema.safeParse>,
  key: string,
  origin: Origin,
  known: readonly string[],
): Problem[] {
  const problems = schemaProblems(parsed.error?.issues ?? [], [key], origin, () => known);
  return problems.map((problem) => {
    const hint = "see docs/fleets.md";
    const [, first, ...inside] = problem.path;
    // Without a file, everything comes from flags.
    const isFlag = origin.from === "default" && key === "fleet" && first !== undefined;
    if (!isFlag) return { ...problem, hint };
    return { ...problem, hint, path: inside, origin: { from: "flag", name: flagOf(first) } };
  });
}

/** The flag of a key: `--max-scale` for `maxScale`. */
function flagOf(key: string): string {
  const words = key === "args" ? "arg" : key.replaceAll(/[A-Z]/g, (it) => `-${it.toLowerCase()}`);
  return `--${words}`;
}
