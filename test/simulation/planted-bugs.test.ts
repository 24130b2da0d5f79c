import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import type { Storage } from "../../src/data/storage/storage.ts";
import type { JournalLine } from "../../src/run/attempt/journal-line.ts";
import {
  ignoresConditions,
  lastCommitWins,
  looksThenWrites,
  publishesBeforeCommit,
  returnsBeforeFlush,
} from "./flawed-storages.ts";
import { makeInputs } from "./inputs.ts";
import { drawScenario } from "./scenario.ts";
import { hasFileWork, simulate } from "./simulate.ts";
import { type PlantInStore, World } from "./world.ts";

/** Bugs that lie in the code, not in a store: one at a time is switched on. */
const planted = vi.hoisted(() => ({ bug: "none" as "none" | "torn-lines" | "believes-exists" }));

vi.mock("../../src/run/attempt/journal-line.ts", async (importOriginal) => {
  const original = await importOriginal<typeof import("../../src/run/attempt/journal-line.ts")>();
  const mended = (text: string): JournalLine | undefined => {
    for (const end of ["", "}", '"}', '"}]}', "]}"]) {
      const line = original.parseJournalLine(text + end, true);
      if (line) return line;
    }
    return undefined;
  };
  const parseJournalLine: typeof original.parseJournalLine = (text, isWhole) =>
    planted.bug === "torn-lines" ? mended(text) : original.parseJournalLine(text, isWhole);
  return { ...original, parseJournalLine };
});

vi.mock("../../src/run/records.ts", async (importOriginal) => {
  const original = await importOriginal<typeof import("../../src/run/records.ts")>();
  const createOnce: typeof original.createOnce = async (storage, path, ...rest) => {
    if (planted.bug !== "believes-exists") return original.createOnce(storage, path, ...rest);
    let reply = "";
    const listening = {
      read: (from: string) => storage.read(from),
      createIfAbsent: async (to: string, data: Uint8Array) => {
        reply = "failed";
        reply = await storage.createIfAbsent(to, data);
        return reply;
      },
    };
    const outcome = await original.createOnce(listening as Storage, path, ...rest);
    return reply === "exists" ? { ...outcome, won: false } : outcome;
  };
  return { ...original, createOnce };
});

/** As many as the simulation itself goes through. */
const maxSeeds = 2000;

describe("the simulation catches planted bugs", () => {
  const inputs = makeInputs();
  afterAll(() => inputs.remove());
  afterEach(() => {
    planted.bug = "none";
  });

  /** The first violation that some seed brings about, or undefined. */
  async function firstViolation(plant?: PlantInStore): Promise<string | undefined> {
    for (let seed = 1; seed <= maxSeeds; seed++) {
      const { violations } = await simulate(seed, inputs, plant);
      if (violations.length > 0) return `seed ${seed}: ${violations[0]}`;
    }
    return undefined;
  }

  it("and has nothing to say without one", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const { violations } = await simulate(seed, inputs);
      expect(violations).toEqual([]);
    }
  });

  const stores: [name: string, plant: PlantInStore][] = [
    ["a commit before the flush of what it names", returnsBeforeFlush],
    ["the last writer of a commit wins", lastCommitWins],
    ["publication before the commit", publishesBeforeCommit],
  ];
  for (const [name, plant] of stores) {
    it(`${name}`, async () => {
      expect(await firstViolation(plant)).toMatch(/^seed/);
    });
  }

  it("torn lines of a journal are mended and replayed", async () => {
    planted.bug = "torn-lines";
    expect(await firstViolation()).toMatch(/^seed/);
  });

  it("“exists” for one's own success is taken for a defeat", async () => {
    planted.bug = "believes-exists";
    expect(await firstViolation()).toMatch(/^seed/);
  });
});

describe("a store that does not keep its conditions is refused before anything is asked", () => {
  const inputs = makeInputs();
  afterAll(() => inputs.remove());
  const stores: [name: string, plant: PlantInStore][] = [
    ["one that ignores them", ignoresConditions],
    ["one that looks first and writes then", looksThenWrites],
  ];
  for (const [name, plant] of stores) {
    it(name, async () => {
      for (let seed = 1; seed <= 100; seed++) {
        const world = new World(drawScenario(seed, inputs), inputs, plant, hasFileWork);
        world.isFaulty = false;
        const end = await world.clock.run(world.call("a"));
        expect(end, `seed ${seed}`).toMatchObject({ error: { code: "STORE_UNSUITABLE" } });
        expect(world.asks).toEqual([]);
      }
    });
  }
});
