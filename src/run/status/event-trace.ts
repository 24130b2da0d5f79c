import type { Storage } from "../../data/storage/storage.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import { jsonIn } from "../../foundation/json.ts";
import { GrowingLines } from "../directory/growing-lines.ts";
import { eventLogPath, eventPrefix } from "../directory/layout.ts";
import type { Plan } from "../plan/plan.ts";
import type { TaskOutcome } from "../worker/protocol.ts";
import type { RunEvent, RunProgress } from "./events.ts";

/** A writer's events of one task: its last start, and how that ended. */
export interface TaskTrace {
  worker: string;
  /** Undefined until it ends. */
  outcome?: TaskOutcome;
  failedRows: number;
  error?: ErrorRecord;
}

export interface WriterTrace {
  /** Time of its last event, by its own clock; ISO 8601. */
  time: string;
  /** Its tasks that did not end well; commits say more about the others. */
  tasks: Map<number, TaskTrace>;
  /** Its workers that did not end. */
  workers: Set<string>;
  /** Why it stopped before a seal, if it did. */
  stopped?: ErrorRecord | undefined;
  progress?: RunProgress | undefined;
}

/** The writers of a run: the leading coordinator, and joining workers. */
export interface RunTrace {
  coordinator: WriterTrace | undefined;
  joined: readonly WriterTrace[];
}

const coordinatorName = /^\d{6,8}\.jsonl/;

/** Follows the event streams of a run; each reading takes only what is new. */
export class EventTrace {
  readonly #storage: Storage;
  #number = 0;
  #coordinator: WriterReader | undefined;
  readonly #joined = new Map<string, WriterReader>();

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /**
   * The events of coordinator `number`, and of joining workers of `plan`. If there is none yet, the
   * number is 0: those of processes that could not lead.
   */
  async read(plan: Pick<Plan, "runId" | "generation">, number: number): Promise<RunTrace> {
    if (this.#coordinator === undefined || number !== this.#number) {
      this.#number = number;
      this.#coordinator = new WriterReader(this.#storage, number);
    }
    await this.#coordinator.read();
    await this.#findJoined();
    for (const reader of this.#joined.values()) await reader.read();
    const ofPlan = ({ run }: WriterReader) =>
      run?.runId === plan.runId && run.generation === plan.generation;
    const { run, trace } = this.#coordinator;
    return {
      coordinator: number === 0 && run === undefined ? undefined : trace,
      joined: [...this.#joined.values()].filter(ofPlan).map(({ trace }) => trace),
    };
  }

  async #findJoined(): Promise<void> {
    for await (const { path } of this.#storage.list(eventPrefix)) {
      const name = path.slice(eventPrefix.length);
      const [writer] = name.split(".", 1);
      if (coordinatorName.test(name) || !writer || this.#joined.has(writer)) continue;
      this.#joined.set(writer, new WriterReader(this.#storage, writer));
    }
  }
}

class WriterReader {
  readonly #lines: GrowingLines;
  /** The writer's run, once it has reported it. */
  run: { runId: string; generation: number } | undefined;
  readonly trace: WriterTrace = { time: "", tasks: new Map(), workers: new Set() };

  constructor(storage: Storage, writer: number | string) {
    this.#lines = new GrowingLines(storage, eventLogPath(writer));
  }

  // It is information only: a run may lack it.
  async read(): Promise<void> {
    for await (const line of this.#lines.fresh()) {
      const event = parsedEvent(line);
      if (event) this.#note(event);
    }
  }

  #note(event: RunEvent & { time?: string }): void {
    const { tasks, workers } = this.trace;
    this.trace.time = event.time ?? "";
    if (event.type === "run-start") {
      const { runId, generation } = event;
      this.run = { runId, generation };
    } else if (event.type === "worker-start") {
      workers.add(event.worker);
    } else if (event.type === "worker-end") {
      workers.delete(event.worker);
    } else if (event.type === "task-start") {
      tasks.set(event.task, { worker: event.worker, failedRows: 0 });
    } else if (event.type === "task-end") {
      const { task, worker, outcome, failed, error } = event;
      const trace = { worker, outcome, failedRows: failed, ...(error && { error }) };
      if (outcome === "committed" || outcome === "already-committed") tasks.delete(task);
      else tasks.set(task, trace);
    } else if (event.type === "run-progress") {
      this.trace.progress = event;
    } else if (event.type === "run-stop") {
      this.trace.stopped = event.error;
    }
  }
}

/** An event of a line; undefined for a damaged one. */
export function parsedEvent(line: string): RunEvent | undefined {
  return jsonIn(line) as RunEvent | undefined;
}
