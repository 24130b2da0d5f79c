import type { Storage } from "../../data/storage/storage.ts";
import { SluiceError } from "../../foundation/errors.ts";
import type { Coordinator } from "../coordinate/coordinator.ts";
import { attemptPaths, type RunGeneration, taskAttemptsPrefix } from "../directory/layout.ts";
import { readJson, recordBytes } from "../directory/records.ts";
import type { RunContext } from "../run-context.ts";
import type { RunEvent } from "../status/events.ts";
import { type Commit, createCommit } from "./commit.ts";
import { publishTask } from "./publish.ts";

/** Writes the commit that this attempt proposes to the coordinator; the file's name is unique. */
export async function proposeCommit(
  storage: Storage,
  of: RunGeneration,
  commit: Commit,
): Promise<void> {
  const { proposal } = attemptPaths(commit.task, of, commit.attempt);
  await storage.replace(proposal, recordBytes(commit));
}

/**
 * Commits for all workers, on stores that cannot create an object once. This process accepts one of
 * several attempts at a task, as long as it leads. It is the weaker protocol, because two
 * coordinators that both believe that they lead are not detected.
 */
export class ProposedCommits {
  readonly #context: RunContext;
  readonly #coordinator: Coordinator;
  readonly #commits = new Map<number, Promise<void>>();
  /** The attempts of tasks, each by its worker. */
  readonly #attempts = new Map<string, string>();

  constructor(context: RunContext, coordinator: Coordinator) {
    this.#context = context;
    this.#coordinator = coordinator;
  }

  /** Commits a task when its end is reported. */
  hear(event: RunEvent): void {
    if (event.type !== "task-start" && event.type !== "task-end") return;
    const key = `${event.task} ${event.worker}`;
    if (event.type === "task-start") {
      if (event.attempt !== undefined) this.#attempts.set(key, event.attempt);
      return;
    }
    if (event.outcome !== "committed" || this.#commits.has(event.task)) return;
    const committing = this.#commit(event.task, this.#attempts.get(key));
    // Fulfilled when the work is over.
    committing.catch(() => {});
    this.#commits.set(event.task, committing);
  }

  /** Resolves when every reported task is committed and published. */
  async settled(): Promise<void> {
    await Promise.all(this.#commits.values());
  }

  async #commit(task: number, attempt: string | undefined): Promise<void> {
    const { storage, plan } = this.#context;
    await this.#coordinator.assertLeads();
    const proposed = await this.#proposal(task, attempt);
    if (!proposed) throw new SluiceError("STORE_FAILED", `no commit is proposed for task ${task}`);
    const { record } = await createCommit(storage, plan, proposed);
    await publishTask(this.#context, record);
  }

  async #proposal(task: number, known: string | undefined): Promise<Commit | undefined> {
    const { storage, plan } = this.#context;
    if (known !== undefined) {
      // By its name: a listing of such a store may lack what is new.
      const own = await readJson<Commit>(storage, attemptPaths(task, plan, known).proposal);
      if (own) return own;
    }
    for await (const { path } of storage.list(taskAttemptsPrefix(task, plan))) {
      const attempt = path.split("/").at(-2) ?? "";
      if (path !== attemptPaths(task, plan, attempt).proposal) continue;
      const proposed = await readJson<Commit>(storage, path);
      if (proposed) return proposed;
    }
    return undefined;
  }
}
