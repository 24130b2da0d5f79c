import { memoryStorage } from "../../data/storage/memory.ts";
import type { Storage } from "../../data/storage/storage.ts";
import type { Engine } from "../../engines/engine.ts";
import { describeEngine } from "../../engines/registry.ts";
import type { ErrorCode } from "../../foundation/error-table.ts";
import { asSluiceError } from "../../foundation/errors.ts";
import { digestOf } from "../../foundation/hashing.ts";
import type { RequestOrigin } from "../../foundation/inference.ts";
import type { JsonObject } from "../../foundation/json.ts";
import { shownPath } from "../../foundation/shown-path.ts";
import type { PromptSet } from "../../prompt/prompt-set.ts";
import type { RowRequest } from "../../prompt/row-request.ts";
import { type Speed, speedOf } from "../advise/speed.ts";
import { committedTasks } from "../attempt/commits.ts";
import { pricesOf, type Spending, tokensOf, usdOf } from "../bill/costs.ts";
import type { RunDependencies } from "../dependencies.ts";
import { planPath } from "../directory/layout.ts";
import { locateRun } from "../directory/locate.ts";
import { readJson } from "../directory/records.ts";
import { runStorage } from "../directory/run-storage.ts";
import type { Backend } from "../dispatch/backend.ts";
import { fetchingFiles } from "../execute/fetching-engine.ts";
import { answersOf, differingAnswers } from "../job/kinds.ts";
import type { JobSpec } from "../job/schema.ts";
import { errorFileOf } from "../openai-batch/error-file.ts";
import { assertOutputsAbsent } from "../output/plan-outputs.ts";
import { promptSetOf } from "../plan/job-prompts.ts";
import { effectNotices, inputNotices, sampleNotices } from "../plan/notices.ts";
import { assertFree, identifiedJob, openOrPlan } from "../plan/open-run.ts";
import type { InputSummary, Plan } from "../plan/plan.ts";
import { cameToNothing } from "../plan/standing-run.ts";
import type { RunContext } from "../run-context.ts";
import { withSharedLimits } from "../run-job.ts";
import { readManifest } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import {
  type Estimate,
  type EstimateFacts,
  estimateFrom,
  estimateFromCosts,
  type RenderedRow,
  renderedRows,
  sampleRequests,
} from "./estimate.ts";
import { measureRows, paceOf, rowsToMeasure } from "./measure.ts";
import { firstRows } from "./sample-rows.ts";
import { type StandingSample, standingSample } from "./standing-sample.ts";

export interface PreviewOptions {
  shownRows: number;
  backend: Pick<Backend, "workersFor">;
  onEvent(event: RunEvent): void;
  /** Sends some rows, to estimate from their cost; default: sends nothing. */
  measure?: MeasureRequest;
}

/** How rows are sent for an estimate. */
export interface MeasureRequest {
  /** How many; default: twice the engine's capacity, at least 20 and at most 100. */
  rows?: number;
  openEngine(job: JobSpec): Promise<Engine>;
  signal: AbortSignal;
}

/** The requests of one row as they will be sent, or the reason why it will fail. */
export interface ShownRow {
  index: number;
  file: string;
  line: number;
  requests: (Pick<
    RowRequest & RequestOrigin,
    "promptName" | "element" | "messages" | "prompt" | "embed" | "file" | "slottedLine"
  > & {
    /** JSON Schema of the answer, as a server would get it. */
    schema?: JsonObject;
    /** The row itself, if it has no prompt. */
    row?: JsonObject;
  })[];
  error: string | null;
}

/** A fault that rows of the sample have in common. */
export interface PreviewWarning {
  code: ErrorCode;
  /** Missing or wrong field of the row. */
  field: string | null;
  /** Rows of the sample with the fault. */
  rows: number;
  message: string;
  first: { file: string; line: number };
}

export interface StandingRun {
  runId: string;
  committedTasks: number;
  tasks: number;
  /** Keys with different values, if it is of another job. */
  differsIn: string[];
  /** Its cost so far; null if it is of another job. */
  spent: Spending | null;
}

/** What a job would do. */
export interface RunPreview extends Estimate {
  /** Equal for two jobs that send the same requests for the same rows. */
  digest: string;
  output: string;
  /** The present content of the output. */
  standing: StandingRun | null;
  input: InputSummary;
  rows: number;
  tasks: number;
  /** Rows that were rendered for the estimates, spread over the input. */
  sampledRows: number;
  /** The speed of one worker; null without a measurement. */
  speed: Speed | null;
  workers: number;
  /** The seed; null = it will be drawn. */
  seed: number | null;
  notices: string[];
  warnings: PreviewWarning[];
  shown: ShownRow[];
}

