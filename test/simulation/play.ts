import { sleep } from "../../src/foundation/clock.ts";
import { planPathOf } from "../../src/run/directory/layout.ts";
import { readPlan } from "../../src/run/plan/plan.ts";
import type { RetryWhere } from "../../src/run/retry/plan-retry.ts";
import type { CallEnd } from "./call-end.ts";
import { callCancel, callClean, callRetry, callRun, callSeal, startRival } from "./calls.ts";
import { checkRetriedRows, checkSealedRun, type FoundRun } from "./check.ts";
import { startReader, startVerifier } from "./readers.ts";
import type { Chapter } from "./scenario.ts";
import type { World } from "./world.ts";

const maxFaultyCalls = 5;
const maxCleanTries = 40;
/** Calls that may fail once all faults are over: rows that kill their worker need some tries. */
const maxCleanFailures = 3;
/** What a store carries out late is done by then. */
const lateMs = 2100;

/** Goes through all chapters of a scenario, and checks the run after each. */
export async function play(world: World): Promise<void> {
  let found: FoundRun | undefined;
  for (const chapter of world.scenario.chapters) {
    await sleep(world.clock, lateMs);
    world.note(`chapter: ${chapter.kind}`);
    const isThrough = await playChapter(world, chapter);
    if (!isThrough) continue;
    const before = found;
    found = await checkSealedRun(world);
    const isSameRun = before?.generations[0]?.runId === found.generations[0]?.runId;
    if (chapter.kind === "retry" && before && isSameRun) {
      checkRetriedRows(world, before, found, chapter.where);
    }
  }
  for (const actor of world.actors) world.faults.resume(actor);
  await awaitAll(world);
  await finishReplaced(world);
  world.note("everything has ended");
  await checkSealedRun(world);
}

/** True once the run is sealed, or what else the chapter wants is done. */
async function playChapter(world: World, chapter: Chapter): Promise<boolean> {
  const { faults, random, clock } = world;
  const call = await callOf(world, chapter);
  if (isReplacing(chapter)) await putRivalsToWork(world);
  faults.begin();
  let isThrough = false;
  let isLeft = false;
  const isAbandoned = chapter.kind === "run" && chapter.isAbandoned;
  for (let calls = 0; calls < maxFaultyCalls && !isThrough && !isLeft; calls++) {
    faults.scheduleDisruption();
    scheduleVisits(world, chapter);
    const stopMs = stopMsOf(world, isAbandoned ? 1 : world.scenario.stopRate);
    isThrough = isDone(world, await call(random.next() < 0.5 ? "a" : "b", stopMs));
    isLeft = isAbandoned && !isThrough && (await world.standing()).runId !== undefined;
    await sleep(clock, random.next() * 500);
  }
  faults.isActive = false;
  world.note("faults are over");
  if (isLeft) return false;
  if (isReplacing(chapter)) killStranded(world);
  if (!isThrough) await finish(world, call);
  return true;
}

function isReplacing(chapter: Chapter): boolean {
  return chapter.kind === "run" && chapter.overwrite;
}

/** Workers of a scheduler that have tasks in hand when their run is to be replaced. */
async function putRivalsToWork(world: World): Promise<void> {
  const before = world.actors.length;
  for (let rival = 0; rival < world.scenario.rivals; rival++) {
    startRival(world, `rival-${rival}`, 1);
  }
  const rivals = world.actors.slice(before);
  const isOnItsWay = () => rivals.some((it) => it.serves === undefined && !it.hasEnded);
  while (isOnItsWay()) await sleep(world.clock, 10);
}

/** Workers that live on below a paused coordinator keep a run from being replaced. */
function killStranded(world: World): void {
  for (const actor of world.actors) {
    if (actor.parent?.process.state === "paused") world.kill(actor, "for the run to be replaced");
  }
}

/** A paused `run --overwrite` that went on may have replaced what was sealed, and been stopped. */
async function finishReplaced(world: World): Promise<void> {
  const last = lastRun(world);
  if (!last.overwrite || (await world.standing()).seals.sealed) return;
  await finish(world, (host) => callRun(world, { ...last, overwrite: false, host }));
}

/** One call more for the run that one has put in place so. */
async function goOnWithReplaced(world: World, host: string, end: CallEnd): Promise<void> {
  const isReplaced = "error" in end && end.error.code === "RUN_OPEN" && lastRun(world).overwrite;
  if (isReplaced) await callRun(world, { ...lastRun(world), overwrite: false, host });
}

const lastRun = ({ scenario }: World) =>
  scenario.chapters.filter((chapter) => chapter.kind === "run").at(-1)!;

type CallCommand = (host: string, stopMs?: number) => Promise<CallEnd>;

