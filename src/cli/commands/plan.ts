import type { Command } from "commander";
import { backendContext } from "../../api/backend-context.ts";
import { engineContext, runDependencies } from "../../api/run-dependencies.ts";
import { engineSteps, openBackends } from "../../backends/registry.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Advice, AdviceFacts } from "../../run/advise/advise.ts";
import { runWords } from "../../run/directory/run-storage.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { RunPreview } from "../../run/preview/preview.ts";
import { openProgress, type Progress } from "../../terminal/progress.ts";
import { counted } from "../../terminal/quantities.ts";
import { type CliIo, type CommandCall, write, writeJson } from "../io.ts";
import { declareJobOptions, type JobOptionValues, jobFromOptions } from "../job-options.ts";
import { untilSignal } from "../until-signal.ts";
import { wholeNumber } from "../whole-number.ts";

/** One row does not show how rows differ. */
const leastMeasured = 2;

interface PlanFlags {
  show: string;
  write?: string | true;
  measure?: string | true;
  advise?: boolean;
  deadline?: string;
  price?: string;
  preemptionEvery?: string;
  machineStart?: string;
  install: boolean;
  json?: boolean;
}

/** `sluice plan`: what a job would do; with `--write`, a run for others to work on. */
export function register(command: Command, io: CliIo, { args }: CommandCall): void {
  declareJobOptions(command, io, args)
    .option("--show <rows>", "rows whose prompts are shown", "2")
    .option("--measure [rows]", "process some rows, to estimate tokens, money and time from them")
    .option(
      "--advise",
      "measure some rows, and propose the size of tasks and the number of workers …",
    )
    .option("--deadline <time>", "… for a run within this time, such as 2h or 1h30m")
    .option("--price <usd>", "… at this price of a machine with one worker, in dollars an hour")
    .option(
      "--preemption-every <time>",
      "… with machines that are taken away this often, on average",
    )
    .option("--machine-start <time>", "… and that take this long before a worker starts")
    .option("--no-install", "with --measure: fetch neither engine packages nor models")
    .option("--write [output]", "freeze the plan at the output, for sluice worker")
    .option("--json", "print JSON")
    .action((_, options: PlanFlags & JobOptionValues) => plan(options, io));
}

async function plan(given: PlanFlags & JobOptionValues, io: CliIo): Promise<void> {
  const wishes = wishesOf(given);
  const options = given.advise ? { ...given, measure: given.measure ?? true } : given;
  const shownRows = wholeNumber(options.show);
  if (!Number.isSafeInteger(shownRows)) {
    throw new SluiceError("USAGE", `--show must be a number of rows, not "${options.show}"`);
  }
  const measuredRows =
    options.measure === true ? undefined : wholeNumber(options.measure ?? `${leastMeasured}`);
  if (
    measuredRows !== undefined &&
    !(Number.isSafeInteger(measuredRows) && measuredRows >= leastMeasured)
  ) {
    const problem = `--measure ${options.measure}: an interval needs ${leastMeasured} rows or more`;
    throw new SluiceError("USAGE", problem);
  }
  if (options.measure !== undefined && options.write !== undefined) {
    throw new SluiceError("USAGE", "--measure shows an estimate, and --write shows none");
  }
  const named = typeof options.write === "string" ? { output: options.write } : {};
  const { job, originOf } = await jobFromOptions({ ...options, ...named }, io);
  const progress = openProgress({ quiet: !io.isTerminal }, io);
  try {
    if (options.write) await freeze(job, options, io, progress);
    else await preview(job, { ...options, shownRows, measuredRows, wishes }, io, progress);
  } catch (error) {
    if (error instanceof SluiceError && error.code === "RUN_CANCELED") {
      error.hint = "a measurement keeps no answers: the same command begins it again";
    }
    const { withJobLine } = await import("../../run/job/problem.ts");
    throw withJobLine(error, originOf);
  } finally {
    progress.close();
  }
}

/** The user's wishes for a run, if advice is requested. */
type Wishes = Omit<AdviceFacts, "rows" | "plannedRowsPerShard" | "speed" | "journal">;

