import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { speedLines } from "../../src/cli/engine-speed-view.ts";
import type { Engine } from "../../src/engines/engine.ts";
import {
  fasterEngine,
  lastMeasurement,
  measureEngines,
  type SpeedOptions,
} from "../../src/engines/engine-speed.ts";
import type { ModelOptions } from "../../src/engines/model-options.ts";
import { SluiceError } from "../../src/foundation/errors.ts";
import { engineContext } from "./engine-context.ts";
import { ManualClock } from "./manual-clock.ts";

/** Engines whose every request takes so long, and one at a time. */
async function setUp(secondsOf: Record<string, number | SluiceError>) {
  const clock = new ManualClock(Date.parse("2026-11-24T12:00:00Z"));
  const homeDirectory = await mkdtemp(join(tmpdir(), "sluice-speed-"));
  const context = { ...engineContext(), clock, homeDirectory };
  const closed: string[] = [];
  const open = async ({ engine }: ModelOptions): Promise<Engine> => {
    const seconds = secondsOf[engine]!;
    if (seconds instanceof SluiceError) throw seconds;
    return {
      name: engine,
      capacity: 1,
      async infer({ parameters: { maxNewTokens: tokens } }) {
        await clock.advance(seconds * 1000);
        return {
          answers: [{ text: "", finishReason: "length", tokens }],
          usage: { promptTokens: 9, cachedTokens: 0, completionTokens: tokens },
          seconds,
        };
      },
      close: async () => void closed.push(engine),
    };
  };
  const options: SpeedOptions = {
    ...{ model: "m", requests: 4, install: false, signal: new AbortController().signal },
  };
  const measured = () => measureEngines(context, options, open);
  return { measured, context, homeDirectory, closed };
}

describe("measureEngines", () => {
  it("keeps how fast each engine is, and says which line switches", async () => {
    const { measured, context, closed } = await setUp({ llama: 2, openvino: 0.5 });
    const measurement = await measured();
    expect(measurement.speeds).toEqual([
      { engine: "llama", loadSeconds: 2, tokensPerSecond: 16 },
      { engine: "openvino", loadSeconds: 0.5, tokensPerSecond: 64 },
    ]);
    expect(closed).toEqual(["llama", "openvino"]);
    expect(await lastMeasurement(context)).toEqual(measurement);
    expect(fasterEngine(measurement, "llama")).toEqual({ engine: "openvino", ratio: 4 });
    expect(fasterEngine(measurement, "openvino")).toBeUndefined();
    expect(speedLines(measurement)).toEqual([
      "engine    load  tokens/s",
      "llama     2.0s        16",
      "openvino  0.5s        64",
      "",
      "openvino is 4.0 times as fast as llama on this machine: --model openvino:m",
    ]);
  });

  it("measures the others where one cannot run here", async () => {
    const missing = new SluiceError("ENGINE_MISSING", "there is no Python");
    const measurement = await (await setUp({ llama: 1, openvino: missing })).measured();
    expect(measurement.speeds.map(({ engine }) => engine)).toEqual(["llama"]);
    expect(speedLines(measurement).slice(2)).toEqual([
      `openvino was not measured: ${missing.message}`,
      "",
      "llama, the default, is the fastest engine here",
    ]);
  });

  it("fails where none can, and keeps nothing", async () => {
    const missing = new SluiceError("ENGINE_MISSING", "there is none");
    const { measured, context } = await setUp({ llama: missing, openvino: missing });
    await expect(measured()).rejects.toBe(missing);
    expect(await lastMeasurement(context)).toBeUndefined();
  });

  it("does not advise a change for a few percent", async () => {
    const measurement = await (await setUp({ llama: 1, openvino: 0.95 })).measured();
    expect(fasterEngine(measurement, "llama")).toBeUndefined();
  });
});

describe("lastMeasurement", () => {
  it("takes none of another machine, and none that is damaged", async () => {
    const { measured, context, homeDirectory } = await setUp({ llama: 1, openvino: 1 });
    await measured();
    const file = join(homeDirectory, "engine-speed.json");
    const text = await readFile(file, "utf8");
    await writeFile(file, text.replace(/"machine": "/, '"machine": "another '));
    expect(await lastMeasurement(context)).toBeUndefined();
    await writeFile(file, text.slice(0, 40));
    expect(await lastMeasurement(context)).toBeUndefined();
  });
});
