import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import type { ErrorRecord, SluiceError } from "../../foundation/errors.ts";
import { addUsage, noUsage, usageSince } from "../../foundation/inference.ts";
import { limits } from "../../foundation/limits.ts";
import { doneIn } from "../attempt/commit.ts";
import { committedTasks, readCommits } from "../attempt/commits.ts";
import { GrowingLines } from "../directory/growing-lines.ts";
import { eventLogPath, eventPrefix } from "../directory/layout.ts";
import type { DispatchEnd } from "../dispatch/dispatch.ts";
import type { Plan } from "../plan/plan.ts";
import { parsedEvent } from "../status/event-trace.ts";
import type { RunEvent } from "../status/events.ts";
import { JournaledRows } from "../status/journaled-rows.ts";
import {
  initialProgress,
  type ProgressState,
  reduceProgress,
  totalsOf,
} from "../status/progress-state.ts";

/** A writer reports every 5 s. A silent one is shown as gone, until it reports again. */
const maxWriterSilenceMs = 4 * limits.runProgressIntervalMs;

const coordinatorName = /^\d{6,8}$/;

type Started = RunEvent & { type: "worker-start" };

export interface FollowOptions {
  storage: Storage;
  plan: Plan;
  clock: Clock;
  /** The tasks of this call: those that had no commit when it began. Each ends once. */
  tasks: Iterable<number>;
  /** Also follows coordinators: for a process that is none itself. */
  hasCoordinators: boolean;
  /** Called with the events of this call, as if the writers were workers of this process. */
  onEvent(event: RunEvent): void;
}

/**
 * Follows a run by the event files of its writers, on whichever machines. What they wrote before
 * the first reading is known and not counted, but for ends of this call's tasks: the counts are
 * those of this call.
 *
 * @example
 * const follower = new RunFollower({ storage, plan, clock, tasks, hasCoordinators, onEvent });
 * while (!isOver) await follower.read();
 * await follower.readEnds();
 * return await follower.end(tasks);
 */
export class RunFollower {
  readonly #options: FollowOptions;
  readonly #writers = new Map<string, FollowedWriter>();
  readonly #notices = new Set<string>();
  /** The tasks of this call that did not end. */
  readonly #open: Set<number>;
  #state: ProgressState;
  #isFirst = true;
  /** Why writers stopped in this call, in the order in which they said so. */
  readonly stops: ErrorRecord[] = [];

  constructor(options: FollowOptions) {
    this.#options = options;
    this.#open = new Set(options.tasks);
    this.#state = initialProgress(options.clock.monotonic());
  }

