import { softwareVersion } from "../entry.ts";
import type { Logger } from "../foundation/logger.ts";
import type { Telemetry } from "../foundation/telemetry.ts";
import { asksForTelemetry, isProgramTraced } from "../telemetry/asked.ts";
import type { Surroundings } from "./surroundings.ts";

/** Whether a process has anything to trace for. */
export function isTraced({ environment }: Pick<Surroundings, "environment">): boolean {
  return isProgramTraced() || asksForTelemetry(environment);
}

/** The tracing of the user's own program; undefined if it has none. */
export async function telemetryOfProgram(): Promise<Telemetry | undefined> {
  if (!isProgramTraced()) return undefined;
  return (await import("../telemetry/open.ts")).telemetryOfProgram(softwareVersion());
}

/**
 * The telemetry of a command: that of OpenTelemetry as somebody loaded it into this process, else
 * what the variables ask for. Nothing is loaded if nobody asks.
 *
 * @param logger gets what the variables ask for in vain, and faults of the export.
 * @param write takes the lines of exporter `console`.
 */
export async function openCommandTelemetry(
  { clock, random, environment, process }: Surroundings,
  logger: Logger,
  write: (line: string) => void,
): Promise<Telemetry | undefined> {
  const found = await telemetryOfProgram();
  if (found) return found;
  const { openTelemetry } = await import("../telemetry/open.ts");
  const software = softwareVersion();
  const { pid } = process;
  return openTelemetry(environment, { clock, random, logger, software, pid, write });
}
