import type { SimulatedProcess } from "../../src/testing/simulated-process.ts";

/** A process of the simulation. */
export interface Actor {
  pid: number;
  host: string;
  role: "coordinator" | "worker" | "rival";
  process: SimulatedProcess;
  /** Resolves when its program has ended by itself. */
  ended: Promise<unknown>;
  /** Rows whose answers stood in the journals when it began its attempt, by task. */
  known: Map<number, Set<number>>;
  /** Makes its coordinator believe that it is gone. */
  lose?: () => void;
}

/** The same promise as a process sees it: while it is paused, it hears of nothing. */
export function heardBy<T>({ process }: Actor, promise: Promise<T>): Promise<T> {
  return new Promise((resolve) => {
    void promise.then((value) => process.act(() => resolve(value)));
  });
}
