import type { Storage } from "../../src/data/storage/storage.ts";
import type { Json, JsonObject } from "../../src/foundation/json.ts";
import { limits } from "../../src/foundation/limits.ts";
import type { DeadLetter } from "../../src/run/attempt/result-lines.ts";
import { deadLetterPrefix, partPrefix } from "../../src/run/directory/layout.ts";
import { publishedForm } from "../../src/run/output/published-form.ts";
import { type Plan, readPlan } from "../../src/run/plan/plan.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import type { Manifest } from "../../src/run/seal/manifest.ts";
import { verifyAndMend } from "../../src/run/seal/verify.ts";
import { formProblem } from "./forms.ts";
import {
  type AskedGeneration,
  askedGenerations,
  type RowStanding,
  standingOf,
} from "./standing.ts";
import type { World } from "./world.ts";

/** A sealed run as it was found. */
export interface FoundRun {
  generations: readonly AskedGeneration[];
  standing: readonly RowStanding[];
}

/** Looks at a sealed run as its user would, and reports everything that is not as it must be. */
export async function checkSealedRun(world: World): Promise<FoundRun> {
  const { location, run: directory } = world;
  const outside = world.store(location.outside);
  const openStorage = (place: string) => world.store(place);
  const places = { storage: directory, outside, openStorage };
  const checker = world.dependenciesOf(world.newActor("d", "reader"));
  // Who publishes late looks again afterwards, and mends it.
  const isInFlux = world.actors.some(
    ({ role, process, hasEnded }) => role !== "reader" && process.state !== "killed" && !hasEnded,
  );
  const { damages, manifest, mended } = await verifyAndMend(places, checker);
  for (const { file, problem } of mended) {
    if (isInFlux || world.scenario.hasZombies || world.faults.changedLate.has(file)) continue;
    world.violate(`had to be mended: ${file}: ${problem}`);
  }
  for (const { file, problem } of damages) world.violate(`verify: ${file}: ${problem}`);
  const plan = await readPlan(directory);
  const results = await publishedLines(world, plan, manifest);
  if (manifest && !publishedForm(plan).isLines) {
    const problem = await formProblem(world, plan, manifest, results);
    if (problem) world.violate(problem);
  }
  const letters = await linesUnder(directory, deadLetterPrefix);
  const generations = await askedGenerations(world);
  const planned = standingOf(world.scenario, generations);
  const standing = withSuspects(world, planned, letters);
  checkResults(world, results, generations, standing);
  checkDeadLetters(world, letters, standing);
  if (manifest) checkCounts(world, manifest, results.length, letters.length);
  return { generations, standing };
}

/** Results as lines of JSON: those that are published, or those that these were made of. */
async function publishedLines(
  world: World,
  plan: Plan,
  manifest: Manifest | undefined,
): Promise<string[]> {
  const { location, run: directory } = world;
  if (!publishedForm(plan).isLines) {
    const sources = manifest?.tasks.flatMap(({ source }) => source ?? []) ?? [];
    const lines = await Promise.all(sources.map(({ path }) => linesUnder(directory, path)));
    return lines.flat();
  }
  if (location.mergedFile === null) return await linesUnder(directory, partPrefix);
  return await linesUnder(world.store(location.outside), location.mergedFile);
}

async function linesUnder(storage: Storage, prefix: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const { path } of storage.list(prefix)) {
    const text = Buffer.from(await storage.read(path)).toString();
    lines.push(...text.split("\n").filter((line) => line !== ""));
  }
  return lines;
}

/**
 * A row that was alone with three workers when they were lost is taken for their killer, though
 * something else was.
 */
function withSuspects(
  { faults }: World,
  planned: readonly RowStanding[],
  letters: readonly string[],
): RowStanding[] {
  const standing = [...planned];
  let suspects = Math.floor(faults.doubts / limits.maxRowKills);
  for (const letter of letters) {
    const { index, code } = JSON.parse(letter) as DeadLetter;
    const before = standing[index]!;
    const isNew = !("code" in before) || before.code !== code;
    if (code === "ROW_KILLS_ENGINE" && isNew && suspects-- > 0) standing[index] = { code };
  }
  return standing;
}

