import { sleep } from "../../src/foundation/clock.ts";
import type { CallEnd } from "./call-end.ts";
import { checkSealedRun } from "./check.ts";
import type { SimulatedInputs } from "./inputs.ts";
import { drawScenario, hasKillerRow, type Scenario } from "./scenario.ts";
import { type PlantInStore, World } from "./world.ts";

/** What a simulated run came to. */
export interface Simulated {
  violations: readonly string[];
  /** The scenario and all that befell it, for people. */
  story: string;
  asks: number;
  virtualMs: number;
}

const maxFaultyCalls = 5;
const maxCleanTries = 40;
/** Calls that may fail once all faults are over: rows that kill their worker need some tries. */
const maxCleanFailures = 3;

/**
 * One run from plan to seal under the faults of a seed, and then the check of what it left. Nothing
 * in it depends on anything but the seed.
 */
export async function simulate(
  seed: number,
  inputs: SimulatedInputs,
  plant: PlantInStore = (inner) => inner,
): Promise<Simulated> {
  const world = new World(drawScenario(seed, inputs), inputs, plant, hasFileWork);
  try {
    await world.clock.run(play(world));
  } catch (error) {
    world.violate(String((error as Error).stack));
  }
  return {
    violations: world.violations,
    story: storyOf(world),
    asks: world.asks.length,
    virtualMs: world.clock.monotonic(),
  };
}

// Planning looks at the real input files.
export function hasFileWork(): boolean {
  return process.getActiveResourcesInfo().includes("FSReqPromise");
}

async function play(world: World): Promise<void> {
  const { scenario, clock } = world;
  const random = world.random();
  let isSealed = false;
  for (let call = 0; call < maxFaultyCalls && !isSealed; call++) {
    world.scheduleDisruption();
    for (let rival = 0; rival < scenario.rivals; rival++) {
      clock.schedule(20 + random.next() * 200, () => {
        if (world.isFaulty) world.startRival(`rival-${rival}`);
      });
    }
    isSealed = isSealedBy(world, await world.call(random.next() < 0.5 ? "a" : "b"));
    await sleep(clock, random.next() * 500);
  }
  world.isFaulty = false;
  world.note("faults are over");
  await finish(world);
  checkAsks(world);
  await checkSealedRun(world);
  world.resumeAll();
  await awaitAll(world);
  world.note("everything has ended");
  await checkSealedRun(world);
}

/** Runs the same job again until it is sealed; that must not take more than a few calls. */
async function finish(world: World): Promise<void> {
  let failures = 0;
  for (let call = 0; call < maxCleanTries; call++) {
    const end = await world.call("c");
    if (isSealedBy(world, end)) return;
    if (!("error" in end) || end.error.code !== "COORDINATOR_LIVES") failures++;
    if (failures > maxCleanFailures) break;
    await sleep(world.clock, 5000);
  }
  throw new Error("it is not sealed though all faults are over");
}

function isSealedBy(world: World, end: CallEnd): boolean {
  if ("error" in end && end.error.code === "INTERNAL") {
    world.violate(`a bug: ${String((end.error.cause as Error)?.stack ?? end.error.message)}`);
  }
  return "result" in end && end.result.summary.sealed;
}

async function awaitAll(world: World): Promise<void> {
  const { clock } = world;
  const staying = new Set(world.actors);
  const all = Promise.all(
    world.actors.map((actor) =>
      Promise.race([actor.ended, actor.process.death]).then(() => staying.delete(actor)),
    ),
  );
  await Promise.race([all, sleep(clock, 600_000)]);
  for (const { role, pid } of staying) world.violate(`${role} ${pid} does not leave`);
  // What is under way may come to its end; what schedules itself again for ever stays.
  await sleep(clock, 60_000);
  for (const { role, pid, process } of world.actors) {
    const isHeld = process.state !== "killed" && process.timers > 0;
    if (isHeld) world.violate(`${role} ${pid} is done and has timers left`);
  }
}

/** Where only kills happened, no more rows are asked twice than were in flight at the kills. */
function checkAsks(world: World): void {
  const { scenario, asks, inFlightAtKills } = world;
  const { storageFaultRate, fullDisk, rivals, hasZombies, job } = scenario;
  const isPlain = storageFaultRate === 0 && !fullDisk && rivals === 0 && !hasZombies;
  const failures = job.model.engine === "fake" ? job.model.failures.length : 0;
  if (!isPlain || hasKillerRow(scenario) || failures > 0) return;
  const prompts = Object.keys(job.prompts ?? { prompt: true }).length;
  const answerable = scenario.input.lines.filter(({ broken }) => !broken).length;
  const allowed = (answerable + inFlightAtKills) * prompts;
  if (asks.length > allowed) world.violate(`${asks.length} asks, ${allowed} allowed`);
}

function storyOf({ scenario, log, violations }: World): string {
  const { job, input, ...facts } = scenario satisfies Scenario;
  const { model, workers, shard, output, prompts } = job;
  return [
    `seed ${scenario.seed}: SLUICE_SIMULATION_SEED=${scenario.seed} runs it alone`,
    JSON.stringify({ rows: input.lines.length, ...facts }),
    JSON.stringify({ model, workers, shard, output, prompts: Object.keys(prompts ?? {}).length }),
    ...log,
    ...violations.map((violation) => `violated: ${violation}`),
  ].join("\n");
}
