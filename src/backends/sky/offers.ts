import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { JobSpec } from "../../run/job/schema.ts";

type Choice = NonNullable<NonNullable<NonNullable<JobSpec["sky"]>["resources"]>["anyOf"]>[number];

/** Machines that a worker may have, with what is known of their price. */
export interface Offer {
  /** The job's alternative, with one kind of GPU. */
  choice: Choice & { accelerators: string };
  /** The lowest price in the catalogue. */
  usdPerHour?: number;
  /** The same for tokens, where a worker's tokens a second are known. */
  usdPerMillionTokens?: number;
}

/** A row of SkyPilot's catalogue, as far as it is read. */
export interface CatalogRow {
  /** The folder that it comes from, such as `aws`. */
  cloud: string;
  InstanceType: string;
  AcceleratorName: string;
  AcceleratorCount: string;
  Price: string;
  SpotPrice: string;
  Region: string;
  AvailabilityZone: string;
}

/**
 * Offers in the order of what a million tokens costs on them: price an hour over tokens an hour.
 * Then those without a measurement, by their price an hour; then those without a price, as named.
 *
 * @param kinds kinds of GPU of a worker, with the number of each.
 * @param choices alternatives of a job, each for every kind unless it names its own.
 * @param tokensPerSecond of a worker, by its kind of GPU.
 */
export function rankOffers(
  rows: readonly CatalogRow[],
  kinds: ReadonlyMap<string, number>,
  choices: readonly Choice[],
  tokensPerSecond: Readonly<Record<string, number>>,
): Offer[] {
  const measured = new Map(
    Object.entries(tokensPerSecond).map(([kind, rate]) => [kind.toLowerCase(), rate]),
  );
  const offers = choices.flatMap((choice) =>
    [...kindsOf(choice, kinds)].map(([kind, count]): Offer => {
      const named = { ...choice, accelerators: `${kind}:${count}` };
      const usdPerHour = lowestPrice(rows, kind, count, choice);
      const rate = measured.get(kind.toLowerCase());
      if (usdPerHour === undefined) return { choice: named };
      if (rate === undefined) return { choice: named, usdPerHour };
      return { choice: named, usdPerHour, usdPerMillionTokens: (usdPerHour / 3600 / rate) * 1e6 };
    }),
  );
  const tokens = ({ usdPerMillionTokens = Infinity }: Offer) => usdPerMillionTokens;
  const hours = ({ usdPerHour = Infinity }: Offer) => usdPerHour;
  return offers.sort((a, b) => compare(tokens(a), tokens(b)) || compare(hours(a), hours(b)));
}

// Two infinities are equal, but their difference is not a number.
const compare = (a: number, b: number) => (a === b ? 0 : a - b);

function kindsOf({ accelerators }: Choice, kinds: ReadonlyMap<string, number>) {
  if (accelerators === undefined) return kinds;
  const [kind = "", count = "1"] = accelerators.split(":");
  return new Map([[kind, Number(count)]]);
}

function lowestPrice(
  rows: readonly CatalogRow[],
  kind: string,
  count: number,
  { useSpot, infra, instanceType }: Choice,
): number | undefined {
  const places = (infra ?? "").split("/").map((part) => (part === "*" ? "" : part.toLowerCase()));
  const [cloud, region, zone] = places;
  let lowest: number | undefined;
  for (const row of rows) {
    // Without a machine, the price is of the GPU alone.
    if (!row.InstanceType || Number(row.AcceleratorCount) !== count) continue;
    if (row.AcceleratorName.toLowerCase() !== kind.toLowerCase()) continue;
    if (instanceType !== undefined && row.InstanceType !== instanceType) continue;
    if (cloud && row.cloud !== cloud) continue;
    if (region && row.Region.toLowerCase() !== region) continue;
    if (zone && row.AvailabilityZone.toLowerCase() !== zone) continue;
    const usd = Number.parseFloat(useSpot ? row.SpotPrice : row.Price);
    if (usd > 0 && (lowest === undefined || usd < lowest)) lowest = usd;
  }
  return lowest;
}

/**
 * The rows with GPUs of all clouds that SkyPilot has on this machine; none without its catalogue.
 *
 * @param homeDirectory where SkyPilot keeps it, below `.sky/catalogs`, a folder for each version.
 */
export async function readCatalog(homeDirectory: string): Promise<CatalogRow[]> {
  const catalogs = join(homeDirectory, ".sky/catalogs");
  const versions = (await readdir(catalogs).catch(() => [])).filter((name) => /^v\d+$/.test(name));
  const newest = versions.sort((a, b) => Number(a.slice(1)) - Number(b.slice(1))).at(-1);
  if (newest === undefined) return [];
  const { default: papaparse } = await import("papaparse");
  const rows: CatalogRow[] = [];
  for (const cloud of (await readdir(join(catalogs, newest))).sort()) {
    const file = join(catalogs, newest, cloud, "vms.csv");
    const text = await readFile(file, "utf8").catch(() => undefined);
    if (text === undefined) continue;
    const options = { header: true, skipEmptyLines: true } as const;
    for (const row of papaparse.parse<Partial<CatalogRow>>(text, options).data) {
      if (row.AcceleratorName) rows.push({ ...emptyRow, ...row, cloud });
    }
  }
  return rows;
}

const emptyRow: CatalogRow = {
  ...{ cloud: "", InstanceType: "", AcceleratorName: "", AcceleratorCount: "" },
  ...{ Price: "", SpotPrice: "", Region: "", AvailabilityZone: "" },
};
