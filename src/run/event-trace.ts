import type { Storage } from "../data/storage/storage.ts";
import { asSluiceError, type ErrorRecord } from "../foundation/errors.ts";
import { limits } from "../foundation/limits.ts";
import type { RunEvent, TaskOutcome } from "./events.ts";
import { eventLogPath } from "./layout.ts";

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
  #offset = 0;
  /** Why the coordinator stopped before a seal, once it has. */
  stopped: ErrorRecord | undefined;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  /** The traces of tasks that began under coordinator `number` and are not committed. */
  async read(number: number): Promise<ReadonlyMap<number, TaskTrace>> {
    if (number !== this.#number) this.#tasks.clear();
    if (number !== this.#number) this.#offset = 0;
    if (number !== this.#number) this.stopped = undefined;
    this.#number = number;
    for (const event of await this.#fresh(eventLogPath(number))) {
      if (event.type === "task-start") {
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
    return this.#tasks;
  }

  async #fresh(path: string): Promise<RunEvent[]> {
    const lines: string[] = [];
    const reader = await this.#storage.open(path).catch((error: unknown) => {
      // The log is information only: a run may lack it.
      if (asSluiceError(error).code === "NOT_FOUND") return undefined;
      throw error;
    });
    if (!reader) return [];
    try {
      let pending = Buffer.alloc(0);
      for (let at = this.#offset; at < reader.bytes; ) {
        const chunk = await reader.read(at, limits.readChunkBytes);
        if (chunk.length === 0) break;
        at += chunk.length;
        const text = Buffer.concat([pending, chunk]);
        const end = text.lastIndexOf(10) + 1;
        // A line that is still being written counts the next time.
        pending = text.subarray(end);
        this.#offset = at - pending.length;
        if (end > 0)
          lines.push(
            ...text
              .subarray(0, end - 1)
              .toString()
              .split("\n"),
          );
      }
    } finally {
      await reader.close();
    }
    return lines.flatMap(parsedEvent);
  }
}

function parsedEvent(line: string): RunEvent[] {
  try {
    return [JSON.parse(line) as RunEvent];
  } catch {
    return [];
  }
}
