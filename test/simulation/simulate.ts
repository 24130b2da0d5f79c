import type { SimulatedInputs } from "./inputs.ts";
import { play } from "./play.ts";
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

/**
 * One run from plan to seal under the faults of a seed, what is done with it afterwards, and the
 * check of what it left. Nothing in it depends on anything but the seed.
 */
export async function simulate(
  seed: number,
  inputs: SimulatedInputs,
  plant: PlantInStore = (inner) => inner,
  isFar = false,
): Promise<Simulated> {
  const world = new World(drawScenario(seed, inputs, isFar), inputs, plant, hasFileWork);
  try {
    await world.clock.run(play(world));
    checkAsks(world);
  } catch (error) {
    world.violate(String((error as Error).stack));
  } finally {
    await world.close();
  }
  return {
    violations: world.violations,
    story: storyOf(world),
    asks: world.ledger.asks.length,
    virtualMs: world.clock.monotonic(),
  };
}

// Planning looks at the real input files.
export function hasFileWork(): boolean {
  return process.getActiveResourcesInfo().some((it) => /FSReq|CloseReq/.test(it));
}

/**
 * Where only kills and clean stops happened, no request is asked twice but those that were in
 * flight at the kills.
 */
function checkAsks(world: World): void {
  const { scenario, ledger } = world;
  const { storageFaultRate, fullDisk, rivals, hasZombies, job } = scenario;
  const isPlain = storageFaultRate === 0 && !fullDisk && rivals === 0 && !hasZombies;
  const failures = job.model.engine === "fake" ? job.model.failures.length : 0;
  if (!isPlain || hasKillerRow(job) || failures > 0) return;
  const asked = Map.groupBy(ledger.asks, ({ serves }) => serves);
  for (const [serves, asks] of asked) {
    const once = new Set(asks.map(({ request }) => request)).size;
    const twice = asks.length - once;
    const allowed = ledger.inFlightAtKills.get(serves) ?? 0;
    if (twice > allowed) world.violate(`${serves}: ${twice} asked twice, ${allowed} allowed`);
  }
}

function storyOf({ scenario, log, violations }: World): string {
  const { job, input, chapters, ...facts } = scenario satisfies Scenario;
  const { model, workers, shard, output, prompts, prompt } = job;
  const plot = chapters.map(({ kind, ...chapter }) => {
    if (!("job" in chapter)) return kind;
    const { job: own, ...rest } = chapter;
    return { kind, ...rest, model: own.model, generation: own.generation };
  });
  return [
    `seed ${scenario.seed}: TEST_SLUICE_SIMULATION_SEED=${scenario.seed} runs it alone`,
    JSON.stringify({ rows: input.lines.length, ...facts }),
    JSON.stringify({ model, workers, shard, output, prompt, prompts }),
    JSON.stringify(plot),
    ...log,
    ...violations.map((violation) => `violated: ${violation}`),
  ].join("\n");
}
