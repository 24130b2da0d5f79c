import type { Storage } from "../../data/storage/storage.ts";
import type { Clock } from "../../foundation/clock.ts";
import { SluiceError } from "../../foundation/errors.ts";
import { addUsage, noUsage, type Usage, usageSince } from "../../foundation/inference.ts";
import { readCommits } from "../attempt/commits.ts";
import { leadTimes } from "../coordinate/coordinator.ts";
import type { RunGeneration } from "../directory/layout.ts";
import type { JobSpec } from "../job/schema.ts";
import type { RunContext } from "../run-context.ts";
import { readManifest, readSeals } from "../seal/seals.ts";
import type { RunEvent } from "../status/events.ts";
import { type Budget, type Prices, pricesOf, type Spending, tokensOf, usdOf } from "./costs.ts";
import { journaledAnswers, journaledAttempts } from "./journaled.ts";

export interface BudgetWatchOptions {
  budget: Budget;
  prices: Prices;
  clock: Clock;
  /** Cost of earlier generations, and the time of all earlier calls. */
  earlier: { usage: Usage; seconds: number };
  /** Cost of earlier calls, for each task. */
  tasks: ReadonlyMap<number, Usage>;
  onEvent(event: RunEvent): void;
}

/** Time between two events with the cost so far. */
const eventIntervalMs = 1000;

/**
 * Follows the cost of a run from the reports of its workers, and says when its budget is used up.
 * Workers report tokens and money twice a second; the run exceeds the budget by what arrived
 * meanwhile and by its requests in flight.
 */
export class BudgetWatch {
  readonly #options: BudgetWatchOptions;
  readonly #stop = new AbortController();
  readonly #startedMs: number;
  readonly #byTask: Map<number, Usage>;
  /** The usage of earlier generations and all tasks. */
  #usage: Usage;
  #toldMs = Number.NEGATIVE_INFINITY;
  #cancelTimer = () => {};

  constructor(options: BudgetWatchOptions) {
    this.#options = options;
    this.#startedMs = options.clock.monotonic();
    this.#byTask = new Map(options.tasks);
    this.#usage = [...options.tasks.values()].reduce(addUsage, options.earlier.usage);
  }

  /** Aborted with `BUDGET_SPENT` once the budget is used up. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }

  get spent(): Spending {
    const { earlier, prices, clock } = this.#options;
    const seconds = earlier.seconds + (clock.monotonic() - this.#startedMs) / 1000;
    const [tokens, usd] = [tokensOf(this.#usage), usdOf(this.#usage, prices)];
    return { tokens, usd, minutes: seconds / 60 };
  }

  /** Begins: earlier calls may have spent everything. */
  start(): void {
    this.#check();
    this.#watchMinutes();
  }

  hear(event: RunEvent): void {
    if (event.type === "task-progress" || event.type === "task-end") {
      this.note(event.task, event.usage);
    }
  }

  /** Sets the total cost of a task so far. */
  note(task: number, usage: Usage): void {
    this.#add(task, usage);
    this.#check();
  }

  /** Ends with a last event: the one before it may be a second old. */
  close(): void {
    this.#cancelTimer();
    this.#tell();
  }

  #watchMinutes(): void {
    const { budget, clock } = this.#options;
    if (budget.minutes === undefined || this.#stop.signal.aborted) return;
    const leftMs = (budget.minutes - this.spent.minutes) * 60_000;
    this.#cancelTimer = clock.schedule(Math.min(Math.ceil(leftMs), maxTimerMs), () => {
      this.#check();
      this.#watchMinutes();
    });
  }

  // A task that is begun again reports little at first: its earlier cost was still paid.
  #add(task: number, told: Usage): void {
    const known = this.#byTask.get(task) ?? noUsage;
    const grown = usageSince(told, known);
    this.#byTask.set(task, addUsage(known, grown));
    this.#usage = addUsage(this.#usage, grown);
  }

  #check(): void {
    const { budget, clock } = this.#options;
    const { spent } = this;
    if (clock.monotonic() - this.#toldMs >= eventIntervalMs) this.#tell();
    if (spent.tokens >= (budget.tokens ?? Number.POSITIVE_INFINITY)) this.#spend("tokens");
    if ((spent.usd ?? 0) >= (budget.usd ?? Number.POSITIVE_INFINITY)) this.#spend("usd");
    if (spent.minutes >= (budget.minutes ?? Number.POSITIVE_INFINITY)) this.#spend("minutes");
  }

  #tell(): void {
    const { budget, clock, onEvent } = this.#options;
    this.#toldMs = clock.monotonic();
    onEvent({ type: "budget-progress", spent: this.spent, budget });
  }

  #spend(limit: keyof Budget): void {
    const { budget } = this.#options;
    const spent = Math.round((this.spent[limit] ?? 0) * 1e6) / 1e6;
    const detail = `${spent} of ${budget[limit]} ${limit}`;
    this.#stop.abort(new SluiceError("BUDGET_SPENT", detail));
  }
}

/** The longest time of a timer. */
const maxTimerMs = 2 ** 31 - 1;

interface BudgetedRun {
  context: Pick<RunContext, "storage" | "plan" | "clock">;
  /** The job as it runs now. */
  job: JobSpec;
  committed: Iterable<number>;
}

/**
 * Reads the cost of a run so far, from its commits, its journals and the times of its coordinators,
 * and watches from now on. Undefined if the job sets no limit.
 */
export async function openBudget(
  { context, job, committed }: BudgetedRun,
  onEvent: (event: RunEvent) => void,
): Promise<BudgetWatch | undefined> {
  const { budget } = job;
  if (!budget || Object.values(budget).every((limit) => limit === undefined)) return undefined;
  const { storage, plan, clock } = context;
  return new BudgetWatch({
    budget,
    prices: pricesOf(job),
    clock,
    earlier: await earlierCost(storage, plan),
    tasks: await spentByTask(context, committed),
    onEvent,
  });
}

/** Cost of the generations before, and the time that all coordinators have led. */
export interface EarlierCost {
  usage: Usage;
  seconds: number;
}

export async function earlierCost(storage: Storage, of: RunGeneration): Promise<EarlierCost> {
  const times = await leadTimes(storage);
  const seconds = times.reduce((sum, time) => sum + time.seconds, 0);
  if (of.generation === 1) return { usage: noUsage, seconds };
  const manifest = await readManifest(storage);
  const { abandoned, sealed } = await readSeals(storage, of);
  // The bill has those that were dropped before its seal.
  const dropped = abandoned.filter(({ generation }) => generation > (sealed?.generation ?? 1));
  const lost = dropped.reduce((sum, { spent = noUsage }) => addUsage(sum, spent), noUsage);
  return { usage: addUsage(manifest?.bill ?? manifest?.usage ?? noUsage, lost), seconds };
}

async function spentByTask(
  context: BudgetedRun["context"],
  committed: Iterable<number>,
): Promise<Map<number, Usage>> {
  const spent = new Map<number, Usage>();
  for await (const { task, usage } of readCommits(context.storage, context.plan, committed)) {
    spent.set(task, usage);
  }
  for (const [task, attempts] of await journaledAttempts(context)) {
    if (!spent.has(task)) spent.set(task, await journaledAnswers(context, task, attempts));
  }
  return spent;
}
