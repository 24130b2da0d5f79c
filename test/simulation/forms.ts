import Papa from "papaparse";
// Loaded before the clock runs: what an encoder needs would be fetched in real time.
import "../../src/data/formats/csv-encoder.ts";
import "../../src/data/formats/json-encoder.ts";
import { resultFormatOf } from "../../src/data/formats/result-format.ts";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { Json, JsonObject } from "../../src/foundation/json.ts";
import type { Random } from "../../src/foundation/random.ts";
import { partPrefix } from "../../src/run/directory/layout.ts";
import type { JobInput } from "../../src/run/job/schema.ts";
import { outputStorage } from "../../src/run/output/plan-outputs.ts";
import type { WholeOutput } from "../../src/run/output/write-outputs.ts";
import type { Plan } from "../../src/run/plan/plan.ts";
import type { Manifest } from "../../src/run/seal/manifest.ts";
import type { World } from "./world.ts";

type Output = Extract<NonNullable<JobInput["output"]>, object>;

/**
 * In which form results are published; most are JSON lines, which is what they are made of. None is
 * compressed: that takes real time, of which the virtual clock knows nothing.
 */
export function drawForm(random: Random, plain: Output): Output {
  if (random.next() < 0.5) return plain;
  const forms: Output[] = [
    { path: "/simulated/out", format: "csv" },
    { path: "/simulated/out", format: "json" },
    { path: "/simulated/out.csv" },
    { path: "/simulated/out.json" },
    { path: "/simulated/out", format: "csv", perInputFile: true },
    { path: "/simulated/many/{stem}.new.csv" },
    { path: "/simulated/many/{index}.json" },
    { path: "/simulated/many/row-{id}.csv" },
  ];
  return { ...plain, ...forms[Math.floor(random.next() * forms.length)] };
}

/** What is published, where that is not the lines that it is made of: file by file. */
async function publishedFiles(
  world: World,
  plan: Plan,
  manifest: Manifest,
): Promise<{ path: string; bytes: Uint8Array }[]> {
  const { location, run: directory } = world;
  const outside = world.store(location.outside);
  const openStorage = (place: string) => world.store(place);
  const files: { path: string; storage: Storage }[] = [];
  for await (const { path } of directory.list(partPrefix)) files.push({ path, storage: directory });
  if (manifest.merged) files.push({ path: manifest.merged.path, storage: outside });
  if (manifest.outputs && plan.outputs) {
    files.length = 0;
    const storage = outputStorage(plan.outputs.base, { storage: directory, outside, openStorage });
    const list = Buffer.from(await directory.read(manifest.outputs.list.path)).toString();
    for (const line of list.split("\n").slice(0, -1)) {
      files.push({ path: (JSON.parse(line) as WholeOutput).path, storage });
    }
  }
  return await Promise.all(
    files.map(async ({ path, storage }) => ({ path, bytes: await storage.read(path) })),
  );
}

/** The difference between what is published and the lines that it was made of, if there is one. */
export async function formProblem(
  world: World,
  plan: Plan,
  manifest: Manifest,
  lines: readonly string[],
): Promise<string | undefined> {
  const rows: JsonObject[] = [];
  const headers = new Set<string>();
  let isTable = false;
  for (const { path, bytes } of await publishedFiles(world, plan, manifest)) {
    const format = resultFormatOf(path)!;
    const text = Buffer.from(bytes).toString();
    if (format.name === "json") rows.push(...[JSON.parse(text) as JsonObject[]].flat());
    if (format.name === "jsonl") rows.push(...linesOf(text));
    if (format.name !== "csv") continue;
    isTable = true;
    const { data, meta } = Papa.parse<JsonObject>(text, { header: true, skipEmptyLines: true });
    rows.push(...data);
    headers.add(JSON.stringify(meta.fields));
  }
  if (headers.size > 1) return `tables of one run differ in columns: ${[...headers].join(" ")}`;
  const wanted = lines.map((line) => JSON.parse(line) as JsonObject);
  const [is, should] = isTable ? [rows, wanted].map((all) => all.map(asTexts)) : [rows, wanted];
  if (JSON.stringify(is) === JSON.stringify(should)) return undefined;
  return `${JSON.stringify(is)} is published, it was made of ${JSON.stringify(should)}`;
}

function linesOf(text: string): JsonObject[] {
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as JsonObject);
}

/** A row as a table has it: texts by sorted name, and nothing where there is nothing. */
function asTexts(row: JsonObject): [string, Json][] {
  return Object.entries(row)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]): [string, Json] => [name, textOf(value)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

function textOf(value: Json): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
