import { memoryStorage } from "../data/storage/memory.ts";
import type { Storage } from "../data/storage/storage.ts";
import { asSluiceError, type ErrorCode } from "../foundation/errors.ts";
import { digestOf } from "../foundation/hashing.ts";
import type { InferenceRequest } from "../foundation/inference.ts";
import { compilePromptSet, type PromptSet } from "../prompt/prompt-set.ts";
import type { RunDependencies } from "./dependencies.ts";
import type { RunEvent } from "./events.ts";
import { answersOf, differingAnswers } from "./job/kinds.ts";
import type { JobSpec } from "./job/schema.ts";
import { planPath } from "./layout.ts";
import { locateRun } from "./locate.ts";
import { assertFree, openOrPlan } from "./open-run.ts";
import type { InputSummary, Plan } from "./plan.ts";
import { readJson } from "./records.ts";
import { firstRows, type SampledRow, spreadRows } from "./sample-rows.ts";
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
export interface RunPreview {
  /** Equal for two jobs that ask the same of the same rows. */
  digest: string;
  output: string;
  /** What the output holds already. */
  standing: { runId: string; committedTasks: number; tasks: number; differsIn: string[] } | null;
  input: InputSummary;
  rows: number;
  tasks: number;
  /** Null where lists decide it: then it is estimated. */
  requests: { planned: number | null; estimated: number };
  tokens: {
    /** Estimated at `charactersPerToken`, from the sample. */
    prompt: number;
    /** No more than these: `maxNewTokens` for every request. */
    maxCompletion: number;
    charactersPerToken: number;
  };
  /** Rows that were rendered for the estimates, spread over the input. */
  sampledRows: number;
  workers: number;
  /** The seed; null = it will be drawn. */
  seed: number | null;
  notices: string[];
  warnings: PreviewWarning[];
  shown: ShownRow[];
}

const maxSampledRows = 200;
const charactersPerToken = 4;

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
  const promptSet = compilePromptSet({
    ...plan.job,
    generation: { ...plan.job.generation, seed: plan.seed },
  });
  const sampled = (await spreadRows(context, maxSampledRows)).map((row) => ask(promptSet, row));
  const first = (await firstRows(context, shownRows)).map((row) => ask(promptSet, row));
  const { workers, notices } = workersFor(job, plan.rows);
  const standing = await standingRun(job, dependencies);
  return {
    digest: digestOf([answersOf(job), plan.tasks.file.sha256]),
    output: job.output.path,
    standing: standing.run,
    input: plan.input,
    rows: plan.rows,
    tasks: plan.tasks.count,
    ...estimates(job, plan, sampled),
    sampledRows: sampled.length,
    workers,
    seed: job.generation.seed ?? null,
    notices: [...notices, ...standing.notices],
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

interface AskedRow extends SampledRow {
  requests: readonly InferenceRequest[];
}

function ask(promptSet: PromptSet, row: SampledRow): AskedRow {
  if (row.error) return { ...row, requests: [] };
  try {
    return { ...row, requests: promptSet.requests(row.value!, row.index) };
  } catch (error) {
    return { ...row, error: asSluiceError(error), requests: [] };
  }
}

function estimates(
  job: JobSpec,
  plan: Plan,
  sampled: readonly AskedRow[],
): Pick<RunPreview, "requests" | "tokens"> {
  const prompts = Object.values(job.prompts ?? { prompt: job.prompt });
  const hasLists = prompts.some((prompt) => prompt?.forEach !== undefined);
  const fine = sampled.filter(({ error }) => !error);
  const perRow = (total: number) => (fine.length === 0 ? 0 : total / fine.length);
  const sum = (of: (row: AskedRow) => number) => fine.reduce((all, row) => all + of(row), 0);
  const requests = perRow(sum((row) => row.requests.length)) * plan.rows;
  const characters = perRow(sum((row) => row.requests.reduce((all, it) => all + lengthOf(it), 0)));
  const planned = hasLists ? null : plan.rows * prompts.length;
  const estimated = planned ?? Math.round(requests);
  return {
    requests: { planned, estimated },
    tokens: {
      prompt: Math.round((characters * plan.rows) / charactersPerToken),
      maxCompletion: estimated * job.generation.maxNewTokens,
      charactersPerToken,
    },
  };
}

function lengthOf({ prompt = "", messages = [] }: InferenceRequest): number {
  return messages.reduce((length, { content }) => length + content.length, prompt.length);
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
      await assertFree(storage, openStorage(location.outside), location);
      return { run: null, notices: [] };
    } catch (error) {
      return { run: null, notices: [`sluice run would stop: ${asSluiceError(error).message}`] };
    }
  }
  const { size } = await committedTasks(storage, plan);
  const differsIn = differingAnswers(plan.job, job);
  const run = { runId: plan.runId, committedTasks: size, tasks: plan.tasks.count, differsIn };
  const notice =
    differsIn.length === 0
      ? `the output holds run ${plan.runId} of this job, ${size} of ${run.tasks} tasks done: sluice run goes on with it`
      : `the output holds run ${plan.runId} of another job (differs in ${differsIn.join(", ")}): sluice run needs --fork or --overwrite`;
  return { run, notices: [notice] };
}
