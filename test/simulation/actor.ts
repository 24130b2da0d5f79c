import type { SimulatedProcess } from "../fakes/simulated-process.ts";

/** A process of the simulation. */
export interface Actor {
  pid: number;
  host: string;
  /** A command is `cancel` or `clean`; a reader only reads, and nothing befalls it. */
  role: "coordinator" | "worker" | "rival" | "command" | "reader";
  process: SimulatedProcess;
  /** The process that started it. */
  parent?: Actor;
  /** Resolves when its program has ended by itself. */
  ended: Promise<unknown>;
  /** True from then on. */
  hasEnded: boolean;
  /** What it works on, as `<run>/g<generation>`, once it has begun a task. */
  serves?: string;
  /**
   * Requests whose answers were on file when it began its attempt, by task; by -1 those that were
   * answered to processes which had left when it began its first one.
   */
  known: Map<number, ReadonlySet<string>>;
  /** Calls of its journals that went wrong: what it was answered since may be lost. */
  journalFaults: number;
  /** Its last call of a storage. */
  /** `turns` of the run directory when it was paused last. */
  pausedAtTurn?: number;
  /** Makes its coordinator believe that it is gone. */
  lose?: () => void;
}

/** The same promise as a process sees it: while it is paused, it hears of nothing. */
export function heardBy<T>({ process }: Actor, promise: Promise<T>): Promise<T> {
  return new Promise((resolve) => {
    void promise.then((value) => process.act(() => resolve(value)));
  });
}

/** Notes when the program of an actor ends. */
export function ends<T>(actor: Actor, program: Promise<T>): Promise<T> {
  const note = () => {
    actor.hasEnded = true;
  };
  void program.then(note, note);
  actor.ended = program;
  return program;
}
