import type { OpenFile } from "../data/open-files.ts";
import type { Storage } from "../data/storage/storage.ts";
import type { Clock } from "../foundation/clock.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Random } from "../foundation/random.ts";
import type { Plan } from "./plan/plan.ts";

/** What everything that works on one generation of one run is given. */
export interface RunContext {
  /** Rooted at the run directory. */
  storage: Storage;
  /** Rooted where the run directory lies: merged files are written there. */
  outside: Storage;
  /** Any other place that results go to. */
  openStorage(location: string): Storage;
  /**
   * The plan; its job is the one that is carried out now, where somebody works on the run:
   * time-outs and limits may differ from those that `plan.json` has.
   */
  plan: Plan;
  /** Opens an input file by the path that the plan has. */
  openFile: OpenFile;
  clock: Clock;
  random: Random;
  logger: Logger;
  /** Id of the worker, or of the process where there is none. */
  worker: string;
}
