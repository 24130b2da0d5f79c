import type { Storage } from "../../src/data/storage/storage.ts";
import { openFake } from "../../src/engines/fake/engine.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import type { ErrorCode } from "../../src/foundation/errors.ts";
import type { JsonObject } from "../../src/foundation/json.ts";
import { limits } from "../../src/foundation/limits.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { compilePromptSet } from "../../src/prompt/prompt-set.ts";
import type { DeadLetter } from "../../src/run/attempt/write-part.ts";
import { deadLetterPrefix, partPrefix } from "../../src/run/layout.ts";
import { readPlan } from "../../src/run/plan.ts";
import type { Manifest } from "../../src/run/seal/manifest.ts";
import { verifyRun } from "../../src/run/seal/verify.ts";
import { plannedFailure, type Scenario } from "./scenario.ts";
import type { World } from "./world.ts";

/** Looks at a sealed run as its user would, and reports everything that is not as it must be. */
export async function checkSealedRun(world: World): Promise<void> {
  const { scenario, location } = world;
  const storage = world.store(location.directory);
  const outside = world.store(location.outside);
  const { damages, manifest } = await verifyRun(storage, outside);
  for (const { file, problem } of damages) world.violate(`verify: ${file}: ${problem}`);
  const results =
    location.mergedFile === null
      ? await linesUnder(storage, partPrefix)
      : await linesUnder(outside, location.mergedFile);
  const letters = await linesUnder(storage, deadLetterPrefix);
  const { seed } = await readPlan(storage);
  const expected = await expectedAnswers(scenario, seed);
  const fates = expectedFates(world, letters);
  checkResults(world, results, { expected, fates });
  checkDeadLetters(world, letters, fates);
  if (manifest) checkCounts(world, manifest, results.length, letters.length);
}

async function linesUnder(storage: Storage, prefix: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const { path } of storage.list(prefix)) {
    const text = Buffer.from(await storage.read(path)).toString();
    lines.push(...text.split("\n").filter((line) => line !== ""));
  }
  return lines;
}

/** What the engine says to each row when it is asked directly. */
async function expectedAnswers({ job, input }: Scenario, seed: number): Promise<unknown[]> {
  if (job.model.engine !== "fake") throw new Error("simulations use the fake engine");
  const promptSet = compilePromptSet({ ...job, generation: { ...job.generation, seed } });
  const clock = systemClock;
  const context = { clock, random: seededRandom(1), logger: silentLogger, environment: {} };
  const places = { homeDirectory: "/", hostCommand: [], killProcess: () => {} };
  const options = { ...job.model, failures: [], failureRate: 0, latencyMs: 0 };
  const engine = openFake(options, { ...context, ...places });
  const { signal } = new AbortController();
  return await Promise.all(
    input.lines.map(async ({ raw, broken }, index) => {
      if (broken) return undefined;
      const requests = promptSet.requests(JSON.parse(raw) as JsonObject, index);
      const responses = await Promise.all(requests.map((it) => engine.infer(it, signal)));
      return promptSet.answer(requests, responses);
    }),
  );
}

/** Every row that can be answered stands there once, in input order, with its own answer. */
function checkResults(
  world: World,
  lines: readonly string[],
  { expected, fates }: { expected: readonly unknown[]; fates: Fates },
): void {
  const { scenario } = world;
  const answerable = scenario.input.lines
    .map(({ raw }, index) => ({ raw, index }))
    .filter(({ index }) => fates[index] === undefined);
  if (lines.length !== answerable.length) {
    world.violate(`${lines.length} results, ${answerable.length} rows can be answered`);
  }
  const { field, include } = scenario.job.output;
  for (const [at, { raw, index }] of answerable.entries()) {
    const problem = resultProblem(world, lines[at], { raw, index, field, answer: expected[index] });
    if (problem) world.violate(`result ${at}, row ${index}: ${problem}: ${lines[at]}`);
    if (include.length > 0 && !lines[at]?.includes(`"${field}Metadata":`)) {
      world.violate(`result ${at} lacks its metadata`);
    }
  }
}

interface ExpectedResult {
  raw: string;
  index: number;
  field: string;
  answer: unknown;
}

function resultProblem(
  world: World,
  line: string | undefined,
  { raw, index, field, answer }: ExpectedResult,
): string | undefined {
  if (line === undefined) return "missing";
  if (!line.startsWith(raw.slice(0, -1))) return "another row, or changed";
  let found: unknown;
  try {
    found = (JSON.parse(line) as JsonObject)[field];
  } catch {
    return "no JSON";
  }
  const wanted = typeof answer === "string" ? { answer } : (answer as Record<string, string>);
  const given = typeof found === "string" ? { answer: found } : (found as Record<string, string>);
  for (const [name, text] of Object.entries(wanted)) {
    const [, words, number] = /^(.*) #(\d+)$/.exec(given?.[name] ?? "") ?? [];
    if (words !== text) return `answer ${name} is not "${text}"`;
    if (world.asks[Number(number)]?.row !== index) return "the answer was given to another row";
  }
  return undefined;
}

type Fates = readonly (ErrorCode | undefined)[];

/**
 * The code with which each row must fail; undefined = it must be answered. A row that was alone
 * with three workers when they were lost is taken for their killer, though something else was.
 */
function expectedFates({ scenario, doubts }: World, letters: readonly string[]): Fates {
  const fates = scenario.input.lines.map((_, index) => plannedFailure(scenario, index));
  let suspects = Math.floor(doubts / limits.maxRowKills);
  for (const letter of letters) {
    const { index, code } = JSON.parse(letter) as DeadLetter;
    if (code === "ROW_KILLS_ENGINE" && fates[index] !== code && suspects-- > 0) fates[index] = code;
  }
  return fates;
}

function checkDeadLetters(world: World, lines: readonly string[], fates: Fates): void {
  const found = lines.map((line) => JSON.parse(line) as DeadLetter);
  const wanted = fates
    .map((code, index) => ({ index, code }))
    .filter(({ code }) => code !== undefined);
  const text = (letters: readonly { index: number; code?: string | undefined }[]) =>
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
