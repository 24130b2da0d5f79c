import { type EngineMeasurement, fasterEngine } from "../engines/engine-speed.ts";
import { right, table } from "../terminal/table.ts";

/** A measurement as lines for people, with the line that switches to the fastest engine. */
export function speedLines(measurement: EngineMeasurement): string[] {
  const { speeds, refused, model } = measurement;
  const rows = speeds.map(({ engine, loadSeconds, tokensPerSecond }) => [
    engine,
    `${loadSeconds.toFixed(1)}s`,
    tokensPerSecond.toFixed(0),
  ]);
  return [
    ...table(["engine", right("load"), right("tokens/s")], rows),
    ...refused.map(({ engine, reason }) => `${engine} was not measured: ${reason}`),
    "",
    switchLine(measurement, "llama", model) ?? "llama, the default, is the fastest engine here",
  ];
}

/**
 * What a job with engine `current` would gain from another one.
 *
 * @param name the job's model, for the flag that switches.
 * @returns undefined if it has the fastest engine, or without a measurement.
 */
export function switchLine(
  measurement: EngineMeasurement,
  current: string,
  name: string,
): string | undefined {
  const faster = fasterEngine(measurement, current);
  if (!faster) return undefined;
  const { engine, ratio } = faster;
  const flag = engine === "llama" ? `--model ${name}` : `--model ${engine}:${name}`;
  return `${engine} is ${ratio.toFixed(1)} times as fast as ${current} on this machine: ${flag}`;
}
