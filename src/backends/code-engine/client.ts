import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import {
  type ClientOptions,
  jsonAnswer,
  type ProgramOptions,
  runProgram,
  withSentFile,
} from "../joining/programs.ts";
import type { Rendered, SchedulerClient, ShareState, SubmittedRun } from "../joining/scheduler.ts";
import { fleetNameOf } from "./render.ts";

/** `fleet create` copies the file of tasks to the state store first. */
const createTimeoutMs = 300_000;
const fleetsAtOnce = 4;

/** Serverless fleets by IBM's own program, `ibmcloud` with its plug-in `code-engine`. */
export class CodeEngineClient implements SchedulerClient {
  readonly #clock: Clock;
  readonly #programs: ProgramOptions;

  constructor({ environment, clock }: ClientOptions) {
    this.#clock = clock;
    const hint = "install ibmcloud, and: ibmcloud plugin install code-engine";
    this.#programs = { environment, hint };
  }

  async maxShares(): Promise<number> {
    return 10_000;
  }

  /** @returns the fleet's name, which workers see too. */
  async submit(rendered: Rendered): Promise<string> {
    const { file, command } = rendered;
    // Names of fleets are unique in a project, and a canceled fleet keeps its name.
    const at = command.indexOf("--name") + 1;
    const name = `${command[at]}-${this.#clock.now().toString(36)}`;
    const options = { ...this.#programs, timeoutMs: createTimeoutMs };
    await withSentFile(rendered, (path) => {
      const words = command.map((word, index) =>
        word === file ? path : index === at ? name : word,
      );
      return runProgram(words[0]!, words.slice(1), options);
    });
    return name;
  }

  async look({ location, submissions }: SubmittedRun): Promise<ShareState[]> {
    const prefix = `${fleetNameOf(location)}-`;
    const known = new Set(submissions.map(({ id }) => id));
    const fleets = (await this.#fleets()).filter(
      ({ name }) => known.has(name) || name.startsWith(prefix),
    );
    const found: ShareState[] = [];
    for (let at = 0; at < fleets.length; at += fleetsAtOnce) {
      const some = fleets.slice(at, at + fleetsAtOnce);
      const tasks = await Promise.all(some.map((fleet) => this.#tasksOf(fleet)));
      found.push(...tasks.flat());
    }
    return found;
  }

  /** Pending tasks, also those of failed tries, do not start any more; the others go on. */
  async hold(names: readonly string[]): Promise<void> {
    for (const id of await this.#idsOf(names)) await this.#cancel(id);
  }

  /** A hard stop deletes instances without notice. */
  async cancel(names: readonly string[]): Promise<void> {
    for (const id of await this.#idsOf(names)) await this.#cancel(id, "--hard");
  }

  async logs({ submissions }: SubmittedRun): Promise<void> {
    const last = submissions.at(-1)?.id ?? "NAME";
    throw new SluiceError("UNSUPPORTED", "ibmcloud does not show the logs of fleets", {
      hint: `IBM Cloud Logs keeps them: filter by codeengine.component: ${last}`,
    });
  }

  async #tasksOf({ id, name }: ListedFleet): Promise<ShareState[]> {
    const tasks = await this.#list<ListedTask>("tasks", "task", "list", "--fleet-id", id);
    return tasks.map((task) => stateOf(name, task));
  }

  #fleets(): Promise<ListedFleet[]> {
    return this.#list<ListedFleet>("fleets", "list");
  }

  async #idsOf(names: readonly string[]): Promise<string[]> {
    return (await this.#fleets()).filter(({ name }) => names.includes(name)).map(({ id }) => id);
  }

  async #cancel(id: string, ...how: string[]): Promise<void> {
    const words = ["code-engine", "fleet", "cancel", "--fleet-id", id, ...how, "--force"];
    await runProgram("ibmcloud", words, this.#programs);
  }

  /** A list in JSON, bare or under its name. */
  async #list<Item>(key: string, ...args: string[]): Promise<Item[]> {
    const words = ["code-engine", "fleet", ...args, "--output", "json"];
    const text = await runProgram("ibmcloud", words, this.#programs);
    const answer = jsonAnswer<Item[] | Record<string, Item[]>>(text, "ibmcloud", words);
    return Array.isArray(answer) ? answer : (answer[key] ?? []);
  }
}

/** What is read of a fleet in `fleet list --output json`. */
interface ListedFleet {
  id: string;
  name: string;
}

/** What is read of a task in `fleet task list --output json`. */
interface ListedTask {
  index?: string | number;
  status?: string;
  /** Such as `exit_0`; releases before 2026 have the number. */
  result_code?: string | number | null;
  worker_name?: string | null;
}

/** Both spellings of success occur. A failed try is pending again. */
const words: Readonly<Record<string, ShareState["state"]>> = {
  pending: "pending",
  running: "running",
  canceling: "running",
  succeeded: "successful",
  successful: "successful",
  failed: "failed",
  canceled: "canceled",
};

/** @param submission name of the fleet. */
export function stateOf(submission: string, task: ListedTask): ShareState {
  // Such as 4, or 000-00000-4 in older releases.
  const share = Number(
    String(task.index ?? "0")
      .split("-")
      .at(-1),
  );
  const state = words[(task.status ?? "").toLowerCase()] ?? "pending";
  const code = /(\d+)$/.exec(String(task.result_code ?? ""))?.[1];
  // A task that waits again after a failed try has the code of that one.
  const hasEnded = state === "successful" || state === "failed";
  return {
    ...{ submission, share, id: `${submission} ${share}`, state },
    ...(task.worker_name && { node: task.worker_name }),
    ...(code !== undefined && hasEnded && { exitCode: Number(code) }),
  };
}
