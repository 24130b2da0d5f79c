import { type Channel, channelPair } from "../../src/foundation/channel.ts";
import { noUsage } from "../../src/foundation/inference.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import type { Preparation } from "../../src/run/dispatch/backend.ts";
import {
  Dispatcher,
  type DispatchOptions,
  type DrainNotice,
  type RefusedStart,
} from "../../src/run/dispatch/dispatch.ts";
import type { RunEvent } from "../../src/run/status/events.ts";
import { type FromWorker, protocolVersion, type ToWorker } from "../../src/run/worker/protocol.ts";
import { virtualClock } from "../fakes/virtual-clock.ts";
import { settled } from "./scripted-engine.ts";

type Message<Type extends FromWorker["type"]> = Omit<
  Extract<FromWorker, { type: Type }>,
  "type" | "usage" | "errors"
> & { errors?: Extract<FromWorker, { type: "task-end" }>["errors"] };

/** A worker that does what the test says. */
export interface ScriptedWorker {
  slot: number;
  heard: ToWorker[];
  /** Tasks it was told to run. */
  tasks(): number[];
  isKilled: boolean;
  channel: Channel<FromWorker, ToWorker>;
  ready(capacity?: number, protocol?: number): Promise<void>;
  /** Begins an attempt: the first worker `a0`, the next one `a1`. */
  start(task: number, resumed?: number): Promise<void>;
  /** Says that it lives, and what it does before it is ready. */
  beat(doing?: string): Promise<void>;
  /** Says that it asks these rows, an index set: no others, or these as well. */
  asking(task: number, rows: string, isAll?: boolean): Promise<void>;
  progress(task: number, facts: Partial<Message<"task-progress">>): Promise<void>;
  end(task: number, facts?: Partial<Message<"task-end">>): Promise<void>;
  /** Its place will be taken away. */
  drain(graceMs?: number): Promise<void>;
  /** Its machine is gone. */
  lose(reason: string): Promise<void>;
  /** Is gone. */
  die(reason?: string): Promise<void>;
}

/** A dispatcher at work over scripted workers. @param refusals of the first starts. */
export function dispatching(
  tasks: number,
  changes: Partial<DispatchOptions> = {},
  refusals: RefusedStart[] = [],
) {
  const clock = virtualClock();
  const pass = (ms: number) =>
    clock.run(new Promise<void>((resolve) => clock.schedule(ms, resolve)));
  const workers: ScriptedWorker[] = [];
  const events: RunEvent[] = [];
  const stop = new AbortController();
  const dispatcher = new Dispatcher({
    tasks: Array.from({ length: tasks }, (_, task) => task),
    rowsOf: () => 10,
    workers: 1,
    clock,
    random: seededRandom(2),
    maxTaskRetries: 1,
    failedBefore: 0,
    onEvent: (event) => events.push(event),
    signal: stop.signal,
    startWorker: async (slot) => {
      const refused = refusals.shift();
      if (refused) return refused;
      const { worker, handle } = scriptedWorker(slot, workers.length);
      workers.push(worker);
      return handle;
    },
    ...changes,
  });
  const ended = dispatcher.run();
  const worker = (number: number) => workers[number]!;
  const state = { isOver: false };
  void ended.then(() => {
    state.isOver = true;
  });
  return { dispatcher, clock, workers, worker, events, stop, ended, state, pass };
}

function scriptedWorker(slot: number, number: number) {
  const [near, far] = channelPair<ToWorker, FromWorker>();
  const gone = Promise.withResolvers<string>();
  const drained = Promise.withResolvers<DrainNotice>();
  const lost = Promise.withResolvers<string>();
  const heard: ToWorker[] = [];
  far.onMessage((message) => heard.push(message));
  const send = async (message: FromWorker) => {
    far.send(message);
    await settled();
  };
  const counts = { usage: noUsage, errors: {}, done: 0, failed: 0 };
  const worker: ScriptedWorker = {
    slot,
    heard,
    tasks: () => heard.flatMap((it) => (it.type === "task-run" ? it.task : [])),
    isKilled: false,
    channel: far,
    ready: (capacity = 1, protocol = protocolVersion) => {
      const facts = { worker: `w${slot}`, pid: 1, protocol, engine: "scripted", choices: {} };
      return send({ type: "worker-ready", ...facts, capacity });
    },
    start: (task, resumed = 0) =>
      send({
        type: "task-start",
        task,
        attempt: `a${number}`,
        rows: 10,
        resumed,
        resumedUsage: noUsage,
      }),
    beat: (doing) => send({ type: "worker-beat", ...(doing !== undefined && { doing }) }),
    asking: (task, rows, isAll = false) => send({ type: "task-asking", task, rows, isAll }),
    progress: (task, facts) =>
      send({ type: "task-progress", task, waiting: 5, inFlight: 1, ...counts, ...facts }),
    end: (task, facts = {}) =>
      send({ type: "task-end", task, outcome: "committed", ...counts, done: 10, ...facts }),
    drain: async (graceMs = 60_000) => {
      drained.resolve({ reason: "the node goes away", graceMs });
      await settled();
    },
    lose: async (reason) => {
      lost.resolve(reason);
      gone.resolve(reason);
      await settled();
    },
    die: async (reason = "killed") => {
      gone.resolve(reason);
      await settled();
    },
  };
  const kill = () => {
    worker.isKilled = true;
    gone.resolve("killed by its coordinator");
  };
  const ends = { ended: gone.promise, drained: drained.promise, lost: lost.promise };
  const handle = { channel: near, kill, ...ends };
  return { worker, handle };
}

const restartMs = 60_000;

/** Lets time pass until `count` workers were started. */
export async function untilStarted(
  { clock, workers }: Pick<ReturnType<typeof dispatching>, "clock" | "workers">,
  count: number,
): Promise<void> {
  await clock.run(
    (async () => {
      while (workers.length < count) {
        await new Promise<void>((resolve) => clock.schedule(10, resolve));
      }
    })(),
    restartMs,
  );
}

/** For backends that prepare nothing. */
export const nothingPrepared: Preparation = {
  install: false,
  logger: silentLogger,
  signal: new AbortController().signal,
};
