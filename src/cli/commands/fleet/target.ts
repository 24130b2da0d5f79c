import type { Command } from "commander";
import { runDependencies } from "../../../api/run-dependencies.ts";
import { storeFromEnvironment, storeWords } from "../../../data/s3/store-options.ts";
import { absoluteLocation } from "../../../data/storage/open.ts";
import { SluiceError } from "../../../foundation/errors.ts";
import { type Logger, textLogger } from "../../../foundation/logger.ts";
import type { RunDependencies } from "../../../run/dependencies.ts";
import type { Fleet } from "../../../run/fleet/fleet.ts";
import type { CliIo } from "../../io.ts";
import { argumentOf } from "../../run-target.ts";

/** Where fleets are, if nothing else is said. */
const defaultRoot = "fleets";

export interface TargetFlags {
  fleets?: string;
  id?: string;
  fleetId?: string;
  name?: string;
  fleetName?: string;
  json?: boolean;
}

export function withPlace(command: Command): Command {
  return command.option(
    "--fleets <place>",
    `folder or bucket of the fleets; default: SLUICE_FLEETS, else ${defaultRoot}`,
  );
}

/** Declares how a fleet is named. */
export function withTarget(command: Command): Command {
  return withPlace(command)
    .option("--id <id>", "the fleet's id")
    .option("--fleet-id <id>", "the same")
    .option("--name <name>", "the fleet's name")
    .option("--fleet-name <name>", "the same");
}

export function rootOf({ fleets }: TargetFlags, io: CliIo): string {
  const named = fleets ?? (io.environment.SLUICE_FLEETS || defaultRoot);
  return absoluteLocation(io.workingDirectory, named);
}

/**
 * The options of a later command that finds the same fleet.
 *
 * @example
 * nextFlags("--fleet-id", fleet, flags, io); // "--fleet-id 3f7a1c2a-…"
 */
export function nextFlags(
  option: "--id" | "--fleet-id",
  { record }: Pick<Fleet, "record">,
  flags: TargetFlags,
  io: CliIo,
): string {
  return `${option} ${record.id}${placeFlags(flags, io)}`;
}

/** The options of a later command that looks at the same place, each after a space. */
export function placeFlags(flags: TargetFlags, io: CliIo): string {
  const place = flags.fleets === undefined ? "" : ` --fleets ${argumentOf(rootOf(flags, io), io)}`;
  return place + storeWords(storeFromEnvironment(io.environment));
}

export interface FleetTarget {
  fleet: Fleet;
  root: string;
  dependencies: RunDependencies;
}

/**
 * Finds the fleet that the flags name.
 *
 * @throws SluiceError `USAGE`, `NOT_A_RUN`.
 */
export async function openTargetFleet(
  flags: TargetFlags,
  io: CliIo,
  logger: Logger = textLogger((line) => void io.stderr.write(line)),
): Promise<FleetTarget> {
  const ids = [flags.id, flags.fleetId].filter((id) => id !== undefined);
  const names = [flags.name, flags.fleetName].filter((name) => name !== undefined);
  if (ids.length + names.length !== 1) {
    const detail =
      ids.length + names.length === 0 ? "no fleet is named" : "several fleets are named";
    throw new SluiceError("USAGE", detail, { hint: "give --id, or --name" });
  }
  const { openFleet } = await import("../../../run/fleet/fleet.ts");
  const dependencies = runDependencies(io, logger);
  const root = rootOf(flags, io);
  const fleet = await openFleet(root, { id: ids[0], name: names[0] }, dependencies);
  return { fleet, root, dependencies };
}
