import { z } from "zod";
import { SluiceError } from "../../foundation/errors.ts";
import { atLeastOne } from "../../foundation/setting.ts";
import { nearest, shown } from "../../foundation/suggest.ts";

/** Most programs side by side, if a fleet does not say. */
const defaultMaxScale = 10;

/** Extra tries of a command, if a fleet does not say. */
const defaultRetries = 3;

const texts = z.union([z.string().transform((text) => [text]), z.array(z.string())], {
  error: "must be a text, or a list of texts: words such as true and 1 need quotes",
});

const mounts = z.union(
  [
    z.array(z.string()),
    z
      .record(z.string(), z.string())
      .transform((byPath) => Object.entries(byPath).map(([path, place]) => `${path}=${place}`)),
  ],
  { error: "must be places by their paths, as /input: STORE:/PREFIX" },
);

/** `fleet` of a job file, by the names of the flags. */
export const fleetSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9][\w.-]{0,62}$/, "must be letters, digits, - _ and ., 63 at most")
    .optional(),
  tasksFromLocalFile: z.string().min(1).optional(),
  count: z.int().min(0).max(10_000_000).optional(),
  indexes: z.union([z.string(), z.number().transform(String)]).optional(),
  tasksFrom: z.string().min(1).optional(),
  image: z.string().min(1).optional(),
  registrySecret: z.string().min(1).optional(),
  command: texts.default([]),
  args: texts.default([]),
  env: z
    .record(
      z.string(),
      z.union([z.string(), z.null()], { error: "must be a text, or null for the caller's value" }),
    )
    .default({}),
  mountDataStore: mounts.default([]),
  workingDirectory: z.string().min(1).optional(),
  maxScale: atLeastOne.default(defaultMaxScale),
  cpu: z.number().gt(0).default(1),
  memory: z
    .string()
    .regex(/^\d+(\.\d+)?\s*[KMGT]i?B?$/i, "must be a number with K, M, G or T, as 4G")
    .optional(),
  gpu: z
    .string()
    .regex(/^[\w.-]+(:\d+(\.\d+)?)?$/, "must be a kind and a number, as l40s:1, or a number")
    .optional(),
  retries: z.int().min(0).max(99).default(defaultRetries),
  timeout: z.union([z.string(), z.number()]).optional(),
});

export type FleetSpec = z.output<typeof fleetSchema>;

/** `stores` of a job file: places of objects by name. */
export const storesSchema = z.record(z.string().regex(/^[A-Za-z0-9][\w.-]*$/), z.string().min(1));

export type Stores = z.output<typeof storesSchema>;

/** The keys of a fleet that say what its tasks are; each fleet has one of them. */
const sourceKeys = ["tasksFromLocalFile", "count", "indexes", "tasksFrom"] as const;

/**
 * The key that says what the tasks are.
 * @throws SluiceError `USAGE` for none or several.
 */
export function sourceOf(spec: Partial<FleetSpec>): (typeof sourceKeys)[number] {
  const given = sourceKeys.filter((key) => spec[key] !== undefined);
  if (given.length === 1) return given[0]!;
  const flags = "--tasks-from-local-file, --count, --indexes, --tasks-from";
  const detail = given.length === 0 ? "the fleet has no tasks" : `${given.join(" and ")} are given`;
  throw new SluiceError("USAGE", detail, { hint: `give one of ${flags}` });
}

/** A place in a store: `fleet-input-store:/inferencing`. */
export interface StorePlace {
  /** Name of the store; undefined for a place that is written out. */
  store?: string;
  location: string;
}

/**
 * Reads `STORE:/prefix`, `STORE`, or a place that is written out: `s3://bucket/prefix` or a path
 * with a slash.
 *
 * @param field the flag with it, for errors.
 * @throws SluiceError `USAGE` for a store that nobody named.
 * @example
 * storePlace("input:/recipes", { input: "s3://bucket" }, "--tasks-from").location;
 * // "s3://bucket/recipes"
 */
