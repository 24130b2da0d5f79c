import { memoryStorage } from "../data/storage/memory.ts";
import type { Storage } from "../data/storage/storage.ts";
import { asSluiceError, type ErrorCode } from "../foundation/errors.ts";
import { digestOf } from "../foundation/hashing.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import { promptSetOf } from "./askable.ts";
import type { RunDependencies } from "./dependencies.ts";
import {
  type AskedRow,
  askedRow,
  type Estimate,
  estimateFrom,
  sampleRequests,
} from "./estimate.ts";
import type { RunEvent } from "./events.ts";
import { generationNotices } from "./job/generation.ts";
import { answersOf, differingAnswers } from "./job/kinds.ts";
import type { JobSpec } from "./job/schema.ts";
import { planPath } from "./layout.ts";
import { locateRun } from "./locate.ts";
import { assertFree, openOrPlan } from "./open-run.ts";
import { errorFileOf } from "./openai-batch/error-file.ts";
import type { InputSummary, Plan } from "./plan.ts";
import { readJson } from "./records.ts";
import { firstRows } from "./sample-rows.ts";
import { committedTasks } from "./seal/commits.ts";

export interface PreviewOptions {
  /** First rows whose requests are shown. */
  shownRows: number;
  workersFor(job: JobSpec, rows: number): { workers: number; notices: string[] };
  onEvent(event: RunEvent): void;
}

/** The requests of one row, as they will be asked, or why it will fail. */
export interface ShownRow {
  index: number;
  file: string;
  line: number;
  requests: Pick<
    InferenceRequest,
    "promptName" | "element" | "messages" | "prompt" | "slottedLine"
  >[];
  error: string | null;
}

/** A fault that rows of the sample have in common. */
export interface PreviewWarning {
  code: ErrorCode;
  /** Field of the row that is missing or wrong. */
  field: string | null;
  /** Rows of the sample that have it. */
  rows: number;
  /** What the first of them says, and where it stands. */
  message: string;
  first: { file: string; line: number };
}

/** What a job would do. */
export interface RunPreview extends Estimate {
  /** Equal for two jobs that ask the same of the same rows. */
  digest: string;
  output: string;
  /** What the output holds already. */
  standing: { runId: string; committedTasks: number; tasks: number; differsIn: string[] } | null;
  input: InputSummary;
  rows: number;
  tasks: number;
  /** Rows that were rendered for the estimates, spread over the input. */
  sampledRows: number;
  workers: number;
  /** The seed; null = it will be drawn. */
  seed: number | null;
  notices: string[];
  warnings: PreviewWarning[];
  shown: ShownRow[];
}

/**
 * Plans a job in memory, renders the prompts of some of its rows, and says what running it would
 * mean. Asks nothing and writes nothing.
 *
 * @throws SluiceError for whatever would prevent the job's start.
 */
export async function previewJob(
  job: JobSpec,
  dependencies: RunDependencies,
  options: PreviewOptions,
): Promise<RunPreview> {
  const { onEvent, workersFor, shownRows } = options;
  const { context } = await openOrPlan(job, withoutStorage(dependencies), {
    overwrite: false,
    fork: false,
    workersFor: (spec, rows) => workersFor(spec, rows).workers,
    onEvent,
  });
  const { plan } = context;
  const promptSet = promptSetOf(plan.job, plan.seed);
  const sampled = await sampleRequests(context);
  const first = (await firstRows(context, shownRows)).map((row) => askedRow(promptSet, row));
  const { workers, notices } = workersFor(job, plan.rows);
  const standing = await standingRun(job, dependencies);
  return {
    digest: digestOf([answersOf(job), plan.tasks.file.sha256]),
    output: job.output.path,
    standing: standing.run,
    input: plan.input,
    rows: plan.rows,
    tasks: plan.tasks.count,
    ...estimateFrom(job, plan, sampled),
    sampledRows: sampled.length,
    workers,
    seed: job.generation.seed ?? null,
    notices: [...generationNotices(job.generation), ...notices, ...standing.notices],
    warnings: warningsOf(sampled),
    shown: first.map(shownRow),
  };
}

/** The same world, with storage that ends with the process. */
function withoutStorage(dependencies: RunDependencies): RunDependencies {
  const storages = new Map<string, Storage>();
  const openStorage = (location: string) => {
    const storage = storages.get(location) ?? memoryStorage();
    storages.set(location, storage);
    return storage;
  };
  return { ...dependencies, openStorage };
}

function warningsOf(sampled: readonly AskedRow[]): PreviewWarning[] {
  const warnings = new Map<string, PreviewWarning>();
  for (const { error, file, line } of sampled) {
    if (!error) continue;
    const { code, message } = error;
    const field = error.place.field ?? null;
    const key = `${code} ${field}`;
    const known = warnings.get(key);
    if (known) known.rows++;
    else warnings.set(key, { code, field, rows: 1, message, first: { file, line } });
  }
  return [...warnings.values()];
}

function shownRow({ index, file, line, requests, error }: AskedRow): ShownRow {
  const shown = requests.map(({ promptName, element, messages, prompt, slottedLine }) => ({
    promptName,
    ...(element === undefined ? {} : { element }),
    ...(messages && { messages }),
    ...(prompt === undefined ? {} : { prompt }),
    ...(slottedLine && { slottedLine }),
  }));
  return { index, file, line, requests: shown, error: error?.message ?? null };
}

/** What `sluice run` would find at the output. */
async function standingRun(
  job: JobSpec,
  { openStorage }: RunDependencies,
): Promise<{ run: RunPreview["standing"]; notices: string[] }> {
  const location = locateRun(job.output.path);
  const storage = openStorage(location.directory);
  const plan = await readJson<Plan>(storage, planPath);
  if (!plan) {
    try {
      const errorFile = errorFileOf(job, location);
      await assertFree(storage, openStorage(location.outside), location, errorFile);
      return { run: null, notices: [] };
    } catch (error) {
      return { run: null, notices: [`sluice run would stop: ${asSluiceError(error).message}`] };
    }
  }
  const { size } = await committedTasks(storage, plan);
  const differsIn = differingAnswers(plan.job, job);
  const { runId, tasks } = plan;
  const run = { runId, committedTasks: size, tasks: tasks.count, differsIn };
  const held = `the output holds run ${runId} of`;
  const notice =
    differsIn.length === 0
      ? `${held} this job, ${size} of ${run.tasks} tasks done: sluice run goes on with it`
      : `${held} another job (other ${differsIn.join(", ")}): run it with --fork or --overwrite`;
  return { run, notices: [notice] };
}