  /** True if a worker was heard lately, whoever started it. */
  get hasWorkers(): boolean {
    return [...this.#writers.values()].some((it) => it.isShown && it.workers.size > 0);
  }

  /** Passes on what is new. */
  async read(): Promise<void> {
    const { storage, plan, clock, hasCoordinators } = this.#options;
    for await (const { path } of storage.list(eventPrefix)) {
      const [name] = path.slice(eventPrefix.length).split(".", 1);
      if (!name || this.#writers.has(name)) continue;
      if (!hasCoordinators && coordinatorName.test(name)) continue;
      this.#writers.set(name, new FollowedWriter(storage, name));
    }
    for (const writer of this.#writers.values()) {
      for await (const event of writer.fresh()) {
        const isOurs =
          writer.run?.runId === plan.runId && writer.run.generation === plan.generation;
        if (isOurs && (!this.#isFirst || isEnd(event))) this.#hear(writer, event);
        writer.note(event, clock.monotonic());
      }
      this.#noteSilence(writer);
    }
    this.#isFirst = false;
  }

  /**
   * Passes on the last events of tasks that are committed. A worker writes the end of a task after
   * its commit, and one that was killed in between writes none: the commits say what is missing.
   */
  async readEnds(): Promise<void> {
    await this.read();
    const { storage, plan } = this.#options;
    const committed = await committedTasks(storage, plan);
    const silent = [...this.#open].filter((task) => committed.has(task));
    for await (const commit of readCommits(storage, plan, silent)) {
      const { task, worker } = commit;
      this.#pass({ type: "task-end", task, worker, outcome: "committed", ...doneIn(commit) });
    }
  }

  /** How the work ended in this call. */
  async end(tasks: readonly number[], error?: SluiceError): Promise<DispatchEnd> {
    const { storage, plan } = this.#options;
    const totals = totalsOf(this.#state);
    const open = [...this.#state.open.values()];
    const partial = {
      answered: open.reduce((sum, { done, failed }) => sum + done - failed, 0),
      failed: open.reduce((sum, { failed }) => sum + failed, 0),
      usage: open.map((task) => task.usage).reduce(addUsage, noUsage),
      errors: totals.errors,
    };
    if (tasks.length <= limits.maxCountedTasks) {
      // If the journals cannot be read, the reports of workers count.
      const counted = await new JournaledRows(storage).count(plan, tasks).catch(() => undefined);
      if (counted) {
        const { answered, filtered, failed, usage } = counted;
        Object.assign(partial, { answered: answered + filtered, failed, usage });
      }
    }
    return {
      committed: this.#state.ended.tasks,
      ...(error && { error }),
      resumedRows: open.reduce((sum, { resumed }) => sum + resumed, this.#state.resumedRows),
      generatedTokens: totals.usage.completionTokens,
      partial,
    };
  }

  #hear(writer: FollowedWriter, event: RunEvent): void {
    if (!writer.isShown && !this.#isFirst) this.#show(writer);
    switch (event.type) {
      case "worker-start":
      case "worker-end":
      case "task-start":
      case "task-end":
      case "row-error":
        return this.#pass(event);
      case "run-progress":
        for (const progress of writer.progressOf(event)) this.#pass(progress);
        return;
      case "notice":
        // Each worker says the same of the run, and at its end that others still work.
        if (writer.hasWorked || this.#notices.has(event.message)) return;
        this.#notices.add(event.message);
        return this.#pass(event);
      case "run-stop":
        this.stops.push(event.error);
        return;
      default:
        return;
    }
  }

  /** Tells of a writer that was at work before, or silent, and is heard now. */
  #show(writer: FollowedWriter): void {
    writer.isShown = true;
    for (const event of writer.standing()) this.#pass(event);
  }

  #noteSilence(writer: FollowedWriter): void {
    const silentMs = this.#options.clock.monotonic() - writer.heardMs;
    if (!writer.isShown || writer.workers.size === 0 || silentMs < maxWriterSilenceMs) return;
    writer.isShown = false;
    for (const worker of writer.workers.keys()) this.#pass({ type: "worker-end", worker });
  }

  #pass(event: RunEvent): void {
    const { clock, onEvent } = this.#options;
    // Several workers may have the same task: it counts once.
    if ("task" in event && !this.#open.has(event.task)) return;
    if (isEnd(event)) this.#open.delete(event.task);
    this.#state = reduceProgress(this.#state, event, clock.monotonic());
    onEvent(event);
  }
}

/** True for the last event of a task: it is committed. */
function isEnd(event: RunEvent): event is RunEvent & { type: "task-end" } {
  if (event.type !== "task-end") return false;
  return event.outcome === "committed" || event.outcome === "already-committed";
}

/** One file of events. */
class FollowedWriter {
  readonly #lines: GrowingLines;
  run: { runId: string; generation: number } | undefined;
  /** Its workers that did not end. */
  readonly workers = new Map<string, Started>();
  heardMs = Number.NEGATIVE_INFINITY;
  /** Its workers and tasks were passed on. */
  isShown = false;
  #started = 0;
  #state: ProgressState = initialProgress(0);

  constructor(storage: Storage, writer: string) {
    this.#lines = new GrowingLines(storage, eventLogPath(writer));
  }

  /** It had workers, and they have ended. */
  get hasWorked(): boolean {
    return this.#started > 0 && this.workers.size === 0;
  }

  async *fresh(): AsyncGenerator<RunEvent> {
    for await (const line of this.#lines.fresh()) {
      const event = parsedEvent(line);
      if (event?.type === "run-start") this.run = event;
      if (event) yield event;
    }
  }

  note(event: RunEvent, nowMs: number): void {
    this.heardMs = nowMs;
    const progress = event.type === "run-progress" ? this.progressOf(event) : [event];
    for (const each of progress) this.#state = reduceProgress(this.#state, each, nowMs);
    if (event.type === "worker-end") this.workers.delete(event.worker);
    if (event.type !== "worker-start") return;
    this.workers.set(event.worker, event);
    this.#started++;
  }

  /** Its workers and open tasks, as events; the rows that are done count as resumed. */
  *standing(): Generator<RunEvent> {
    yield* this.workers.values();
    for (const [task, { worker, rows, done, usage }] of this.#state.open) {
      if (!this.workers.has(worker)) continue;
      yield { type: "task-start", task, worker, rows, resumed: done, resumedUsage: usage };
    }
  }

  /** A report about all tasks of the writer, as progress of its open tasks. */
  *progressOf(report: RunEvent & { type: "run-progress" }): Generator<RunEvent> {
    const known = totalsOf(this.#state);
    let done = Math.max(0, report.done - known.done);
    let failed = Math.max(0, report.failed - known.failed);
    let cut = Math.max(0, report.cut - known.cut);
    let usage = usageSince(report.usage, known.usage);
    let { inFlight } = report;
    for (const [task, open] of this.#state.open) {
      const room = Math.min(done, Math.max(0, open.rows - open.done));
      done -= room;
      const counts = { done: open.done + room, failed: open.failed + failed, cut: open.cut + cut };
      const { worker, errors } = open;
      const spent = addUsage(open.usage, usage);
      yield { type: "task-progress", task, worker, inFlight, usage: spent, errors, ...counts };
      [failed, cut, inFlight] = [0, 0, 0];
      usage = noUsage;
    }
  }
}
