import { describe, expect, it } from "vitest";
import { EndedEarly, Restarting } from "../../src/engines/restarting.ts";
import { sleep } from "../../src/foundation/clock.ts";
import { limits } from "../../src/foundation/limits.ts";
import { seededRandom } from "../../src/foundation/random.ts";
import { virtualClock } from "../fakes/virtual-clock.ts";

/** Something whose n-th start gives n, or throws what `fails` says of it. */
function counted(fails: (start: number) => Error | undefined = () => undefined) {
  const clock = virtualClock();
  const lines: string[] = [];
  let starts = 0;
  const lives = new Restarting<number>({
    name: "it",
    start: async () => {
      const failure = fails(++starts);
      if (failure) throw failure;
      return starts;
    },
    context: {
      clock,
      random: seededRandom(1),
      logger: { log: (_level, message) => void lines.push(message) },
    },
  });
  return { lives, clock, lines, starts: () => starts };
}

/** Lets it die as often as it may. */
async function diesOften(lives: Restarting<number>): Promise<void> {
  await lives.open();
  for (let death = 0; death < limits.maxEngineDeaths; death++) {
    lives.noteDeath();
    await lives.live();
  }
}

describe("Restarting", () => {
  it("shares one start among all callers, and starts again after a death", async () => {
    const { lives, clock } = counted();
    await clock.run(
      (async () => {
        expect(await lives.open()).toBe(1);
        expect(await Promise.all([lives.live(), lives.live()])).toEqual([1, 1]);
        expect(lives.noteDeath()).toBe(true);
        expect(await Promise.all([lives.live(), lives.live()])).toEqual([2, 2]);
        expect(clock.monotonic()).toBeGreaterThan(0);
      })(),
    );
  });

  it("holds no caller whose signal is aborted, and starts it for the others", async () => {
    const { lives, clock } = counted();
    const leaving = new AbortController();
    await clock.run(
      (async () => {
        await lives.open();
        lives.noteDeath();
        const left = lives.live(leaving.signal);
        const staying = lives.live(new AbortController().signal);
        leaving.abort(new Error("gone"));
        await expect(left).rejects.toThrow("gone");
        expect(clock.monotonic()).toBe(0);
        expect(await staying).toBe(2);
      })(),
    );
  });

  it("takes a first failure as final", async () => {
    const { lives, starts } = counted(() => new EndedEarly("later", []));
    await expect(lives.open()).rejects.toThrow("later");
    expect(starts()).toBe(1);
  });

  it("tries a start again where that may help, so many times", async () => {
    const { lives, clock, lines, starts } = counted((start) =>
      start === 1 ? undefined : new EndedEarly("later", []),
    );
    await clock.run(
      (async () => {
        await lives.open();
        lives.noteDeath();
        await expect(lives.live()).rejects.toThrow("later");
      })(),
    );
    expect(starts()).toBe(1 + limits.maxEngineStarts);
    expect(lines[0]).toMatch(/^it did not start, trying again: .*later/);
  });

  it("gives up what only dies, and forgets deaths when it answers", async () => {
    const { lives, clock } = counted();
    await clock.run(
      (async () => {
        await diesOften(lives);
        lives.noteAnswer();
        for (let death = 0; death <= limits.maxEngineDeaths; death++) {
          if (death > 0) await lives.live();
          lives.noteDeath();
        }
        await expect(lives.live()).rejects.toMatchObject({ code: "ENGINE_START_FAILED" });
      })(),
    );
  });

  it("tries what it gave up once more after each longest wait", async () => {
    const { lives, clock, starts } = counted();
    const givenUp = { code: "ENGINE_START_FAILED" };
    await clock.run(
      (async () => {
        await diesOften(lives);
        for (let tries = 0; tries < 3; tries++) {
          const before = starts();
          lives.noteDeath();
          await expect(lives.live()).rejects.toMatchObject(givenUp);
          await sleep(clock, limits.backoffMaxMs - 1);
          await expect(lives.live()).rejects.toMatchObject(givenUp);
          await sleep(clock, 1);
          expect(await Promise.all([lives.live(), lives.live()])).toEqual([before + 1, before + 1]);
        }
      })(),
    );
  });

  it("hands out what lives when it is closed, once, and starts nothing more", async () => {
    const { lives } = counted();
    await lives.open();
    expect(await lives.close()).toBe(1);
    expect(await lives.close()).toBeUndefined();
    expect(lives.noteDeath()).toBe(false);
    await expect(lives.live()).rejects.toMatchObject({ code: "ENGINE_DIED" });
  });
});