/** The command of a chapter, to be called until it is through. */
async function callOf(world: World, chapter: Chapter): Promise<CallCommand> {
  const before = await world.standing();
  if (chapter.kind === "clean") {
    return async (host) => {
      const end = await callClean(world, host);
      await goOnWithReplaced(world, host, end);
      return end;
    };
  }
  if (chapter.kind === "retry") {
    let { job, where } = chapter;
    return async (host, stopMs) => {
      const { last, sealed } = (await world.standing()).seals;
      // One of two calls at once may have sealed a retry, and the other planned the next one. What
      // one of them abandoned, for it had answered nothing, does not count.
      const isOpen = (await world.run.stat(planPathOf(last + 1))) !== undefined;
      const isSealed = sealed && sealed.generation > (before.seals.sealed?.generation ?? 0);
      if (isSealed && !isOpen) return await callSeal(world, host);
      const end = await callRetry(world, { ...chapter, job, where, host, stopMs });
      // A retry of a chapter before may have come back from the dead and planned the next one: it
      // is finished first, as the hint of the error says.
      if ("error" in end && end.error.code === "RUN_DIFFERS") {
        const begun = await readPlan(world.run, last + 1);
        ({ job } = begun);
        where = begun.where as RetryWhere;
      }
      await goOnWithReplaced(world, host, end);
      return end;
    };
  }
  return async (host, stopMs) => {
    const { runId } = await world.standing();
    const isReplaced = runId !== undefined && runId !== before.runId;
    const overwrite = chapter.overwrite && !isReplaced;
    const end = await callRun(world, { job: chapter.job, overwrite, host, stopMs });
    if (overwrite) await sleep(world.clock, lateMs);
    return end;
  };
}

function stopMsOf({ random, scenario }: World, chance: number): number | undefined {
  if (random.next() >= chance) return undefined;
  return random.next() * scenario.visitMs;
}

/** Others come while a call is at work: workers of a scheduler, cancels, cleanings, readers. */
function scheduleVisits(world: World, chapter: Chapter): void {
  const { clock, random, scenario, faults } = world;
  const { chapter: at } = faults;
  const later = (chance: number, ms: number, action: () => void) => {
    if (random.next() >= chance) return;
    clock.schedule(random.next() * ms, () => {
      if (faults.isActive && faults.chapter === at) action();
    });
  };
  const { visitRate, visitMs, rivals } = scenario;
  later(visitRate, visitMs, () => void callCancel(world, "a"));
  if (!isReplacing(chapter)) later(visitRate, visitMs, () => startReader(world));
  later(visitRate / 2, visitMs, () => void callClean(world, "b"));
  if (chapter.kind === "clean") later(visitRate, visitMs, () => startVerifier(world, "reader"));
  if (scenario.hasZombies) later(visitRate, visitMs, () => startVerifier(world, "command"));
  if (chapter.kind !== "run" || isReplacing(chapter)) return;
  for (let rival = 0; rival < rivals; rival++) {
    later(1, 220, () => startRival(world, `rival-${rival}`, 1));
  }
}

/** Calls the same command again until it is through; that must not take more than a few calls. */
async function finish(world: World, call: CallCommand): Promise<void> {
  let failures = 0;
  for (let calls = 0; calls < maxCleanTries; calls++) {
    const end = await call("c");
    if (isDone(world, end)) return;
    if (!("error" in end) || end.error.code !== "COORDINATOR_LIVES") failures++;
    if (failures > maxCleanFailures) break;
    await sleep(world.clock, 5000);
  }
  throw new Error("it is not done though all faults are over");
}

function isDone(world: World, end: CallEnd): boolean {
  if ("error" in end && end.error.code === "INTERNAL") {
    world.violate(`a bug: ${String((end.error.cause as Error)?.stack ?? end.error.message)}`);
  }
  return "idle" in end || ("result" in end && end.result.summary.sealed);
}

async function awaitAll(world: World): Promise<void> {
  const { clock } = world;
  const staying = new Set(world.actors);
  for (const actor of world.actors) {
    const end = Promise.race([actor.ended.catch(() => {}), actor.process.death]);
    void end.then(() => staying.delete(actor));
  }
  // In short steps: what is outside of the simulation, as a module that is loaded, takes turns too.
  // A call that was paused before it replaced the run does all of it anew, rows that kill included.
  for (let seconds = 0; seconds < 3600 && staying.size > 0; seconds++) await sleep(clock, 1000);
  for (const { role, pid } of staying) world.violate(`${role} ${pid} does not leave`);
  // What is under way may come to its end; what schedules itself again for ever stays.
  await sleep(clock, 60_000);
  for (const { role, pid, process } of world.actors) {
    const isHeld = process.state !== "killed" && process.timers > 0;
    if (isHeld) world.violate(`${role} ${pid} is done and has timers left`);
  }
}
