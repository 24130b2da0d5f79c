import type { ErrorCode } from "../../src/foundation/errors.ts";
import { type Random, randomInteger, seededRandom } from "../../src/foundation/random.ts";
import { type JobInput, type JobSpec, jobSchema } from "../../src/run/job/schema.ts";
import type { SimulatedInput, SimulatedInputs } from "./inputs.ts";

/** What one seed stands for: a job, and what may go wrong with it. */
export interface Scenario {
  seed: number;
  input: SimulatedInput;
  job: JobSpec;
  /** Share of storage calls that go wrong, the process living on. */
  storageFaultRate: number;
  /** Kills, pauses and losses of processes, at most. */
  disruptions: number;
  /** Chance of one at an ordinary storage call; commits, publication and seal get more. */
  disruptionRate: number;
  /** Processes that are paused go on later: attempts that come back from the dead. */
  hasZombies: boolean;
  /** Workers beside the coordinator that take all tasks as well. */
  rivals: number;
  /** Virtual milliseconds in which every write finds the disk full. */
  fullDisk: { fromMs: number; toMs: number } | undefined;
  /** Longest a storage call takes, in milliseconds. */
  storeMs: number;
}

/** Draws the scenario of a seed. */
export function drawScenario(seed: number, inputs: SimulatedInputs): Scenario {
  const random = seededRandom(seed);
  const pick = <T>(...choices: readonly T[]): T => choices[randomInteger(random, choices.length)]!;
  const input = inputs.all[randomInteger(random, inputs.all.length)]!;
  const job = jobSchema.parse(drawJob(random, input, pick));
  const fullFromMs = random.next() * 300;
  return {
    seed,
    input,
    job,
    storageFaultRate: pick(0, 0, 0.01, 0.03, 0.1),
    disruptions: pick(0, 1, 2, 3, 6),
    disruptionRate: pick(0.002, 0.01, 0.03),
    hasZombies: random.next() < 0.5,
    rivals: pick(0, 0, 0, 1, 2),
    fullDisk:
      random.next() < 0.15
        ? { fromMs: fullFromMs, toMs: fullFromMs + 500 * random.next() }
        : undefined,
    storeMs: pick(0, 2, 10, 10, 3000),
  };
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

/** The codes with which a row of the scenario must fail; none = it must be answered. */
export function plannedFailure({ input, job }: Scenario, index: number): ErrorCode | undefined {
  const { broken } = input.lines[index]!;
  if (broken) return broken;
  if (job.model.engine !== "fake") return undefined;
  const failure = job.model.failures.find(({ row }) => row === index);
  return failure && codes[failure.kind];
}

/** True where a row ends its engine or its worker, so that neighbours come under suspicion. */
export function hasKillerRow({ job }: Scenario): boolean {
  if (job.model.engine !== "fake") return false;
  return job.model.failures.some(({ kind }) => kind.startsWith("kill"));
}
