import type { Command } from "commander";
import { Option } from "commander";
import { type RetryStart, startRun } from "../../api/start-run.ts";
import { absoluteLocation } from "../../data/storage/open.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { silentLogger } from "../../foundation/logger.ts";
import { changedJob } from "../../run/job/change.ts";
import type { JobSpec } from "../../run/job/schema.ts";
import type { RetryWhere } from "../../run/retry/plan-retry.ts";
import { counted } from "../../terminal/quantities.ts";
import { type CliIo, write, writeJson } from "../io.ts";
import { jobFromOptions } from "../job-options.ts";
import {
  type CallFlags,
  endCall,
  startOptions,
  withCallFlags,
  withOpenedRun,
} from "../run-call.ts";
import { openTarget, type RunTarget, withRun } from "../run-target.ts";
import { untilSignal } from "../until-signal.ts";

interface RetryOptions extends CallFlags {
  where: RetryWhere;
  reread?: string | true;
  config?: string;
  abandon?: boolean;
  unfinished?: boolean;
}

/** `sluice retry DIR`: sends the failed rows of a sealed run again. */
export function register(command: Command, given: CliIo): void {
  const io = withRun(command, given);
  command
    .addOption(
      new Option("--where <rows>", "which rows are processed again")
        .choices(["failed", "finish_reason=length"])
        .default("failed"),
    )
    .option(
      "--reread [file]",
      "read failed rows again: from the corrected input, or from a file of corrected rows",
    )
    .option(
      "-c, --config <file>",
      "the job file, if the job was changed there; default: the run's own job",
    )
    // For the coordinator of a retry that is resumed from outside of its cluster.
    .addOption(new Option("--unfinished", "only a retry that is begun already").hideHelp())
    .option("--abandon", "drop the unfinished retry; the results stay unchanged");
  withCallFlags(command, "change a key, such as generation.maxNewTokens=400").action(
    (run: string, options: RetryOptions) => retry(run, options, io),
  );
}

async function retry(run: string, options: RetryOptions, io: CliIo): Promise<void> {
  if (options.abandon) return await abandon(run, options, io);
  await withOpenedRun(run, options, io, async ({ target, progress, backends }) => {
    const { location, dependencies } = target;
    const reread = rereadFrom(options.reread, io);
    const { result, exitCode } = await untilSignal(io, progress.logger, (signal, listen) => {
      const { workingDirectory, process } = io;
      const change = async (stored: JobSpec) => {
        const given = await jobOf(options, stored, io);
        const sets = options.set ?? [];
        const job = await changedJob(given, sets, workingDirectory, process.userDirectory);
        // The retry goes on elsewhere from its submission on.
        if (backends.of(job).delegate) listen();
        return job;
      };
      const call = { ...options, backendOf: backends.of, dependencies, signal };
      const { where, unfinished } = options;
      const start = { kind: "retry", location, where, reread, unfinished, change } as const;
      return startRun(start, startOptions(call, progress, listen));
    });
    progress.close();
    if (!result) {
      const { where, unfinished } = options;
      const none = unfinished ? "no retry is unfinished" : nothingFound[where];
      const message = `${none}, there is nothing to do`;
      if (options.json) {
        progress.logger.log("info", message);
        await writeSealed(target, io);
      } else io.stderr.write(`${message}: ${run}\n`);
      return io.setExitCode(exitCode ?? 0);
    }
    await endCall({ result, exitCode }, target, options, io);
  });
}

const nothingFound: Readonly<Record<RetryWhere, string>> = {
  failed: "no row of this run failed",
  "finish_reason=length": "no answer was cut",
};

/** The summary of a run that stays as it is sealed. */
async function writeSealed({ location, dependencies }: RunTarget, io: CliIo): Promise<void> {
  const { attachRun } = await import("../../run/follow/attach-run.ts");
  const { signal } = new AbortController();
  const { summary } = await attachRun(location, dependencies, { onEvent: () => {}, signal });
  await writeJson(io, summary);
}

/** The job of the file, at the place of the run: flags of its first call are in no file. */
async function jobOf({ config }: RetryOptions, stored: JobSpec, io: CliIo): Promise<JobSpec> {
  if (config === undefined) return stored;
  const { job, originOf } = await jobFromOptions({ config }, io);
  const { path, errorFile } = stored.output;
  const isSaid = (key: string) => originOf(key).from !== "default";
  const kept = (["limit", "sample", "shard", "order"] as const).filter((key) => !isSaid(key));
  const forms = (Object.keys(stored.output) as (keyof JobSpec["output"])[]).filter(
    (key) => !isSaid(`output.${key}`),
  );
  return {
    ...job,
    ...only(stored, kept),
    output: { ...job.output, ...only(stored.output, forms), path, errorFile },
  };
}

function only<Value, Key extends keyof Value>(value: Value, keys: readonly Key[]) {
  return Object.fromEntries(keys.map((key) => [key, value[key]])) as Pick<Value, Key>;
}

/** Where rows are read again: a local path starts from the working directory. */
function rereadFrom(given: RetryOptions["reread"], io: CliIo): RetryStart["reread"] {
  if (given === undefined) return undefined;
  if (given === true) return "input";
  if (given === "") {
    throw new SluiceError("USAGE", "--reread names no file", {
      hint: "name the file of corrected rows, or leave out the value to read the input",
    });
  }
  return { file: absoluteLocation(io.workingDirectory, given) };
}

async function abandon(run: string, options: RetryOptions, io: CliIo): Promise<void> {
  const others = (["set", "reread", "config"] as const).filter(
    (name) => options[name] !== undefined,
  );
  if (others.length > 0) {
    throw new SluiceError("USAGE", `--abandon goes without --${others.join(" and --")}`);
  }
  const { abandonRetry } = await import("../../run/retry/abandon-retry.ts");
  const { location, dependencies } = await openTarget(run, io, silentLogger);
  const abandoned = await abandonRetry(location, dependencies);
  if (options.json) return await writeJson(io, { dropped: abandoned?.dropped ?? null });
  const message = abandoned
    ? `the retry is dropped, with its ${counted(abandoned.dropped.answers, "answer")}`
    : "this run has no unfinished retry: there is nothing to drop";
  await write(io, `${message}\n`);
}