export function storePlace(text: string, stores: Stores, field: string): StorePlace {
  const [, store, prefix = ""] = /^([A-Za-z0-9][\w.-]*)(?::(?!\/\/)\/?(.*))?$/.exec(text) ?? [];
  if (store === undefined) return { location: text };
  const root = Object.hasOwn(stores, store) ? stores[store] : undefined;
  if (root === undefined) {
    const meant = nearest(store, Object.keys(stores));
    throw new SluiceError("USAGE", `${field}: there is no store ${shown(store)}`, {
      hint:
        meant === undefined
          ? `name its place, as --data-store ${store}=s3://BUCKET or =FOLDER, or in stores: of the job file`
          : `did you mean ${meant}?`,
    });
  }
  const below = prefix.replace(/\/+$/, "");
  return { store, location: below === "" ? root : `${root.replace(/\/+$/, "")}/${below}` };
}

/**
 * Reads the text of a mount, such as `/input=fleet-input-store:/inferencing`.
 *
 * @throws SluiceError `USAGE`.
 */
function mountOf(text: string, stores: Stores): StorePlace & { path: string } {
  const [, path, place] = /^(\/[^=]*[^=/])=(.+)$/.exec(text) ?? [];
  if (path === undefined || place === undefined) {
    const detail = `--mount-data-store ${shown(text)} is not /PATH=STORE:/PREFIX`;
    throw new SluiceError("USAGE", detail);
  }
  return { path, ...storePlace(place, stores, "--mount-data-store") };
}

/** The mounts of a fleet. @throws SluiceError `USAGE`. */
export function mountsOf(
  { mountDataStore }: Pick<FleetSpec, "mountDataStore">,
  stores: Stores,
): (StorePlace & { path: string })[] {
  const found = mountDataStore.map((text) => mountOf(text, stores));
  const paths = found.map(({ path }) => path);
  const twice = paths.find((path, at) => paths.indexOf(path) < at);
  if (twice === undefined) return found;
  throw new SluiceError("USAGE", `--mount-data-store: ${twice} is given twice`);
}

/** How many programs a worker runs side by side, and what each worker then needs. */
export function bookings({ cpu, memory, gpu, maxScale }: FleetSpec) {
  // A number alone means any kind.
  const text = gpu !== undefined && /^[\d.]+$/.test(gpu) ? `:${gpu}` : (gpu ?? "");
  const [family = "", amount = "1"] = text.split(":");
  const share = gpu === undefined ? 1 : Number(amount);
  if (share <= 0 || (share > 1 && !Number.isInteger(share))) {
    throw new SluiceError("USAGE", `--gpu ${gpu}: a whole number, or a part below 1`);
  }
  // Small programs share a worker: each worker is a process of its own. Those that book memory do
  // not, because only a backend knows how many of them fit a machine.
  const small = memory === undefined && cpu < 1 ? Math.floor(1 / cpu) : 1;
  const fitting = gpu === undefined ? small : Math.floor(1 / Math.min(1, share));
  const instances = evenShare(maxScale, Math.max(1, Math.min(fitting, maxScale, 256)));
  return {
    instances,
    workers: {
      max: Math.floor(maxScale / instances),
      cpu: cpu * instances,
      ...(memory !== undefined && { memory: multiplied(memory, instances) }),
      ...(gpu !== undefined && { gpu: [family, Math.max(1, share)].filter(Boolean).join(":") }),
    },
  };
}

/** Programs of a worker, so that all workers together have `all` or a little less, never more. */
function evenShare(all: number, most: number): number {
  let best = most;
  // With less than a quarter of what fits, there would be too many workers.
  for (let each = most; each >= most / 4; each--) if (all % each < all % best) best = each;
  return best;
}

function multiplied(memory: string, by: number): string {
  const [, number, unit = ""] = /^([\d.]+)\s*(.*)$/.exec(memory)!;
  return `${Number(number) * by}${unit}`;
}
