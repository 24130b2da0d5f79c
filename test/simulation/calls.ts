import { localBackend } from "../../src/backends/local/local.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { asSluiceError, SluiceError } from "../../src/foundation/errors.ts";
import { silentLogger } from "../../src/foundation/logger.ts";
import { cancelRun } from "../../src/run/cancel.ts";
import { cleanRun } from "../../src/run/clean.ts";
import type { JobSpec } from "../../src/run/job/schema.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import { runRetry } from "../../src/run/retry/run-retry.ts";
import { runJob } from "../../src/run/run-job.ts";
import { sealAsLeader } from "../../src/run/seal/seal-as-leader.ts";
import type { RunResult } from "../../src/run/status/run-result.ts";
import { type JoinedTasks, joinRun } from "../../src/run/worker/join-run.ts";
import { nothingPrepared } from "../run/dispatching.ts";
import { type Actor, ends } from "./actor.ts";
import { type CallEnd, describeEnd } from "./call-end.ts";
import { elasticBackend } from "./elastic-backend.ts";
import type { World } from "./world.ts";

/** One call of a command that works on rows, in a process of its own. */
export interface Call {
  host: string;
  /** When it is stopped, as by Ctrl-C, in milliseconds from its start; undefined = never. */
  stopMs?: number | undefined;
}

/** `sluice run`. */
export function callRun(
  world: World,
  { host, stopMs, job, overwrite }: Call & { job: JobSpec; overwrite: boolean },
): Promise<CallEnd> {
  const actor = world.newActor(host, "coordinator");
  const what = `${overwrite ? "run --overwrite" : "run"} ${actor.pid} on ${host}`;
  return carryOut(world, actor, { what, stopMs }, (shared) =>
    runJob(job, world.dependenciesOf(actor), { ...shared, overwrite, fork: false }),
  );
}

/** `sluice retry`. */
export function callRetry(
  world: World,
  { host, stopMs, job, where }: Call & { job: JobSpec; where: RetryWhere },
): Promise<CallEnd> {
  const actor = world.newActor(host, "coordinator");
  const what = `retry ${where} ${actor.pid} on ${host}`;
  return carryOut(world, actor, { what, stopMs }, (shared) =>
    runRetry(world.location, world.dependenciesOf(actor), {
      ...shared,
      where,
      change: async () => job,
    }),
  );
}

/** What `run` and `retry` take alike. */
function sharedOptions(world: World, actor: Actor, signal: AbortSignal) {
  return {
    backendOf: () =>
      world.scenario.isElastic
        ? elasticBackend(world, actor)
        : localBackend({
            machine: { cores: 4, memoryBytes: 2 ** 40 },
            startWorker: async (_location, _job, generation) =>
              world.startWorker(actor, generation),
          }),
    ...nothingPrepared,
    onEvent: () => {},
    signal,
  };
}

async function carryOut(
  world: World,
  actor: Actor,
  { what, stopMs }: { what: string; stopMs: number | undefined },
  start: (shared: ReturnType<typeof sharedOptions>) => Promise<RunResult | undefined>,
): Promise<CallEnd> {
  world.note(what);
  const stop = new AbortController();
  if (stopMs !== undefined) {
    const abort = () => stop.abort(new SluiceError("RUN_CANCELED"));
    world.clock.schedule(stopMs, () => {
      if (!actor.hasEnded) world.note(`stop ${actor.pid}`);
      actor.process.act(abort);
    });
  }
  const program = start(sharedOptions(world, actor, stop.signal)).then(
    (result): CallEnd => (result ? { result } : { idle: true }),
    (error: unknown): CallEnd => ({ error: asSluiceError(error) }),
  );
  return await endOf(world, actor, ends(actor, program));
}

/** How a call ends for who waits for it: it may be killed, or paused for long. */
async function endOf(world: World, actor: Actor, program: Promise<CallEnd>): Promise<CallEnd> {
  const end = await Promise.race([
    program,
    actor.process.death.then((): CallEnd => ({ gone: "killed" })),
    longPause(world, actor),
  ]);
  world.note(`call of ${actor.pid} ends: ${describeEnd(end)}`);
  return end;
}

async function longPause({ clock }: World, actor: Actor): Promise<CallEnd> {
  do await sleep(clock, 1000);
  while (actor.process.state === "running" && !actor.hasEnded);
  if (actor.process.state === "paused") return { gone: "paused" };
  return new Promise(() => {});
}

/**
 * A worker that joins without a coordinator: it begins with a part or anywhere, helps with the
 * rest, and seals if it is the last.
 */
export function startRival(world: World, host: string, generation: number): void {
  const actor = world.newActor(host, "rival");
  world.faults.doubts++;
  world.note(`rival ${actor.pid} on ${host}`);
  const serving = { ...world.servingOf(actor), generation };
  const quiet = { onEvent() {}, logger: silentLogger, signal: new AbortController().signal };
  const ways: JoinedTasks[] = [{}, { share: "0/2" }, { share: "1/2" }, { tasks: "0" }];
  const way = ways[actor.pid % ways.length]!;
  const program = joinRun(serving, { ...way, ...quiet }).then(
    () => world.note(`rival ${actor.pid} ends`),
    (error: unknown) => world.note(`rival ${actor.pid} ends: ${asSluiceError(error).message}`),
  );
  void ends(actor, program);
}

/** `sluice clean`. */
export function callClean(world: World, host: string): Promise<CallEnd> {
  const actor = world.newActor(host, "command");
  world.note(`clean ${actor.pid} on ${host}`);
  const program = cleanRun(world.dependenciesOf(actor), world.location, false).then(
    (): CallEnd => ({ idle: true }),
    (error: unknown): CallEnd => ({ error: asSluiceError(error) }),
  );
  return endOf(world, actor, ends(actor, program));
}

/** `sluice seal`: of a sealed run it publishes what the seal names. */
export function callSeal(world: World, host: string): Promise<CallEnd> {
  const actor = world.newActor(host, "command");
  world.note(`seal ${actor.pid} on ${host}`);
  const target = { location: world.location, dependencies: world.dependenciesOf(actor) };
  const program = sealAsLeader(target).then(
    (): CallEnd => ({ idle: true }),
    (error: unknown): CallEnd => ({ error: asSluiceError(error) }),
  );
  return endOf(world, actor, ends(actor, program));
}

/** `sluice cancel`, which waits for the end. */
export function callCancel(world: World, host: string): Promise<CallEnd> {
  const actor = world.newActor(host, "command");
  world.note(`cancel ${actor.pid} on ${host}`);
  const options = { waitMs: 30_000 };
  const program = cancelRun(world.dependenciesOf(actor), world.location, options).then(
    (end): CallEnd => {
      world.note(`cancel ${actor.pid}: ${end}`);
      return { idle: true };
    },
    (error: unknown): CallEnd => ({ error: asSluiceError(error) }),
  );
  return endOf(world, actor, ends(actor, program));
}
