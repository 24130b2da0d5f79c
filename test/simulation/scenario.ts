import type { ErrorCode } from "../../src/foundation/error-table.ts";
import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import { drawForm } from "./forms.ts";
import type { SimulatedInput, SimulatedInputs } from "./inputs.ts";

/** One thing that is done to a run until it is through; then comes the next. */
export type Chapter =
  /** `sluice run`; `overwrite` replaces the run that is there, finished or not. */
  | { kind: "run"; job: JobSpec; overwrite: boolean; isAbandoned: boolean }
  /** `sluice retry`. */
  | { kind: "retry"; job: JobSpec; where: RetryWhere }
  /** `sluice clean`. */
  | { kind: "clean" };

/** What one seed stands for: a job, what is done with it, and what may go wrong. */
export interface Scenario {
  seed: number;
  /** Runs lie in an object store, of which this share of requests fails. */
  isFar: boolean;
  requestFaultRate: number;
  input: SimulatedInput;
  /** The job of the first chapter. */
  job: JobSpec;
  chapters: readonly Chapter[];
  /** Share of storage calls that go wrong, the process living on. */
  storageFaultRate: number;
  /** Kills, pauses and losses of processes, at most, a chapter. */
  disruptions: number;
  /** Chance of one at an ordinary storage call; commits, publication and seal get more. */
  disruptionRate: number;
  /** Processes that are paused go on later: attempts that come back from the dead. */
  hasZombies: boolean;
  /** Workers run on a cluster that refuses starts and takes places away. */
  isElastic: boolean;
  /** Workers beside the coordinator that take all tasks as well. */
  rivals: number;
  /** Virtual milliseconds in which every write finds the disk full. */
  fullDisk: { fromMs: number; toMs: number } | undefined;
  /** Longest a storage call takes, in milliseconds. */
  storeMs: number;
  /** Chance that a call is stopped cleanly, as by Ctrl-C. */
  stopRate: number;
  /** Chance that a call meets a `sluice cancel`, a `sluice clean`, or a reader. */
  visitRate: number;
  /** Within how many milliseconds of a call's start that comes. */
  visitMs: number;
}

/** Draws the scenario of a seed. */
export function drawScenario(seed: number, inputs: SimulatedInputs, isFar = false): Scenario {
  const random = seededRandom(seed);
  const pick = <T>(...choices: readonly T[]): T => choices[randomInteger(random, choices.length)]!;
  const input = inputs.all[randomInteger(random, inputs.all.length)]!;
  const chances = seededRandom(seed ^ 0xc4a9);
  const choose = <T>(...choices: readonly T[]): T =>
    choices[randomInteger(chances, choices.length)]!;
  const drawn = drawJob(random, input, pick);
  const isSlow = chances.next() < 0.2;
  const form = drawForm(seededRandom(seed ^ 0xf0f3), drawn.output as { path: string });
  const job = jobSchema.parse({
    ...drawn,
    output: form,
    ...drawPrompts(chances),
    ...(isSlow ? { model: { ...drawn.model, latencyMs: { min: 100, max: 2500 } } } : {}),
    generation: {
      ...(drawn.generation as object | undefined),
      ...(chances.next() < 0.5 ? { maxNewTokens: choose(5, 6, 7) } : {}),
    },
  });
  const fullFromMs = random.next() * 300;
  return {
    seed,
    isFar,
    requestFaultRate: [0, 0.05, 0.2][seed % 3]!,
    input,
    job,
    chapters: drawChapters(chances, job),
    storageFaultRate: pick(0, 0, 0.01, 0.03, 0.1),
    disruptions: pick(0, 1, 2, 3, 6),
    disruptionRate: pick(0.002, 0.01, 0.03),
    hasZombies: random.next() < 0.5,
    isElastic: seededRandom(seed ^ 0xe1a).next() < 0.3,
    rivals: pick(0, 0, 0, 1, 2),
    fullDisk:
      random.next() < 0.15
        ? { fromMs: fullFromMs, toMs: fullFromMs + 500 * random.next() }
        : undefined,
    storeMs: pick(0, 2, 10, 10, 3000),
    // A stop has most to wait for, and most to lose, where answers take long.
    stopRate: isSlow ? choose(0, 0.9, 0.9, 0.9) : choose(0, 0, 0.3, 0.9),
    visitRate: choose(0, 0, 0.2, 0.5),
    visitMs: isSlow ? 10_000 : 300,
  };
}

