import { openFake } from "../../src/engines/fake/engine.ts";
import { systemClock } from "../../src/foundation/clock.ts";
import type { ErrorCode } from "../../src/foundation/error-table.ts";
import { indexesIn } from "../../src/foundation/index-set.ts";
import type { Json, JsonObject } from "../../src/foundation/json.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { JobSpec } from "../../src/run/job/schema.ts";
import { promptSetOf } from "../../src/run/plan/job-prompts.ts";
import { eachTask, readPlan } from "../../src/run/plan/plan.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import { plannedFailure, type Scenario } from "./scenario.ts";
import type { World } from "./world.ts";

/** What the engine says to a row when it is asked directly. */
export interface ExpectedAnswer {
  answer: Json;
  /** True where an answer ends at its limit of tokens. */
  isCut: boolean;
}

/** What must stand for a row: the answer of a generation, or a failure. */
export type RowStanding = (ExpectedAnswer & { generation: number }) | { code: ErrorCode };

/** What one generation asked: rows and the job they were asked with. */
export interface AskedGeneration {
  generation: number;
  runId: string;
  job: JobSpec;
  /** Which rows a retry was to ask. */
  where: RetryWhere | undefined;
  rows: ReadonlySet<number>;
  answers: readonly (ExpectedAnswer | undefined)[];
}

/** The sealed generations of a run, from their plans. */
export async function askedGenerations(world: World): Promise<AskedGeneration[]> {
  const generations: AskedGeneration[] = [];
  const { seals } = await world.standing();
  for (const { generation, end } of seals.all) {
    if (end !== "sealed") continue;
    const plan = await readPlan(world.run, generation);
    const { job, seed, runId, where } = plan;
    const rows = new Set<number>();
    for await (const { only, firstRow, rows: all } of eachTask(world.run, plan)) {
      if (only !== undefined) for (const row of indexesIn(only)) rows.add(row);
      else for (let row = firstRow; row < firstRow + all; row++) rows.add(row);
    }
    const answers = await expectedAnswers(world.scenario, job, seed);
    generations.push({ generation, runId, job, where: where as RetryWhere, rows, answers });
  }
  return generations;
}

/** What must stand for each row: a retry replaces what was there only by a success. */
export function standingOf(
  { input }: Scenario,
  generations: readonly AskedGeneration[],
): RowStanding[] {
  const standing: RowStanding[] = [];
  for (const { generation, job, rows, answers } of generations) {
    for (const row of rows) {
      const code = plannedFailure(input, job, row);
      const before = standing[row];
      if (!code) standing[row] = { ...answers[row]!, generation };
      else if (!before || "code" in before) standing[row] = { code };
    }
  }
  return standing;
}

async function expectedAnswers(
  { input }: Scenario,
  job: JobSpec,
  seed: number,
): Promise<(ExpectedAnswer | undefined)[]> {
  if (job.model.engine !== "fake") throw new Error("simulations use the fake engine");
  const promptSet = promptSetOf(job, seed);
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
      const isCut = responses.some(({ answers }) => answers[0]?.finishReason === "length");
      return { answer: promptSet.answer(requests, responses), isCut };
    }),
  );
}