/**
 * Plans a job in memory, renders the prompts of some of its rows, and says what running it would
 * mean. Sends nothing unless it must `measure`, and writes nothing.
 *
 * @throws SluiceError for everything that would prevent the job's start.
 */
export async function previewJob(
  job: JobSpec,
  dependencies: RunDependencies,
  options: PreviewOptions,
): Promise<RunPreview> {
  const { backend, onEvent, shownRows } = options;
  const { context } = await openOrPlan(job, withoutStorage(dependencies), {
    overwrite: false,
    fork: false,
    workersFor: async (spec, rows) => (await backend.workersFor(spec, rows)).workers,
    onEvent,
  });
  const { plan } = context;
  const promptSet = promptSetOf(plan.job, plan.seed);
  const sampled = await sampleRequests(context);
  const first = await renderedRows(context, await firstRows(context, shownRows));
  const { workers, notices } = await withSharedLimits(job, plan.rows, backend);
  const standing = await standingRun(await identifiedJob(job), context, dependencies);
  const facts = { job, plan, sampled };
  const estimate = options.measure
    ? await measured(facts, promptSet, workers, options.measure, dependencies)
    : { ...standing.estimated(estimateFrom(job, plan, sampled), facts), speed: null };
  return {
    digest: digestOf([answersOf(job), plan.tasks.file.sha256]),
    output: job.output.path,
    standing: standing.run,
    input: plan.input,
    rows: plan.rows,
    tasks: plan.tasks.count,
    ...estimate,
    sampledRows: sampled.length,
    workers,
    seed: job.generation.seed ?? null,
    notices: [
      ...effectNotices(job),
      ...inputNotices(plan),
      ...sampleNotices(job, sampled),
      ...notices,
      ...lookNotices(job),
      ...standing.notices,
      ...limitNotices(job, estimate.tokens.limitedBy),
    ],
    warnings: warningsOf(sampled),
    shown: first.map(shownRow),
  };
}

/** Checks of a run before its first row, which a plan does not make. */
function lookNotices({ model }: JobSpec): string[] {
  const servers = new Set(describeEngine(model).looksAt?.(model).map(shownServer));
  if (servers.size === 0) return [];
  return [`a run first checks address, key and model name: GET ${[...servers].join(", ")}`];
}