function drawChapters(random: Random, job: JobSpec): Chapter[] {
  const isReplaced = random.next() < 0.15;
  const chapters: Chapter[] = [
    { kind: "run", job, overwrite: false, isAbandoned: isReplaced && random.next() < 0.7 },
  ];
  if (isReplaced) {
    const other = { ...job, generation: { ...job.generation, seed: 12 } };
    const isSame = random.next() < 0.3;
    const next = isSame ? job : other;
    chapters.push({ kind: "run", job: next, overwrite: true, isAbandoned: false });
  }
  while (random.next() < 0.35 && chapters.length < 5) {
    chapters.push(random.next() < 0.3 ? { kind: "clean" } : drawRetry(random, job));
  }
  return chapters;
}

function drawRetry(random: Random, job: JobSpec): Chapter {
  if (job.model.engine !== "fake") throw new Error("simulations use the fake engine");
  const failures = job.model.failures.filter(
    ({ kind }) => !kind.startsWith("kill") && random.next() < 0.3,
  );
  const { maxNewTokens: _short, ...generation } = job.generation;
  return {
    kind: "retry",
    where: random.next() < 0.5 ? "failed" : "finish_reason=length",
    job: {
      ...job,
      model: { ...job.model, failures },
      generation: { ...generation, maxNewTokens: 100, seed: randomInteger(random, 100) },
    },
  };
}

/** Some jobs ask for lists: several requests a row. */
function drawPrompts(random: Random): Partial<JobInput> {
  if (random.next() < 0.7) return {};
  const list = { prompt: "Say {{ item }}", forEach: "[text, id, 'words']" };
  return random.next() < 0.5
    ? { prompt: list, prompts: undefined }
    : { prompt: undefined, prompts: { one: "Say {{ text }}", list } };
}

function drawJob(
  random: Random,
  { path, lines }: SimulatedInput,
  pick: <T>(...choices: readonly T[]) => T,
): JobInput {
  const prompt = "Say something of {{ text }}";
  const isDouble = random.next() < 0.25;
  return {
    input: { path, id: "id" },
    shard: { rows: Math.ceil(lines.length / pick(1, 2, 3, 5)) },
    model: {
      engine: "fake",
      capacity: pick(1, 2, 4, 16),
      latencyMs: pick<number | { min: number; max: number } | { mean: number }>(
        0,
        5,
        { min: 1, max: 40 },
        { mean: 10 },
      ),
      failures: drawFailures(random, lines.length),
      seed: 7,
    },
    ...(isDouble ? { prompts: { first: prompt, second: `${prompt}, again` } } : { prompt }),
    ...(random.next() < 0.5 ? { generation: { seed: 11 } } : {}),
    output: {
      path: random.next() < 0.2 ? "/simulated/out.jsonl" : "/simulated/out",
      ...(random.next() < 0.2 ? { include: ["attempts" as const] } : {}),
    },
    workers: { max: pick(1, 2, 3) },
    keepJournals: random.next() < 0.3,
  };
}

type Failures = NonNullable<Extract<JobInput["model"], { engine: "fake" }>["failures"]>;

function drawFailures(random: Random, rows: number): Failures {
  const failures: Failures = [];
  const row = () => randomInteger(random, rows);
  if (random.next() < 0.3) failures.push({ row: row(), kind: "refused" });
  if (random.next() < 0.2) failures.push({ row: row(), kind: "retryable" });
  if (random.next() < 0.2) failures.push({ row: row(), kind: "invalid" });
  if (random.next() < 0.1) failures.push({ row: row(), kind: "kill-engine" });
  if (random.next() < 0.1) failures.push({ row: row(), kind: "kill-worker" });
  if (random.next() < 0.3) failures.push({ rate: 0.2, kind: "retryable" });
  return failures;
}

const codes: Record<string, ErrorCode> = {
  refused: "REQUEST_REFUSED",
  retryable: "FAKE_FAILURE",
  invalid: "ANSWER_INVALID",
  "kill-engine": "ROW_KILLS_ENGINE",
  "kill-worker": "ROW_KILLS_ENGINE",
};

/** The code with which a row must fail under a job; undefined = it must be answered. */
export function plannedFailure(
  input: SimulatedInput,
  job: JobSpec,
  index: number,
): ErrorCode | undefined {
  const { broken } = input.lines[index]!;
  if (broken) return broken;
  if (job.model.engine !== "fake") return undefined;
  const failure = job.model.failures.find(({ row }) => row === index);
  return failure && codes[failure.kind];
}

/** True where a row ends its engine or its worker, so that neighbours come under suspicion. */
export function hasKillerRow(job: JobSpec): boolean {
  if (job.model.engine !== "fake") return false;
  return job.model.failures.some(({ kind }) => kind.startsWith("kill"));
}
