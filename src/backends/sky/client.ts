import type { Clock } from "../../foundation/clock.ts";
import { indexesIn } from "../../foundation/index-set.ts";
import type { Submission } from "../../run/submissions.ts";
import { wholeLog, writeLogs } from "../joining/logs.ts";
import {
  type ClientOptions,
  callProgram,
  jsonAnswer,
  type ProgramOptions,
  refusal,
  runProgram,
  withSentFile,
} from "../joining/programs.ts";
import type {
  LogOptions,
  Rendered,
  SchedulerClient,
  ShareState,
  SubmittedRun,
} from "../joining/scheduler.ts";
import { skyNameOf } from "./render.ts";

/** The first launch of an account rents the machine of its controller, and files are sent. */
const launchTimeoutMs = 1_800_000;
/** The first call starts SkyPilot's server on this machine; later ones take seconds. */
const callTimeoutMs = 180_000;
/** Each reading of a log is a call that takes seconds. */
const followIntervalMs = 15_000;

/** Managed jobs by SkyPilot's own program, `sky`. */
export class SkyClient implements SchedulerClient {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;

  constructor({ environment, clock }: ClientOptions) {
    this.#clock = clock;
    const hint = "pip install skypilot, and see that sky check works here";
    this.#programs = { environment, hint, timeoutMs: callTimeoutMs };
  }

  async maxShares(): Promise<number> {
    return 2000;
  }

  /** @returns the name of the jobs, of which each submission has its own. */
  async submit(rendered: Rendered): Promise<string> {
    const { file, command } = rendered;
    const name = `${file.replace(/\.yaml$/, "")}-${this.#clock.now().toString(36)}`;
    const options = { ...this.#programs, timeoutMs: launchTimeoutMs };
    await withSentFile(rendered, (path) => {
      const words = command.slice(1).map((word) => (word === file ? path : word));
      return runProgram("sky", [...words, "-n", name], options);
    });
    return name;
  }

  async look({ location, submissions }: SubmittedRun): Promise<ShareState[]> {
    const prefix = skyNameOf(location).replace(/^(sluice-[0-9a-f]+-).*$/, "$1");
    return parseWorkers(await this.#queue(), prefix, submissions);
  }

  /** A job that waits may become one that runs, and ends with the others. */
  async hold(): Promise<void> {}

  /** SkyPilot ends the machine of a job without notice. */
  async cancel(names: readonly string[]): Promise<void> {
    const queue = await this.#queue();
    const ids = names
      .flatMap((name) => parseWorkers(queue, name, []))
      .filter(({ state }) => state === "pending" || state === "running")
      .map(({ id }) => id);
    if (ids.length > 0) await this.#sky("jobs", "cancel", ...ids, "-y");
  }

  logs(run: SubmittedRun, options: LogOptions): Promise<void> {
    const find = async () =>
      (await this.look(run))
        .filter(({ share }) => options.share === undefined || options.share === share)
        .map(({ id }) =>
          wholeLog(`job ${id}`, () => this.#sky("jobs", "logs", "--no-follow", id).catch(() => "")),
        );
    return writeLogs(options, this.#clock, find, followIntervalMs);
  }

  async #queue(): Promise<ListedJob[]> {
    const args = ["jobs", "queue", "--all", "--verbose", "--output", "json"];
    const result = await callProgram("sky", args, this.#programs);
    if (result.code === 0) return jsonAnswer<ListedJob[]>(result.stdout, "sky", args);
    // The account never had a job, or its controller has stopped after the last one. A controller
    // that is not reached is told in other words.
    if (/ClusterNotUpError: No in-progress managed jobs/.test(result.stderr)) return [];
    throw refusal("sky", result);
  }

  #sky(...args: string[]): Promise<string> {
    return runProgram("sky", args, this.#programs);
  }
}

/** What is read of a job in `sky jobs queue --output json`. */
interface ListedJob {
  job_id: number;
  job_name: string | null;
  status: string | null;
  infra?: string | null;
  failure_reason?: string | null;
  details?: string | null;
}

/**
 * The workers of a run. Jobs of one submission have one name, and numbers in the order of their
 * ranks.
 *
 * @param prefix beginning of the names of the run's jobs.
 */
export function parseWorkers(
  listed: readonly ListedJob[],
  prefix: string,
  submissions: readonly Pick<Submission, "id" | "shares">[],
): ShareState[] {
  const shares = new Map(submissions.map(({ id, shares }) => [id, shares]));
  const jobs = listed
    .filter(({ job_name }) => job_name?.startsWith(prefix))
    .sort((a, b) => a.job_id - b.job_id);
  return [...Map.groupBy(jobs, ({ job_name }) => job_name!)].flatMap(([name, all]) => {
    const known = shares.get(name);
    const own = known === undefined ? undefined : [...indexesIn(known)];
    return all.map((job, rank) => ({
      ...{ submission: name, id: `${job.job_id}` },
      share: own?.[rank] ?? rank,
      ...stateOf(job),
    }));
  });
}

function stateOf({
  status,
  infra,
  failure_reason,
  details,
}: ListedJob): Pick<ShareState, "state" | "reason" | "node"> {
  const word = (status ?? "PENDING").replace(/^ManagedJobStatus\./, "");
  const node = infra ? { node: infra } : {};
  const told = failure_reason ?? details;
  if (word === "SUCCEEDED") return { state: "successful", ...node };
  if (word === "CANCELLED") return { state: "canceled", ...node };
  // It may still write what it has.
  if (word === "RUNNING" || word === "CANCELLING" || word === "WINDING_DOWN")
    return { state: "running", ...node };
  if (word.startsWith("FAILED")) {
    return { state: "failed", ...node, reason: [word, told].filter(Boolean).join(": ") };
  }
  return { state: "pending", reason: [word, told].filter(Boolean).join(": ") };
}
