import type { Storage } from "../../data/storage/storage.ts";
import type { ErrorRecord } from "../../foundation/errors.ts";
import { GrowingLines } from "../directory/growing-lines.ts";
import { eventLogPath } from "../directory/layout.ts";
import type { RunEvent, TaskOutcome } from "./events.ts";

/** What the log of a coordinator says of one task: its last start, and how that ended. */
export interface TaskTrace {
  worker: string;
  /** Undefined while it goes on. */
  outcome?: TaskOutcome;
  /** Rows that failed in it. */
  failedRows: number;
  error?: ErrorRecord;
}

/**
 * Follows the event log of the ruling coordinator; each reading takes only what is new. Tasks that
 * ended well are forgotten: their commits say more.
 */
export class EventTrace {
  readonly #storage: Storage;
  readonly #tasks = new Map<number, TaskTrace>();
  #number = 0;
  #log: GrowingLines | undefined;
  /** When it began, by its own clock, and the rows that were done before. */
  begun: { atMs: number; rows: number } | undefined;
  /** Why the coordinator stopped before a seal, once it has. */
  stopped: ErrorRecord | undefined;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** The traces of tasks that began under coordinator `number` and are not committed. */
  async read(number: number): Promise<ReadonlyMap<number, TaskTrace>> {
    if (number !== this.#number) {
      this.#tasks.clear();
      this.stopped = undefined;
      this.begun = undefined;
      this.#number = number;
      this.#log = new GrowingLines(this.#storage, eventLogPath(number));
    }
    // It is information only: a run may lack it.
    for await (const line of this.#log?.fresh() ?? []) {
      const event = parsedEvent(line);
      if (event) this.#note(event);
    }
    return this.#tasks;
  }

  #note(event: RunEvent & { time?: string }): void {
    if (event.type === "run-start") {
      this.begun = { atMs: Date.parse(event.time ?? ""), rows: event.resumedRows };
    } else if (event.type === "task-start") {
      // A later attempt begins with rows of this call.
      const isFirst = !this.#tasks.has(event.task);
      if (this.begun && isFirst) this.begun.rows += event.resumed;
      this.#tasks.set(event.task, { worker: event.worker, failedRows: 0 });
    } else if (event.type === "task-end") {
      const { task, worker, outcome, failed, error } = event;
      const trace = { worker, outcome, failedRows: failed, ...(error && { error }) };
      if (outcome === "committed" || outcome === "already-committed") this.#tasks.delete(task);
      else this.#tasks.set(task, trace);
    } else if (event.type === "run-stop") {
      this.stopped = event.error;
    }
  }
}

function parsedEvent(line: string): RunEvent | undefined {
  try {
    return JSON.parse(line) as RunEvent;
  } catch {
    return undefined;
  }
}
