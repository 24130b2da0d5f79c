import { isJsonObject, jsonIn, jsonObjectIn } from "../../../foundation/json.ts";

/** A server's report of its own load. */
export interface ServerLoad {
  /** Requests in work. */
  running: number;
  /** Requests that wait for a place; undefined if it is not reported. */
  waiting?: number | undefined;
  /** Its places; undefined if it is not reported. */
  slots?: number | undefined;
  /** Share of its context memory in use. */
  cacheUse?: number | undefined;
}

/** Names of the same figures in different servers' metrics. */
const servers = [
  {
    running: ["vllm:num_requests_running"],
    waiting: ["vllm:num_requests_waiting"],
    cacheUse: ["vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"],
  },
  {
    running: ["sglang:num_running_reqs"],
    waiting: ["sglang:num_queue_reqs"],
    cacheUse: ["sglang:token_usage"],
  },
  {
    running: ["llamacpp:requests_processing"],
    waiting: ["llamacpp:requests_deferred"],
    cacheUse: ["llamacpp:kv_cache_usage_ratio"],
  },
  { running: ["tgi_batch_current_size"], waiting: ["tgi_queue_size"], cacheUse: [] },
] as const;

/** Pages with a server's load, the most informative first, with their readers. */
export const loadPages: Readonly<Record<string, (text: string) => ServerLoad | undefined>> = {
  "/metrics": loadOfMetrics,
  "/slots": loadOfSlots,
  "/props": loadOfProperties,
};

/** Reads metrics in Prometheus' text format, from vLLM, SGLang, llama-server and TGI. */
export function loadOfMetrics(text: string): ServerLoad | undefined {
  for (const names of servers) {
    const running = valuesOf(text, names.running);
    const waiting = valuesOf(text, names.waiting);
    if (running.length === 0 || waiting.length === 0) continue;
    const cacheUse = valuesOf(text, names.cacheUse);
    return {
      // One series for each engine of a server with several.
      running: sum(running),
      waiting: sum(waiting),
      ...(cacheUse.length > 0 && { cacheUse: Math.max(...cacheUse) }),
    };
  }
  return undefined;
}

/** Values of all series of the first existing metric among these. */
function valuesOf(text: string, names: readonly string[]): number[] {
  for (const name of names) {
    const series = new RegExp(`^${name}(?:\\{[^\\n]*\\})?[ \\t]+(\\S+)`, "gm");
    const values = [...text.matchAll(series)].map(([, value]) => Number(value));
    if (values.length > 0 && values.every((value) => value >= 0)) return values;
  }
  return [];
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

/** Reads llama-server's `/slots`. */
export function loadOfSlots(text: string): ServerLoad | undefined {
  const slots = jsonIn(text);
  if (!Array.isArray(slots) || slots.length === 0) return undefined;
  if (!slots.every((slot) => isJsonObject(slot) && "id" in slot)) return undefined;
  const busy = slots.filter((slot) => isJsonObject(slot) && slot.is_processing === true);
  return { running: busy.length, slots: slots.length };
}

/** Reads llama-server's `/props`, which only gives the number of places. */
export function loadOfProperties(text: string): ServerLoad | undefined {
  const properties = jsonObjectIn(text);
  if (properties === undefined) return undefined;
  const slots = properties.total_slots;
  if (typeof slots !== "number" || !Number.isInteger(slots) || slots < 1) return undefined;
  return { running: 0, slots };
}

/** Requests that should wait at the server, as a share of those in work, and the minimum. */
const waitingShare = 0.1;
const leastWaiting = 2;
/** Above this use of the cache, no more are sent at a time than the queue lacks. */
const fullCache = 0.9;

/**
 * How many requests at once keep a short queue at a server that reports its load: enough that it
 * never runs dry between two reads, and no more, because waiting requests cannot go elsewhere.
 *
 * While none waits, the limit doubles. A queue that is too long is reduced only if the server does
 * not take from it: right after a rise its requests wait for their prompts to be read.
 */
export class ServerQueue {
  #limit: number;
  readonly #maxLimit: number;
  #runningBefore = 0;

  constructor(startLimit: number, maxLimit: number) {
    this.#limit = startLimit;
    this.#maxLimit = maxLimit;
  }

  get limit(): number {
    return this.#limit;
  }

  /** @param inFlight our own requests at the server. */
  note(load: ServerLoad, inFlight: number): void {
    const { running, waiting, slots, cacheUse = 0 } = load;
    if (waiting === undefined) {
      if (slots !== undefined) this.#set(slots + wantedOf(slots));
      return;
    }
    const wanted = wantedOf(running);
    const isBound = inFlight >= 0.9 * this.#limit;
    // Others' requests are theirs to reduce.
    const share = Math.min(1, inFlight / Math.max(1, running + waiting));
    const isFilling = running > this.#runningBefore;
    this.#runningBefore = running;
    if (waiting > 2 * wanted) {
      if (!isFilling) this.#set(Math.min(this.#limit, inFlight - (waiting - wanted) * share));
    } else if (waiting < wanted && isBound) {
      const lacking = Math.ceil((wanted - waiting) * share);
      const isEmpty = waiting === 0 && cacheUse < fullCache;
      this.#set(this.#limit + (isEmpty ? Math.max(lacking, this.#limit) : lacking));
    }
  }

  #set(limit: number): void {
    this.#limit = Math.max(1, Math.min(this.#maxLimit, Math.round(limit)));
  }
}

function wantedOf(running: number): number {
  return Math.max(leastWaiting, Math.ceil(waitingShare * running));
}