/** Every row that can be answered stands there once, in input order, with its own answer. */
function checkResults(
  world: World,
  lines: readonly string[],
  generations: readonly AskedGeneration[],
  standing: readonly RowStanding[],
): void {
  const { output } = world.scenario.job;
  const answerable = standing.flatMap((row, index) => ("code" in row ? [] : { ...row, index }));
  if (lines.length !== answerable.length) {
    world.violate(`${lines.length} results, ${answerable.length} rows can be answered`);
  }
  for (const [at, { index, answer, generation }] of answerable.entries()) {
    const { runId } = generations.find((it) => it.generation === generation)!;
    const serves = `${runId.toLowerCase()}/g${generation}`;
    const problem = resultProblem(world, lines[at], { index, answer, serves });
    if (problem) world.violate(`result ${at}, row ${index}: ${problem}: ${lines[at]}`);
    if (output.include.length > 0 && !lines[at]?.includes(`"${output.field}Metadata":`)) {
      world.violate(`result ${at} lacks its metadata`);
    }
  }
}

interface ExpectedResult {
  index: number;
  answer: Json;
  /** The generation whose answer it is. */
  serves: string;
}

function resultProblem(
  world: World,
  line: string | undefined,
  { index, answer, serves }: ExpectedResult,
): string | undefined {
  if (line === undefined) return "missing";
  const found = answerOf(world, line);
  if (!found) return "no JSON, or without an answer";
  const { raw } = world.scenario.input.lines[index]!;
  if (!line.startsWith(raw.slice(0, -1))) return "another row, or changed";
  for (const number of found.asks) {
    const ask = world.ledger.asks[number];
    if (ask?.row !== index) return "the answer was given to another row";
    if (ask.serves !== serves) return `the answer is of ${ask.serves}, not of ${serves}`;
  }
  if (JSON.stringify(found.answer) === JSON.stringify(answer)) return undefined;
  return `the answer is not ${JSON.stringify(answer)}`;
}

/** The answer in a line of results, and the numbers of the asks that gave it. */
export function answerOf(
  { scenario }: World,
  line: string,
): { answer: Json; asks: number[] } | undefined {
  const asks: number[] = [];
  const withoutNumbers = (_key: string, value: Json): Json => {
    if (typeof value !== "string") return value;
    return value.replace(/ #(\d+)$/, (_all, number: string) => {
      asks.push(Number(number));
      return "";
    });
  };
  try {
    const row = JSON.parse(line) as JsonObject;
    const answer = row[scenario.job.output.field];
    if (answer === undefined) return undefined;
    return { answer: JSON.parse(JSON.stringify(answer), withoutNumbers) as Json, asks };
  } catch {
    return undefined;
  }
}

function checkDeadLetters(
  world: World,
  lines: readonly string[],
  standing: readonly RowStanding[],
): void {
  const found = lines.map((line) => JSON.parse(line) as DeadLetter);
  const wanted = standing.flatMap((row, index) => ("code" in row ? { index, ...row } : []));
  const text = (letters: readonly { index: number; code: string }[]) =>
    letters.map(({ index, code }) => `${index} ${code}`).join(", ");
  if (text(found) !== text(wanted)) {
    world.violate(`dead letters are [${text(found)}], planned were [${text(wanted)}]`);
  }
}

function checkCounts(world: World, manifest: Manifest, results: number, failed: number): void {
  const { lines } = world.scenario.input;
  const rows = { total: lines.length, answered: results, filtered: 0, failed, results };
  if (JSON.stringify(manifest.rows) !== JSON.stringify(rows)) {
    world.violate(`rows of the manifest: ${JSON.stringify(manifest.rows)}`);
  }
  const codes = Object.values(manifest.errors).reduce((sum, entry) => sum + entry.count, 0);
  if (codes !== failed) world.violate(`errors of the manifest count ${codes}, failed ${failed}`);
}

/**
 * A retry asks the rows that it is to ask, and no others; also one of a chapter before that came
 * back from the dead, and planned the next generation in place of `called`.
 */
export function checkRetriedRows(
  world: World,
  before: FoundRun,
  { generations }: FoundRun,
  called: RetryWhere,
): void {
  const planned = generations[before.generations.length];
  const where = planned?.where ?? called;
  const asked = planned?.rows ?? new Set();
  const wanted = before.standing.flatMap((row, index) => {
    const isWanted = "code" in row ? where === "failed" : where !== "failed" && row.isCut;
    return isWanted ? [index] : [];
  });
  const text = (rows: Iterable<number>) => [...rows].join(", ");
  // A row that failed for a doubtful reason is not known to be cut.
  const isCertain = where === "failed" || world.faults.doubts < limits.maxRowKills;
  if (isCertain && text(asked) !== text(wanted)) {
    world.violate(`the retry asked rows [${text(asked)}], wanted were [${text(wanted)}]`);
  }
}