function wishesOf(flags: PlanFlags): Wishes | undefined {
  const { advise = false, deadline, price, preemptionEvery, machineStart } = flags;
  if (!advise) {
    const alone = { deadline, price, preemptionEvery, machineStart };
    const given = Object.entries(alone).find(([, value]) => value !== undefined);
    if (!given) return undefined;
    const flag = given[0].replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new SluiceError("USAGE", `--${flag} goes with --advise`);
  }
  const usdPerHour = Number(price);
  if (price !== undefined && !(usdPerHour > 0 && usdPerHour < Infinity)) {
    throw new SluiceError("USAGE", `--price ${price} is not a price per hour such as 1.20`);
  }
  return {
    machineStartSeconds:
      machineStart === undefined ? 0 : secondsOf("--machine-start", machineStart),
    ...(price !== undefined && { usdPerHour }),
    ...(deadline !== undefined && { deadlineSeconds: secondsOf("--deadline", deadline) }),
    ...(preemptionEvery !== undefined && {
      preemptionEverySeconds: secondsOf("--preemption-every", preemptionEvery),
    }),
  };
}

const unitSeconds = { d: 86_400, h: 3600, m: 60, s: 1 } as const;
const spanForm =
  /^(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?$/;

/**
 * Reads a duration in human form: `2h`, `1h30m`, `1.5d`, `90s`.
 *
 * @param flag the option with this value, for the error.
 * @returns seconds, above 0.
 * @throws SluiceError `USAGE`.
 */
export function secondsOf(flag: string, text: string): number {
  const [, ...parts] = spanForm.exec(text) ?? [];
  const units = Object.values(unitSeconds);
  const seconds = parts.reduce((sum, part, at) => sum + Number(part ?? 0) * units[at]!, 0);
  if (seconds > 0) return seconds;
  throw new SluiceError(
    "USAGE",
    `${flag} ${text} is not a length of time such as 2h, 90m or 1h30m`,
  );
}

/** Advice for a measured job, with a note if it uses servers. */
async function adviceFor(
  job: JobSpec,
  { rows, input, speed }: RunPreview,
  wishes: Wishes,
): Promise<Advice> {
  const [{ advise }, { describeEngine }, { schemeOf }] = await Promise.all([
    import("../../run/advise/advise.ts"),
    import("../../engines/registry.ts"),
    import("../../data/storage/open.ts"),
  ]);
  const advice = advise({
    ...wishes,
    rows,
    plannedRowsPerShard: Math.min(rows, input.largestTaskRows ?? input.rowsPerTask),
    uncutRows: input.largestTaskRows ?? leastUncutRows(input),
    speed: speed!,
    journal: schemeOf(job.output.path) === undefined ? "disk" : "store",
  });
  if (!describeEngine(job.model).isShared) return advice;
  const note =
    "the model is a server, measured as it is: each further worker needs another such server";
  return { ...advice, warnings: [...advice.warnings, note] };
}

/** Rows of an indivisible file, if all files are of that kind. */
function leastUncutRows({ rows, files, compressedFiles }: RunPreview["input"]): number {
  return compressedFiles === files ? Math.ceil(rows / files) : 1;
}

async function preview(
  job: JobSpec,
  options: PlanFlags & {
    shownRows: number;
    measuredRows: number | undefined;
    wishes: Wishes | undefined;
  },
  io: CliIo,
  progress: Progress,
): Promise<void> {
  if (job.input.some(({ path }) => path === "-")) {
    throw new SluiceError("USAGE", "plan cannot keep what it reads from standard input", {
      hint: "name a file as input, or freeze the plan with --write",
    });
  }
  const [{ previewJob }, { previewLines }] = await Promise.all([
    import("../../run/preview/preview.ts"),
    import("../plan-view.ts"),
  ]);
  const backend = openBackends(backendContext(io, progress.logger)).of(job);
  const { shownRows, measuredRows: rows } = options;
  const previewed = (signal?: AbortSignal, listen = () => {}) =>
    previewJob(job, runDependencies(io, progress.logger, job.store), {
      shownRows,
      backend,
      onEvent: progress.onEvent,
      ...(signal && {
        measure: {
          rows,
          openEngine(spec) {
            listen();
            const { logger, onStep } = progress;
            const preparation = { install: options.install, logger, signal, onStep };
            return engineSteps(backendContext(io, logger)).open(spec, preparation);
          },
          signal,
        },
      }),
    });
  // Only an engine needs to be closed: without one, a signal ends this at once.
  const isMeasured = options.measure !== undefined;
  const found = await (isMeasured
    ? untilSignal(io, progress.logger, previewed).then(({ result }) => result)
    : previewed()
  ).finally(() => backend.close());
  progress.close();
  const advice = options.wishes && (await adviceFor(job, found, options.wishes));
  if (options.json) return writeJson(io, { ...found, ...(advice && { advice }) });
  const { adviceLines } = await import("../plan-view.ts");
  const faster = await fasterLine(job, io, progress);
  const lines = [
    ...previewLines(found),
    ...(faster === undefined ? [] : ["", `hint: ${faster}`]),
    ...(advice ? ["", ...adviceLines(advice)] : []),
  ];
  await write(io, `${lines.join("\n")}\n`);
}

/** The engine that was measured to be faster than the job's, if it can do the job. */
async function fasterLine(
  job: JobSpec,
  io: CliIo,
  progress: Progress,
): Promise<string | undefined> {
  const { name } = job.model;
  if (job.model.engine !== "llama" || name === undefined) return undefined;
  const [{ fasterEngine, lastMeasurement }, { modelOptions }, { checkEngine }, { assertAskable }] =
    await Promise.all([
      import("../../engines/engine-speed.ts"),
      import("../../engines/model-options.ts"),
      import("../../engines/prepare-engine.ts"),
      import("../../run/plan/job-prompts.ts"),
    ]);
  const context = engineContext(io, progress.logger);
  const measurement = await lastMeasurement(context);
  const faster = measurement && fasterEngine(measurement, job.model.engine);
  if (!faster || job.model.lora !== undefined) return undefined;
  try {
    const model = modelOptions.parse({ engine: faster.engine, name });
    assertAskable({ ...job, model });
    await checkEngine(model, context, { install: true });
  } catch {
    // The other engine cannot do what the job needs.
    return undefined;
  }
  const { switchLine } = await import("../engine-speed-view.ts");
  return switchLine(measurement, job.model.engine, name);
}

async function freeze(
  loaded: JobSpec,
  options: PlanFlags,
  io: CliIo,
  progress: Progress,
): Promise<void> {
  const [{ openOrPlan }, { withStdin }, { committedTasks }, { workerCommands }] = await Promise.all(
    [
      import("../../run/plan/open-run.ts"),
      import("../spool.ts"),
      import("../../run/attempt/commits.ts"),
      import("../plan-view.ts"),
    ],
  );
  const dependencies = runDependencies(io, progress.logger, loaded.store);
  const backend = openBackends(backendContext(io, progress.logger)).of(loaded);
  const { context, location } = await withStdin(loaded, dependencies, io, (job) =>
    openOrPlan(job, dependencies, {
      overwrite: false,
      fork: false,
      workersFor: async (spec, rows) => (await backend.workersFor(spec, rows)).workers,
      onEvent: progress.onEvent,
    }),
  ).finally(() => backend.close());
  progress.close();
  const { runId, tasks, rows } = context.plan;
  const done = (await committedTasks(context.storage, context.plan)).size;
  const run = runWords(context.storage);
  const commands = workerCommands(run, tasks.count, context.storage);
  if (options.json) {
    const { directory } = location;
    const facts = { runId, directory, tasks: tasks.count, committedTasks: done, rows, commands };
    return writeJson(io, facts);
  }
  const counts = `${counted(rows, "row")} in ${counted(tasks.count, "task")}, ${done} done`;
  const [all, share] = commands;
  const several = share === undefined ? "" : `one of several processes, from 0:  ${share}\n`;
  await write(
    io,
    `run ${runId}: ${counts}\n${location.directory}\n\n` +
      `all of it in one process:          ${all}\n${several}` +
      `how far it is:                     sluice status ${run}\n` +
      "The process that finishes last seals the run.\n",
  );
}
