import { type SpawnOptions, spawn } from "node:child_process";
import { afterEach, expect, it } from "vitest";
import type { Spawn } from "../../src/foundation/subprocess.ts";
import { DeviceFigures, devicePollMs } from "../../src/serve/device-figures.ts";
import { ManualClock } from "../engines/manual-clock.ts";
import { standInDriver, threeGpus } from "../engines/stand-in-driver.ts";

let figures: DeviceFigures | undefined;
afterEach(() => figures?.close());

/** Figures of a machine whose driver says these lines, and how often it was asked. */
function watched(lines: string[] | undefined) {
  const clock = new ManualClock();
  const path = lines === undefined ? "/nowhere" : standInDriver(threeGpus, 0, [], lines);
  const asked = { times: 0 };
  const counting = ((command: string, args: readonly string[], options: SpawnOptions) => {
    asked.times++;
    return spawn(command, args, options);
  }) as Spawn;
  figures = new DeviceFigures({ environment: { PATH: path }, clock, spawn: counting });
  return { clock, asked, figures };
}

it("looks again and again until it is closed", async () => {
  const { clock, asked, figures: watch } = watched(["0, 1024, 46068, 37"]);
  await watch.begin();
  expect(watch.latest).toMatchObject([{ id: "0", utilization: 0.37 }]);
  await clock.advance(devicePollMs - 1);
  expect(asked.times).toBe(1);
  await clock.advance(1);
  expect(asked.times).toBe(2);
  await expect.poll(() => clock.timers).toBe(1);
  watch.close();
  expect(clock.timers).toBe(0);
});

it("asks once on a machine without a driver", async () => {
  const { clock, asked, figures: watch } = watched(undefined);
  await watch.begin();
  expect([watch.latest, asked.times, clock.timers]).toEqual([[], 1, 0]);
});