/** The requested page, without user, password and query. */
function shownServer(address: string): string {
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname.replace(/\/+$/, "")}/models`;
}

/** A budget is compared with received answers: an answer without a limit may go far beyond it. */
function limitNotices({ budget }: JobSpec, limitedBy: Estimate["tokens"]["limitedBy"]): string[] {
  const isOfTokens = budget?.tokens !== undefined || budget?.usd !== undefined;
  if (!isOfTokens || limitedBy !== "nothing") return [];
  return [
    "nothing limits answers, so the last ones may exceed the budget: set generation.maxNewTokens",
  ];
}

/** The same dependencies, with storage in memory. */
function withoutStorage(dependencies: RunDependencies): RunDependencies {
  const storages = new Map<string, Storage>();
  const openStorage = (location: string) => {
    const storage = storages.get(location) ?? memoryStorage();
    storages.set(location, storage);
    return storage;
  };
  return { ...dependencies, openStorage };
}

function warningsOf(sampled: readonly RenderedRow[]): PreviewWarning[] {
  const warnings = new Map<string, PreviewWarning>();
  for (const { error, file, line } of sampled) {
    if (!error) continue;
    const { code, message } = error;
    const field = error.place.field ?? null;
    const key = `${code} ${field}`;
    const known = warnings.get(key);
    if (known) known.rows++;
    else
      warnings.set(key, { code, field, rows: 1, message, first: { file: shownPath(file), line } });
  }
  return [...warnings.values()];
}

function shownRow({ index, file, line, requests, error }: RenderedRow): ShownRow {
  const shown = requests.map((request) => shownRequest(request));
  return { index, file: shownPath(file), line, requests: shown, error: error?.message ?? null };
}

function shownRequest(request: RowRequest): ShownRow["requests"][number] {
  const { messages, prompt, embed, file, slottedLine, structure, row, origin } = request;
  const { promptName, element } = origin;
  const hasNoWords = [messages, prompt, file].every((words) => words === undefined);
  return {
    ...{ promptName, element, messages, prompt, embed, file, slottedLine },
    ...{ schema: structure?.schema, row: hasNoWords ? row : undefined },
  };
}

/** Sends some of the sampled rows, and estimates from their cost. */
async function measured(
  facts: EstimateFacts,
  promptSet: PromptSet,
  workers: number,
  { rows, openEngine, signal }: MeasureRequest,
  { clock, random, inputs }: RunDependencies,
): Promise<Estimate & { speed: Speed }> {
  const { job, plan, sampled } = facts;
  const startedMs = clock.monotonic();
  const engine = fetchingFiles(await openEngine(plan.job), inputs, plan.job);
  const startSeconds = (clock.monotonic() - startedMs) / 1000;
  try {
    const { maxAttempts } = job.retries;
    const asked = rowsToMeasure(sampled, engine.capacity, rows);
    const tries = { promptSet, maxTries: maxAttempts, random, clock, signal };
    const found = await measureRows(engine, asked, tries);
    // Workers share a server's request limit; other engines belong to one worker each.
    const engines = describeEngine(job.model).isShared ? 1 : workers;
    const pace = paceOf(found, startSeconds, engine.capacity, engines);
    const byCharacters = estimateFrom(job, plan, sampled);
    const estimate = estimateFromCosts(byCharacters, facts, found.costs, pace, "measured");
    return { ...estimate, speed: speedOf(found, startSeconds, engine.capacity, plan.rows) };
  } finally {
    await engine.close();
  }
}

/** What `sluice run` would find at the output. */
interface Standing {
  run: StandingRun | null;
  notices: string[];
  /** A better estimate, if the run there is of the same job and partly done. */
  estimated(byCharacters: Estimate, facts: EstimateFacts): Estimate;
}

async function standingRun(
  job: JobSpec,
  planned: RunContext,
  dependencies: RunDependencies,
): Promise<Standing> {
  const { openStorage, clock, processes } = dependencies;
  const location = locateRun(job.output.path);
  const storage = runStorage(openStorage(location.directory));
  const plan = await readJson<Plan>(storage, planPath);
  const nothing = { run: null, estimated: (byCharacters: Estimate) => byCharacters };
  if (!plan) {
    try {
      const outside = openStorage(location.outside);
      await assertFree(storage, outside, location, errorFileOf(job, location));
      const places = { storage, outside, openStorage };
      await assertOutputsAbsent(planned.storage, planned.plan, places);
      return { ...nothing, notices: [] };
    } catch (error) {
      const message = `sluice run would stop: ${asSluiceError(error).message}`;
      return { ...nothing, notices: [message] };
    }
  }
  const { size } = await committedTasks(storage, plan);
  const differsIn = differingAnswers(plan.job, job);
  const { runId, tasks } = plan;
  const run = { runId, committedTasks: size, tasks: tasks.count, differsIn, spent: null };
  const held = `the output holds run ${runId} of`;
  if (differsIn.length > 0) {
    const how = (await cameToNothing(storage, { clock, processes }))
      ? "it answered nothing, and sluice run replaces it"
      : "run it with --fork or --overwrite";
    const message = `${held} another job (other ${differsIn.join(", ")}): ${how}`;
    return { ...nothing, run, notices: [message] };
  }
  const isSealed = (await readManifest(storage)) !== undefined;
  const state = isSealed
    ? "which is finished: sluice run does nothing"
    : `${size} of ${run.tasks} tasks done: sluice run continues it`;
  const notice = `${held} this job, ${state}`;
  const cost = await standingCost(storage, plan);
  const usd = usdOf(cost.usage, pricesOf(job));
  const spent = { tokens: tokensOf(cost.usage), usd, minutes: cost.seconds / 60 };
  const estimated = (byCharacters: Estimate, facts: EstimateFacts) =>
    cost.costs.length < 2
      ? byCharacters
      : estimateFromCosts(byCharacters, facts, cost.costs, cost.pace, "run");
  return { run: { ...run, spent }, notices: [notice], estimated };
}

async function standingCost(storage: Storage, plan: Plan): Promise<StandingSample> {
  const sealed = await readManifest(storage);
  const sample = await standingSample({ storage, plan });
  // Lost answers are in no commit.
  return sealed?.bill
    ? { ...sample, usage: sealed.bill, seconds: sealed.bill.wallSeconds }
    : sample;
}
